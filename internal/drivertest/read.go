package drivertest

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func init() {
	checks = append(checks, check{"reads", reads})
	ofSlots = append(ofSlots, check{"a Cluster's reads", clusterReads})
}

// reader opens a client whose keys can be read.
func (b *bed) reader(t testing.TB, to redistest.Target) driver.Reader {
	t.Helper()
	r, reads := b.over(t, to).Redis.(driver.Reader)
	require.True(t, reads, "it is no driver.Reader")
	return r
}

// Each read has its answer, in their order. The refusal of a read is its answer.
func reads(t testing.TB, b *bed) {
	s := redistest.Start(t)
	s.Do("HSET", "h", "f", "1")
	s.Do("SET", "s", "text")
	d := b.reader(t, s.Target())
	got, err := d.Read(t.Context(), []string{"HSCAN", "h", "0", "COUNT", "10"}, []string{"GET", "h"}, []string{"GET", "s"},
		[]string{"GET", "nothing"}, []string{"PTTL", "nothing"}, []string{"HMGET", "h", "g", "f"})
	require.NoError(t, err)
	require.Len(t, got, 6)
	require.Equal(t, driver.List(driver.String("0"), driver.List(driver.String("f"), driver.String("1"))), got[0])
	refused(t, got[1].Err(), "WRONGTYPE")
	require.Equal(t, []driver.Value{driver.String("text"), {}, driver.Int(-2), driver.List(driver.Value{}, driver.String("1"))}, got[2:])
	require.Equal(t, []string{"h", "s"}, keysOf(t, d), "the keys of the masters")
	s.Kill()
	_, err = d.Read(t.Context(), []string{"GET", "s"})
	require.Error(t, err)
	require.False(t, isReply(err), "a dead server answers nothing")
}

// keysOf returns the keys of all masters, sorted.
func keysOf(t testing.TB, d driver.Reader) []string {
	t.Helper()
	masters, err := d.Masters(t.Context())
	require.NoError(t, err)
	var all []string
	for _, m := range masters {
		got, err := m.Do(t.Context(), []string{"KEYS", "*"})
		require.NoError(t, err)
		keys, err := got[0].Texts()
		require.NoError(t, err)
		all = append(all, keys...)
	}
	slices.Sort(all)
	return all
}

// Reads of keys in many slots go together, also to a slot that has moved. Each master has its keys,
// once, also for a client that reads from replicas.
func clusterReads(t testing.TB, b *bed) {
	to := b.cluster.Target()
	for _, to.Replicas = range []bool{false, true} {
		d := b.reader(t, to)
		var keys []string
		var gets [][]string
		var want []driver.Value
		for i := range 30 {
			key := fmt.Sprintf("{read%02d}", i)
			b.cluster.MasterFor(key).Do("SET", key, fmt.Sprint(i))
			keys, gets, want = append(keys, key), append(gets, []string{"GET", key}), append(want, driver.String(fmt.Sprint(i)))
		}
		read := func() bool { // a replica may be late
			got, err := d.Read(t.Context(), gets...)
			return err == nil && reflect.DeepEqual(got, want)
		}
		eventually(t, read, "the values")
		require.Subset(t, keysOf(t, d), keys)
		b.cluster.MoveSlot(keys[0])
		eventually(t, read, "the values, after a slot moved")
		require.Subset(t, keysOf(t, d), keys)
	}
}
