package procfs

import (
	"os"
	"path/filepath"
	"testing"
)

func TestASLR(t *testing.T) {
	for _, c := range []struct{ personality, host, want string }{
		{"00000000\n", "2\n", "on"},
		{"00000000\n", "1\n", "on"},
		{"00000000\n", "0\n", "off"},
		{"00040000\n", "2\n", "off"},
		{"00440008\n", "2\n", "off"},
		{"ffbfffff\n", "2\n", "off"},
		{"00400000\n", "2\n", "on"},
		{"nothing\n", "2\n", ""},
		{"00000000\n", "", ""},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{"7/personality": c.personality, "sys/kernel/randomize_va_space": c.host} {
			file = filepath.Join(dir, file)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := FS(dir).Process(7).ASLR(); got != c.want {
			t.Errorf("%q, %q: %q, want %q", c.personality, c.host, got, c.want)
		}
		if got, want := FS(dir).ASLR(), map[string]string{"2\n": "on", "1\n": "on", "0\n": "off"}[c.host]; got != want {
			t.Errorf("host with %q: %q, want %q", c.host, got, want)
		}
		if got := FS(dir).Process(8).ASLR(); got != "" {
			t.Errorf("of nobody: %q", got)
		}
	}
}

func FuzzParseASLR(f *testing.F) {
	f.Add([]byte("00040000\n"), []byte("2\n"))
	f.Fuzz(func(t *testing.T, personality, host []byte) {
		if drawn, err := parseASLR(personality, host); err != nil && drawn {
			t.Errorf("both %v and %v", drawn, err)
		}
	})
}
