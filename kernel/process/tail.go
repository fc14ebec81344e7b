package process

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
)

// Tail keeps the end of what a program prints. It may be written to and read at once.
type Tail struct {
	Most int // bytes that are kept; 0 is 1 MiB

	mu   sync.Mutex
	kept []byte
	cut  bool // something before it is gone
}

func (t *Tail) most() int {
	if t.Most > 0 {
		return t.Most
	}
	return 1 << 20
}

func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if len(t.kept) > 2*t.most() { // seldom, as it is copied
		t.kept, t.cut = bytes.Clone(t.end()), true
	}
	return len(p), nil
}

func (t *Tail) end() []byte { return t.kept[max(0, len(t.kept)-t.most()):] }

// Bytes are a copy of what is kept.
func (t *Tail) Bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.end())
}

// Cut reports whether more was written than is kept.
func (t *Tail) Cut() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cut || len(t.kept) > t.most()
}

// LastLine is the beginning of the last line that is not empty; empty where there is none.
func (t *Tail) LastLine() string {
	const most = 200
	text := bytes.TrimSpace(t.Bytes())
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	return string(bytes.ToValidUTF8(text[:min(len(text), most)], []byte("?")))
}

// WithLastLine adds the last line to an error that does not hold it: what the program
// itself complained of.
func (t *Tail) WithLastLine(err error) error {
	line := t.LastLine()
	if err == nil || line == "" || strings.Contains(err.Error(), line) {
		return err
	}
	return fmt.Errorf("%w (the program's last line: %s)", err, line)
}
