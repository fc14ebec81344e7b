package bare

import (
	"bytes"
	"testing"
)

// FuzzReadReport: what a stage says is the program's, when it has been executed with the pipe left open.
func FuzzReadReport(f *testing.F) {
	f.Add([]byte(`{"CPU":1000}`))
	f.Add([]byte(`{"CPU":1000}{"Error":"execve","Errno":2}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := readReport(bytes.NewReader(text), "program"); err != nil && err.Error() == "" {
			t.Errorf("%q is refused without a word", text)
		}
	})
}
