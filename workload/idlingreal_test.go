package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/load"
)

// idlers are the idle services, as neighbours have them.
var idlers = []Idling{static, heap, redis{}}

// startIdler launches one at a port of its own, with about so many bytes to hold.
func startIdler(t *testing.T, w Idling, bytes int64, pairs ...string) *dialled {
	t.Helper()
	img := realImage(t, w.Source().Recipe)
	port := freePort(t)
	p, err := w.Sized(resolve(t, w, append(pairs, "port", port)...), bytes)
	if err != nil {
		t.Fatal(err)
	}
	return &dialled{realTrial: serveAlone(t, w, p, img, port)}
}

// ask sends so many requests to one, one after the other.
func ask(t *testing.T, w Idling, tr *dialled, filled, seed uint64, requests int64) load.Result {
	t.Helper()
	target, err := w.Asks(tr, filled, seed)
	if err != nil {
		t.Fatal(err)
	}
	r, err := load.Run(t.Context(), target, load.Options{Connections: 1, Count: requests, Duration: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// anonymous sums up the anonymous memory of a program and all that it started.
func anonymous(t *testing.T, pid int) (bytes int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Anonymous:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			bytes = kib << 10
		}
	}
	children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range children {
		text, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for _, child := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(child)
			if err != nil {
				t.Fatal(err)
			}
			bytes += anonymous(t, pid)
		}
	}
	return bytes
}

// An idle service holds what it was given, in anonymous memory, and gives it back right
// to the byte; what it does not have, or has otherwise, is reported.
func TestRealIdlers(t *testing.T) {
	t.Parallel()
	const holds = 8 << 20
	for _, w := range idlers {
		t.Run(w.Name(), func(t *testing.T) {
			tr := startIdler(t, w, holds)
			if err := w.Ready(t.Context(), tr); err != nil {
				t.Fatalf("%v; it printed %s", err, lastWords(tr))
			}
			empty := anonymous(t, tr.pid)
			if r := ask(t, w, tr, 1, 1, 10); r.Requests != 0 || r.Failed() != 10 {
				t.Errorf("before it was filled: %+v, want 10 failures", r)
			}
			if err := w.Fill(t.Context(), tr, 1); err != nil {
				t.Fatalf("%v; it printed %s", err, lastWords(tr))
			}
			o, err := readObjects(tr.params)
			if err != nil {
				t.Fatal(err)
			}
			held := anonymous(t, tr.pid)
			t.Logf("%.1f MiB of objects, %.1f of anonymous memory, %.1f of that before", mib(o.bytes()), mib(held), mib(empty))
			if held < o.bytes() {
				t.Errorf("%d bytes of anonymous memory hold %d of objects", held, o.bytes())
			}
			program, err := w.Program(tr.params)
			if err != nil {
				t.Fatal(err)
			}
			if held > program.MemoryNeed {
				t.Errorf("it took %d bytes, and is said to need %d", held, program.MemoryNeed)
			}
			dials := tr.dials.Load()
			if r := ask(t, w, tr, 1, 1, 300); r.Requests != 300 || r.Failed() != 0 || tr.dials.Load() != dials+1 {
				t.Errorf("%+v over %d connections, want 300 answers over one", r, tr.dials.Load()-dials)
			}
			if r := ask(t, w, tr, 2, 1, 10); r.Requests != 0 {
				t.Errorf("%d answers with what another seed lays there", r.Requests)
			}
			if err := w.Fill(t.Context(), tr, 2); err != nil {
				t.Fatal(err)
			}
			if r := ask(t, w, tr, 2, 2, 300); r.Requests != 300 || r.Failed() != 0 {
				t.Errorf("filled anew: %+v, want 300 answers", r)
			}
			// Java's heap grows to its size before a collector is asked.
			if again := anonymous(t, tr.pid); again > program.MemoryNeed || w != Idling(heap) && again > held+o.bytes()/2 {
				t.Errorf("filled anew it has %.1f MiB of anonymous memory", mib(again))
			}
			tr.end()
			if err := w.Fill(t.Context(), tr, 1); err == nil {
				t.Error("a service that has ended was filled")
			}
		})
	}
}

// Many of a kind run beside one another, each at a port of its own and with objects of
// its own, and have them still when all the others have come.
func TestRealIdlersSideBySide(t *testing.T) {
	t.Parallel()
	const neighbours = 8
	for _, w := range idlers {
		t.Run(w.Name(), func(t *testing.T) {
			var all []*dialled
			for n := range neighbours {
				tr := startIdler(t, w, 2<<20)
				if err := w.Ready(t.Context(), tr); err != nil {
					t.Fatalf("%v; it printed %s", err, lastWords(tr))
				}
				if err := w.Fill(t.Context(), tr, uint64(n)); err != nil {
					t.Fatalf("%v; it printed %s", err, lastWords(tr))
				}
				all = append(all, tr)
			}
			for n, tr := range all {
				if r := ask(t, w, tr, uint64(n), 1, 50); r.Requests != 50 || r.Failed() != 0 {
					t.Errorf("neighbour %d: %+v, want 50 answers", n, r)
				}
			}
		})
	}
}

