package nodes

import (
	"testing"

	"tare/record"
)

// endless is a node that goes on writing one line.
type endless struct{ bytes int }

func (e *endless) Read(p []byte) (int, error) {
	if e.bytes += len(p); e.bytes > 1<<20 {
		panic("a MiB of a line was read")
	}
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestANodesTimeIsShort(t *testing.T) {
	if _, _, err := receive(t.Context(), new(endless), open(t), record.Part{}); err == nil {
		t.Error("it is accepted")
	}
}
