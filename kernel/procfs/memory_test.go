package procfs

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"
)

// A process whose memory stays locked keeps nobody waiting for ever, and at most one thread for each file. It is
// read again when that is over.
func TestLockedMemory(t *testing.T) {
	fs := FS(t.TempDir())
	p := fs.Process(7)
	if err := os.Mkdir(p.Path(""), 0o755); err != nil {
		t.Fatal(err)
	}
	reads := map[string]func() error{
		"cmdline": func() error { _, err := p.Args(); return err },
		"environ": func() error { _, err := p.Environ(); return err },
		"maps": func() error {
			_, err := p.Maps()
			_, asText := p.MapsText()
			return errors.Join(err, asText)
		},
		"pagemap": func() error {
			if p.Locked() {
				return ErrLocked
			}
			return nil
		},
	}
	for name, read := range reads {
		// A read of a pipe waits while a writer has it open.
		if err := syscall.Mkfifo(p.Path(name), 0o600); err != nil {
			t.Fatal(err)
		}
		holds, err := os.OpenFile(p.Path(name), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := read(); !errors.Is(err, ErrLocked) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := errors.Join(os.Remove(p.Path(name)), os.WriteFile(p.Path(name), nil, 0o600), holds.Close()); err != nil {
			t.Fatal(err)
		}
		for err = ErrLocked; errors.Is(err, ErrLocked); err = read() {
		}
		if err != nil {
			t.Errorf("%s, when that is over: %v", name, err)
		}
	}
	if err := os.WriteFile(p.Path("cmdline"), []byte("a\x00b\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	if args, err := p.Args(); err != nil || !slices.Equal(args, []string{"a", "b"}) {
		t.Errorf("%q, %v", args, err)
	}
}
