package lab

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
)

// Output keeps the end of what a program prints. It may be written to and read at once.
type Output struct {
	Most int // bytes that are kept; 0 is 1 MiB

	mu   sync.Mutex
	kept []byte
}

func (o *Output) most() int {
	if o.Most > 0 {
		return o.Most
	}
	return 1 << 20
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = append(o.kept, p...)
	if len(o.kept) > 2*o.most() { // seldom, as it is copied
		o.kept = bytes.Clone(o.end())
	}
	return len(p), nil
}

func (o *Output) end() []byte { return o.kept[max(0, len(o.kept)-o.most()):] }

// Bytes are a copy of what is kept.
func (o *Output) Bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.end())
}

// LastLine is the beginning of the last line that is not empty; empty where there is none.
func (o *Output) LastLine() string {
	const most = 200
	text := bytes.TrimSpace(o.Bytes())
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	return string(bytes.ToValidUTF8(text[:min(len(text), most)], []byte("?")))
}

// WithLastLine adds the last line to an error that does not hold it: what the program
// itself complained of.
func (o *Output) WithLastLine(err error) error {
	line := o.LastLine()
	if err == nil || line == "" || strings.Contains(err.Error(), line) {
		return err
	}
	return fmt.Errorf("%w (the program's last line: %s)", err, line)
}