// Requests make garbage, and each collector comes for it.
func TestRealHeapCollects(t *testing.T) {
	t.Parallel()
	for collector := range heapCollectors {
		t.Run(collector, func(t *testing.T) {
			tr := startIdler(t, heap, usualObjects<<10, "collector", collector)
			if err := heap.Ready(t.Context(), tr); err != nil {
				t.Fatalf("%v; it printed %s", err, lastWords(tr))
			}
			if err := heap.Fill(t.Context(), tr, 1); err != nil {
				t.Fatalf("%v; it printed %s", err, lastWords(tr))
			}
			before := collections(t, tr.address)
			if r := ask(t, heap, tr, 1, 1, 100); r.Requests != 100 {
				t.Errorf("%+v, want 100 answers", r)
			}
			after := collections(t, tr.address)
			t.Logf("%d collections while it was filled, %d in 100 requests", before, after-before)
			// 100 MiB of garbage go through 8 MiB.
			if after-before < 5 || after-before > 100 {
				t.Errorf("%d collections in 100 requests", after-before)
			}
		})
	}
}

// A heap of huge pages has some, and one of small ones none.
func TestRealHeapPages(t *testing.T) {
	t.Parallel()
	if mode, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled"); err != nil || strings.Contains(string(mode), "[never]") {
		t.Skipf("needs transparent huge pages: %s, %v", mode, err)
	} else if strings.Contains(string(mode), "[always]") {
		t.Skip("needs transparent huge pages for those alone that ask for them: here all have them")
	}
	for _, pages := range []string{"small", "huge"} {
		tr := startIdler(t, heap, usualObjects<<10, "pages", pages)
		if err := heap.Ready(t.Context(), tr); err != nil {
			t.Fatalf("%v; it printed %s", err, lastWords(tr))
		}
		if err := heap.Fill(t.Context(), tr, 1); err != nil {
			t.Fatalf("%v; it printed %s", err, lastWords(tr))
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", tr.pid))
		if err != nil {
			t.Fatal(err)
		}
		none := strings.Contains(strings.Join(strings.Fields(string(text)), " "), "AnonHugePages: 0 kB")
		if none != (pages == "small") {
			t.Errorf("%s pages: %s", pages, text)
		}
	}
}

// A redis that is to save itself does, by a fork each time, and answers on.
func TestRealRedisSavesItself(t *testing.T) {
	t.Parallel()
	tr := startIdler(t, redis{}, 8<<20, "snapshot", "20")
	if err := (redis{}).Ready(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	if err := (redis{}).Fill(t.Context(), tr, 1); err != nil {
		t.Fatal(err)
	}
	if r := ask(t, redis{}, tr, 1, 1, 60); r.Requests != 60 {
		t.Errorf("%+v, want 60 answers", r)
	}
	conn, err := net.Dial("tcp", tr.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := conn.Write([]byte("INFO stats\r\nQUIT\r\n")); err != nil {
		t.Fatal(err)
	}
	info, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, forks, ok := strings.Cut(string(info), "total_forks:"); !ok || strings.HasPrefix(forks, "0\r") {
		t.Errorf("it saved itself never: %s", info)
	}
}

// collections asks the server how many there were.
func collections(t *testing.T, address string) (n int64) {
	t.Helper()
	response, err := http.Get("http://" + address + "/collections")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct{ Collections int64 }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return answer.Collections
}

// Objects of every size that can be asked for go in and come back.
func TestRealIdlersOfSeveralSizes(t *testing.T) {
	t.Parallel()
	for _, w := range idlers {
		for _, unit := range []int64{leastUnit, mostUnit} {
			t.Run(fmt.Sprint(w.Name(), unit), func(t *testing.T) {
				tr := startIdler(t, w, unitsInRound*unit, "unit", strconv.FormatInt(unit, 10), "draw", drawHot, "compressible", "50")
				if err := w.Ready(t.Context(), tr); err != nil {
					t.Fatalf("%v; it printed %s", err, lastWords(tr))
				}
				if err := w.Fill(t.Context(), tr, 7); err != nil {
					t.Fatalf("%v; it printed %s", err, lastWords(tr))
				}
				if r := ask(t, w, tr, 7, 1, 100); r.Requests != 100 || r.Failed() != 0 {
					t.Errorf("%+v, want 100 answers", r)
				}
			})
		}
	}
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
