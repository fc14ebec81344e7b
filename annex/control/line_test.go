package control

import (
	"bufio"
	"bytes"
	"testing"
)

// FuzzReadLine: the lines that are read are those that came, whole.
func FuzzReadLine(f *testing.F) {
	f.Add([]byte("{}\n{\"state\":\"managing\"}\n"), 16)
	f.Add([]byte("no end"), 3)
	f.Fuzz(func(t *testing.T, text []byte, room int) {
		r, rest := bufio.NewReaderSize(bytes.NewReader(text), min(max(room, 16), 1<<10)), text
		for {
			line, err := readLine(r)
			if err != nil {
				if bytes.Contains(rest, []byte("\n")) {
					t.Errorf("%v, and %q is left", err, rest)
				}
				return
			}
			if !bytes.HasPrefix(rest, line) || bytes.IndexByte(line, '\n') != len(line)-1 {
				t.Fatalf("line %q of %q", line, rest)
			}
			rest = rest[len(line):]
		}
	})
}
