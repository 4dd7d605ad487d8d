package patch

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// source returns the root of the installed Go.
func source(t *testing.T) string {
	root, version, err := Installed()
	require.NoError(t, err)
	if !strings.HasPrefix(version, "go1.26") && os.Getenv("RELOCK_LONG") != "1" {
		t.Skip("made for Go 1.26")
	}
	return root
}

func TestOverlayFitsTheSource(t *testing.T) {
	root, dir := source(t), t.TempDir()
	flags, err := Write(root, "go9.9", dir)
	require.NoError(t, err)
	require.Equal(t, []string{"-overlay=" + filepath.Join(dir, "overlay.json"), "-tags=" + Tag}, flags)

	var list struct{ Replace map[string]string }
	text, err := os.ReadFile(filepath.Join(dir, "overlay.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &list))
	require.Len(t, list.Replace, 15)
	for original, path := range list.Replace {
		require.True(t, strings.HasPrefix(original, filepath.Join(root, "src")), original)
		_, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
	}
	added, err := os.ReadFile(filepath.Join(dir, "runtime", "zsim.go"))
	require.NoError(t, err)
	require.Contains(t, string(added), `simVersion = "go9.9"`)
}

// TestOtherSourceIsRefused takes away and doubles the text of every replacement in turn.
func TestOtherSourceIsRefused(t *testing.T) {
	root := source(t)
	for _, r := range replacements {
		text, err := os.ReadFile(filepath.Join(root, "src", r.file))
		require.NoError(t, err)
		for _, other := range []string{"", r.from + r.from} {
			other := strings.Replace(string(text), r.from, other, 1)
			_, err := replaced(changed(t, root, r.file, other), "go9.9")
			require.ErrorContains(t, err, "the overlay does not fit go9.9: "+r.file)
			require.ErrorContains(t, err, r.from)
		}
	}
	_, err := Write(t.TempDir(), "go9.9", t.TempDir())
	require.ErrorIs(t, err, os.ErrNotExist)
}

// changed returns a source directory whose one file has other text.
func changed(t *testing.T, root, file, text string) string {
	src := t.TempDir()
	for _, r := range replacements {
		path := filepath.Join(src, r.file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		if _, err := os.Lstat(path); err != nil {
			require.NoError(t, os.Symlink(filepath.Join(root, "src", r.file), path))
		}
	}
	require.NoError(t, os.Remove(filepath.Join(src, file)))
	require.NoError(t, os.WriteFile(filepath.Join(src, file), []byte(text), 0o666))
	return src
}
