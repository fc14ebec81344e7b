package place

import (
	"strings"
	"testing"
	"time"
)

// windows are pairs in which the waits and the others' CPU time are so long, and
// differ a little from pair to pair.
func windows(pairs int, without, with time.Duration, othersWithout, othersWith float64) []Window {
	var all []Window
	for i := range pairs {
		for _, on := range []bool{i%2 == 0, i%2 != 0} {
			w := Window{Pair: i, With: on, Span: time.Second}
			scale, others, differs := without, othersWithout, (i*7)%5
			if on {
				scale, others, differs = with, othersWith, (i*3+1)%5
			}
			for n := range 1000 {
				w.Waits.Add(scale * time.Duration(900+20*differs+n%100) / 1000)
			}
			w.Others = others * (1 + 0.01*float64(differs))
			all = append(all, w)
		}
	}
	return all
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name    string
		windows []Window
		kept    bool
		says    string
	}{
		{"helps, and costs nothing", windows(8, time.Millisecond, 100*time.Microsecond, 0.9, 0.95), true, "wait less"},
		{"helps, and leaves the others their share", windows(8, time.Millisecond, 100*time.Microsecond, 1.7, 0.9), true, "keep their share"},
		{"helps at the others' cost", windows(8, time.Millisecond, 100*time.Microsecond, 1.7, 0.4), false, "have only 0.41 CPUs"},
		{"does nothing", windows(8, time.Millisecond, time.Millisecond, 0.9, 0.9), false, "do not change significantly"},
		{"harms", windows(8, 100*time.Microsecond, time.Millisecond, 0.9, 0.9), false, "longer"},
		{"one pair is too few", windows(1, time.Millisecond, 100*time.Microsecond, 0.9, 0.9), false, "too few"},
	} {
		j := judge(c.windows, 0.8, nil, 1)
		if j.Kept != c.kept || !strings.Contains(j.Why, c.says) {
			t.Errorf("%s: kept %t, because %q; %+v", c.name, j.Kept, j.Why, j)
		}
	}
}
