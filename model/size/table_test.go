package size

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the table of docs/platforms-model.md anew")

const page = "../../docs/platforms-model.md"

// The page's table is what the simulations give.
func TestTableIsTrue(t *testing.T) {
	begin, end := []byte("<!-- table: begin -->\n"), []byte("<!-- table: end -->")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := bytes.Cut(text, begin)
	old, after, closed := bytes.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", page)
	}
	table := simulated(t)
	if *update {
		if err := os.WriteFile(page, bytes.Join([][]byte{before, begin, table, end, after}, nil), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(old, table) {
		t.Errorf("the table of %s is not what the simulations give: go test ./model/size -run TableIsTrue -update\n%s", page, table)
	}
}

func simulated(t *testing.T) []byte {
	const runs, spread, blocks = 40, 0.05, 20
	micros := time.Microsecond
	busy := Program{Tasks: 300, Burst: 100 * micros, Wait: 100 * micros}
	var out bytes.Buffer
	fmt.Fprintln(&out, "| program, costs | sizes | truth at 2 CPUs, at the host | platform held | size found | forms allowed: 1 - CHR, ln, root, 1/CHR | predictions held | 10 %: truth, fit, held |")
	fmt.Fprintln(&out, "|---|---|---|---:|---:|---|---:|---|")
	for _, s := range []struct {
		name string
		p    Program
		c    Costs
		mode Mode
	}{
		{"waits, none", waits, Costs{}, Vanilla},
		{"waits, all, pinned", waits, known, Pinned},
		{"computes, all", computes, known, Vanilla},
		{"waits, all", waits, known, Vanilla},
		{"waits much, all", busy, known, Vanilla},
		{"waits, migration alone", waits, Costs{Migration: 200 * micros}, Vanilla},
		{"computes, release alone", computes, Costs{Release: 4 * time.Millisecond}, Vanilla},
	} {
		truth := map[float64]float64{}
		every := []float64{2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 88, 112}
		for _, n := range every {
			truth[n] = overhead(t, s.c, s.p, s.mode, n, 1.3)
		}
		for _, c := range []struct {
			name  string
			sizes []float64
		}{{"2 to 64", []float64{2, 4, 8, 16, 32, 64}}, {"2 to 112", []float64{2, 4, 8, 16, 32, 64, 112}}} {
			random := rand.New(rand.NewPCG(1, 2))
			var platform, found, predicted, held, refused, within int
			allowed := map[Form]int{}
			var shares []float64
			for range runs {
				var all []Point
				for _, n := range c.sizes {
					all = append(all, drawn(random, Point{CPUs: n, HostCPUs: 112, Tasks: float64(s.p.Tasks)}, truth[n], spread, blocks))
				}
				f, err := Fit(all, Options{})
				if err != nil {
					t.Fatal(err)
				}
				if holds(f.Platform, truth[112]) {
					platform++
				}
				if !holds(f.Size, 0) {
					found++
				}
				for _, g := range f.Forms {
					if g.Allowed {
						allowed[g.Form]++
					}
				}
				for _, n := range every {
					q := all[0]
					q.CPUs, q.SE = n, 0
					e, err := f.Predict(q)
					if err != nil {
						refused++
						continue
					}
					predicted++
					if holds(e, truth[n]) {
						held++
					}
				}
				if e, err := LeastShare(f, 0.1); err == nil {
					shares = append(shares, e.Value)
					if holds(e, least(every, truth)) {
						within++
					}
				}
			}
			percent := func(n, of int) string { return fmt.Sprintf("%.0f %%", 100*float64(n)/float64(of)) }
			fmt.Fprintf(&out, "| %s | %s | %.3f, %.3f | %s | %s |", s.name, c.name, truth[2], truth[112], percent(platform, runs), percent(found, runs))
			for i, g := range Forms {
				if i > 0 {
					fmt.Fprint(&out, ",")
				}
				fmt.Fprintf(&out, " %s", percent(allowed[g], runs))
			}
			fmt.Fprintf(&out, " | %s of %d | %s, %s, %s |\n", percent(held, predicted), predicted, crossing(every, truth), middleOf(shares, runs), percent(within, max(1, len(shares))))
		}
	}
	return out.Bytes()
}

// crossing is the least share at which the true cost of size is below 10 %.
func crossing(cpus []float64, truth map[float64]float64) string {
	n := least(cpus, truth)
	if n == 0 {
		return "any"
	}
	return fmt.Sprintf("%.2f", n)
}

func least(cpus []float64, truth map[float64]float64) float64 {
	limit := truth[112] + math.Log(1.1)
	for i := len(cpus) - 1; i >= 0; i-- {
		if truth[cpus[i]] > limit {
			a, b := cpus[i], cpus[i+1]
			n := a + (b-a)*(truth[a]-limit)/(truth[a]-truth[b])
			return n / 112
		}
	}
	return 0
}

func middleOf(shares []float64, runs int) string {
	var sum float64
	for _, s := range shares {
		sum += s
	}
	if 2*len(shares) < runs {
		return "refused"
	}
	return fmt.Sprintf("%.2f", sum/float64(len(shares)))
}
