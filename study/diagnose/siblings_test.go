package diagnose

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"tare/kernel/host"
	"tare/kernel/memory"
	"tare/probe"
	"tare/probe/pagetable"
)

// hold holds memory, of which each page is unlike any other of the same process. They are copies
// of a file's pages: what is mapped of no file may be one mapping with what lies beside it.
func hold(mib string) {
	n, err := strconv.Atoi(mib)
	if err != nil {
		panic(err)
	}
	file, err := os.CreateTemp("", "hold")
	if err != nil {
		panic(err)
	}
	mapping, err := memory.MapFile(file, n*mebibyte, false)
	if err := errors.Join(err, os.Remove(file.Name()), file.Truncate(int64(n)*mebibyte)); err != nil {
		panic(err)
	}
	all := mapping.Bytes()
	for at := 0; at < len(all); at += pagetable.PageSize {
		binary.LittleEndian.PutUint64(all[at:], uint64(at)+1)
	}
	fmt.Println("1") // it holds
	time.Sleep(time.Hour)
}

// Three containers of an image hold the same 64 MiB; another of another image holds as much.
func TestSiblingsThatHoldTheSame(t *testing.T) {
	const each = 64
	var all []*planted
	for i := range 4 {
		all = append(all, &planted{name: fmt.Sprintf("web-%d", i+1), program: fmt.Sprintf("hold %d", each)})
	}
	found := plant(t, all...)
	taker, _, err := pagetable.Open()
	if missing := new(probe.Missing); errors.As(err, &missing) {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := taker.Close(); err != nil {
		t.Fatal(err)
	}
	var facts []*Facts
	for i, c := range found {
		if c.Image = "web:2"; i == 3 {
			c.Image = "other:1"
		}
		facts = append(facts, &Facts{Container: c, Span: time.Second})
	}
	for _, p := range all {
		p.await(t)
	}
	whole := host.Read("/").Memory
	notes := compareSiblings(t.Context(), facts, whole)
	if len(notes) > 0 {
		t.Skipf("the host is too busy: %q", notes) // within the bound of time
	}
	got := one(t, Diagnose(&Host{CPUs: 2, Memory: whole}, facts))
	t.Logf("%s %s: %s, %+v", got.ID, got.Says, got.Cost, got.Evidence)
	if got.ID != "web-1/duplicated" {
		t.Fatalf("%s, want web-1/duplicated", got.ID)
	}
	near(t, "memory held twice, MiB", float64(got.Cost.Bytes)/mebibyte, 2*each)
}

// await waits until the program has said something.
func (p *planted) await(t *testing.T) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(ms) {
		p.mu.Lock()
		n := len(p.took)
		p.mu.Unlock()
		if n > 0 {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("%s (%d) says nothing", p.name, os.Getpid())
		}
	}
}
