package file

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestCopyWithHoles(t *testing.T) {
	const length = 8 << 20
	for name, words := range map[string]map[int64]string{
		"empty":          nil,
		"only a hole":    {length: ""},
		"hole first":     {length - 5: "words"},
		"hole last":      {0: "words", length: ""},
		"hole in middle": {0: "words", length / 2: "more", length - 5: "words"},
		"no hole":        {0: string(bytes.Repeat([]byte("x"), 10_000))},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			open := func(name string) *os.File {
				f, err := os.Create(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { f.Close() })
				return f
			}
			from, to := open("from"), open("to")
			for at, word := range words {
				_, err := from.WriteAt([]byte(word), at)
				info, serr := from.Stat()
				if err := errors.Join(err, serr); err != nil {
					t.Fatal(err)
				}
				if err := from.Truncate(max(at, info.Size())); err != nil {
					t.Fatal(err)
				}
			}
			if err := CopyWithHoles(to, from); err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(from.Name())
			got, err2 := os.ReadFile(to.Name())
			if err := errors.Join(err, err2); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes came out as %d others (%v)", len(want), len(got), err)
			}
			if a, b := blocks(t, from), blocks(t, to); b > a {
				t.Errorf("%d blocks became %d", a, b)
			}
		})
	}
}

func blocks(t *testing.T, f *os.File) int64 {
	t.Helper()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks
}
