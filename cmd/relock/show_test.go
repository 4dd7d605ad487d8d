package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The names in JSON stay: scripts read them. One may be added, here too.
func TestNamesInJSONStay(t *testing.T) {
	var names []string
	var of func(path string, is reflect.Type)
	of = func(path string, is reflect.Type) {
		for is.Kind() == reflect.Pointer || is.Kind() == reflect.Slice {
			is = is.Elem()
		}
		if is.Kind() != reflect.Struct || is.PkgPath() == "time" {
			names = append(names, path)
			return
		}
		for i := range is.NumField() {
			f := is.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous:
				of(path, f.Type)
			case path == "":
				of(name, f.Type)
			default:
				of(path+"."+name, f.Type)
			}
		}
	}
	of("", reflect.TypeFor[seenLock]())
	slices.Sort(names)
	const client = " name host pid started version"
	var want []string
	for at, all := range map[string]string{
		"":    "name kind held holder handed_over count age_ms ttl_ms waiters longest_wait_ms token nodes reserved permits free",
		"by.": client, "readers.": "holder", "readers.by.": client, "holders.": "holder count ttl_ms", "holders.by.": client,
		"queue.": "client owner side permits waiting_ms", "queue.by.": client,
	} {
		for _, name := range strings.Fields(all) {
			want = append(want, at+name)
		}
	}
	slices.Sort(want)
	require.Equal(t, want, names)
}
