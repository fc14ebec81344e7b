package simulate

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"hash"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/annex"
	"tare/annex/synthetic"
)

// recorded is a manager whose requests are counted, and hashed in their order.
type recorded struct {
	Manager
	stream hash.Hash
	counts map[kind]amount
}

type kind struct {
	op  annex.Op
	why annex.Reason
}

type amount struct{ requests, pages int }

func (r *recorded) Plan(now annex.Moment) ([]annex.Request, annex.Moment) {
	requests, next := r.Manager.Plan(now)
	fmt.Fprintln(r.stream, now, next)
	for _, q := range requests {
		fmt.Fprintf(r.stream, "%+v\n", q)
		k := kind{q.Op, q.Why}
		n := r.counts[k]
		n.requests++
		n.pages += annex.Count(q.Runs) + q.Unmapped
		r.counts[k] = n
	}
	return requests, next
}

// TestRequests holds what data management asks for over each kind of container, request by
// request: a change that is none of policy leaves it as it is. go test -update has the file written anew.
func TestRequests(t *testing.T) {
	t.Parallel()
	path := filepath.Join("testdata", "requests.txt")
	var got strings.Builder
	for _, container := range synthetic.Kinds {
		if container == synthetic.Serving {
			continue
		}
		h, m := box(t, container)
		p := Policies(h.Memory)[3]
		manage, r := p.Manage, &recorded{stream: sha256.New(), counts: map[kind]amount{}}
		p.Manage = func() Manager {
			r.Manager = manage()
			return r
		}
		run(t, h, made(t, m), p)
		fmt.Fprintf(&got, "%s %x\n", container, r.stream.Sum(nil))
		kinds := slices.SortedFunc(maps.Keys(r.counts), func(a, b kind) int {
			return cmp.Or(cmp.Compare(a.op, b.op), cmp.Compare(a.why, b.why))
		})
		for _, k := range kinds {
			fmt.Fprintf(&got, "\t%s %s: %d requests, %d pages\n", k.op, k.why, r.counts[k].requests, r.counts[k].pages)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%swant\n%s", &got, want)
	}
}
