package simulate

import (
	"context"
	"errors"
	"testing"
	"time"

	"tare/annex"
	"tare/annex/synthetic"
)

// A run that has a bar ends early exactly where a whole one's p99 is above it.
func TestBarIsTheP99(t *testing.T) {
	t.Parallel()
	h, m := box(t, synthetic.Periodic)
	idle := m
	idle.Groups = m.Groups[1:]
	ended, passed := 0, 0
	for i, m := range []synthetic.Mix{m, idle} {
		m.Duration, h.Warm = m.Duration/2, 20*time.Second
		for _, p := range Policies(h.Memory)[i : i+1] {
			from, err := synthetic.Make(m)
			if err != nil {
				t.Fatal(err)
			}
			whole, err := Run(context.Background(), h, from, p)
			if err != nil {
				t.Fatal(err)
			}
			p99 := whole.Delays.P99
			if m.Containers(annex.Critical) > 0 {
				p99 = whole.Critical.P99
			}
			if p99 < 4 {
				continue // nothing took any time
			}
			for _, most := range []time.Duration{p99 / 4, p99 / 2, p99 - 1, p99, 2 * p99} {
				b, err := newBar(t.Context(), m, h.Warm, most)
				if err != nil {
					t.Fatal(err)
				}
				if from, err = synthetic.Make(m); err != nil {
					t.Fatal(err)
				}
				r, err := runTo(context.Background(), h, from, p, b)
				switch {
				case errors.Is(err, errMissed):
					ended++
					if p99 <= most {
						t.Errorf("%s: ended for a bar of %v, the whole run's p99 is %v", p.Name, most, p99)
					}
				case err != nil:
					t.Fatal(err)
				default:
					passed++
					if got := r.Critical.P99; m.Containers(annex.Critical) > 0 && got != p99 {
						t.Errorf("%s: p99 %v with a bar, %v without", p.Name, got, p99)
					}
					// What a run leaves unfinished at its end may keep it from being certain.
					if p99 > 2*most {
						t.Errorf("%s: a bar of %v did not end a run whose p99 is %v", p.Name, most, p99)
					}
				}
			}
		}
	}
	if ended == 0 || passed == 0 {
		t.Errorf("%d runs were ended, %d passed: want some of both", ended, passed)
	}
}
