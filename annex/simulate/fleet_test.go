package simulate

import (
	"context"
	"testing"
	"time"

	"tare/annex"
	"tare/annex/synthetic"
)

func TestFleetTakesFewerHostsWithAnnexThanStock(t *testing.T) {
	t.Parallel()
	h, m := box(t, synthetic.Periodic)
	m.Groups = m.Groups[1:]
	f := Fleet{Containers: 200, Host: h, P99: 20 * time.Millisecond, Grain: 16}
	plan := func(i int) Planned {
		p, err := Plan(context.Background(), m, f, func(memory int64) Policy { return Policies(memory)[i] })
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	stock, extended := plan(0), plan(3)
	if again := plan(3); again != extended {
		t.Errorf("%+v, and then %+v", extended, again)
	}
	if fits := int(h.Memory / (16 * mebibyte)); stock.PerHost < fits-2 || extended.PerHost <= stock.PerHost {
		t.Errorf("stock bears %d a host, annex %d; %d fit without swap", stock.PerHost, extended.PerHost, fits)
	}
	if extended.Ran != min(extended.Hosts, DefaultSample) {
		t.Errorf("%d of %d hosts were run, want %d at most", extended.Ran, extended.Hosts, DefaultSample)
	}
	f.Sample = 2
	if few := plan(3); few.Ran != min(2, few.Hosts) || few.Hosts != extended.Hosts {
		t.Errorf("of two hosts: %+v, want the same fleet as %+v", few, extended)
	}
	var told []Progress
	f.Tell = func(at Progress) { told = append(told, at) }
	if again := plan(3); again.PerHost != extended.PerHost {
		t.Errorf("told of, a host bears %d, and %d untold", again.PerHost, extended.PerHost)
	}
	for i, at := range told {
		if at.Policy != extended.Policy || at.Bears > extended.PerHost || at.Fails != 0 && at.Fails <= extended.PerHost || i > 0 && at.Bears < told[i-1].Bears {
			t.Errorf("step %d of %d: %+v, and a host bears %d", i, len(told), at, extended.PerHost)
		}
	}
	if first, last := told[0], told[len(told)-1]; first != (Progress{Policy: extended.Policy, Trying: 1}) || last != (Progress{Policy: extended.Policy, Bears: extended.PerHost, Ran: 2, Hosts: 2}) {
		t.Errorf("it begins with %+v and ends with %+v", first, last)
	}
	if want := (f.Containers + extended.PerHost - 1) / extended.PerHost; extended.Hosts != want {
		t.Errorf("%d hosts, want %d", extended.Hosts, want)
	}
}

func TestScaleKeepsProportions(t *testing.T) {
	m := synthetic.Mix{Groups: []synthetic.Group{{Class: annex.Critical, Count: 2}, {Class: annex.Elastic, Count: 1}, {Class: annex.Elastic, Count: 2}}}
	for n := range 30 {
		s := scale(m, n)
		if s.Groups[0].Count != 2 || s.Groups[1].Count+s.Groups[2].Count != n || s.Groups[2].Count < 2*s.Groups[1].Count-2 || s.Groups[2].Count > 2*s.Groups[1].Count+2 {
			t.Errorf("%d: %v", n, s.Groups)
		}
	}
}
