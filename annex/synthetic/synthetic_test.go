package synthetic

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"tare/annex"
	"tare/annex/trace"
)

func mix(kind Kind) Mix {
	return Mix{Seed: 3, Duration: Duration(4000 * time.Second), Groups: []Group{{Name: "a", Kind: kind, Class: annex.Elastic, Count: 2, Pages: 64, Every: Duration(2 * time.Second), Requests: 4}}}
}

func events(t *testing.T, m Mix) []trace.Event {
	t.Helper()
	s, err := Make(m)
	if err != nil {
		t.Fatal(err)
	}
	var all []trace.Event
	for {
		e, err := s.Next()
		if err != nil {
			return all
		}
		all = append(all, e)
	}
}

func TestEventsAreInOrderAndBurstsApart(t *testing.T) {
	for _, kind := range Kinds {
		last := annex.Moment(0)
		awake := map[int]bool{}
		for _, e := range events(t, mix(kind)) {
			if e.At < last {
				t.Fatalf("%s: %v after one at %d", kind, e, last)
			}
			last = e.At
			switch e.Kind {
			case trace.Woke, trace.Slept:
				if awake[e.Container] == (e.Kind == trace.Woke) {
					t.Fatalf("%s: %v, twice", kind, e)
				}
				awake[e.Container] = e.Kind == trace.Woke
			case trace.Touched:
				if !awake[e.Container] {
					t.Fatalf("%s: %v, asleep", kind, e)
				}
			}
		}
	}
}

// Of the pages of bursts the share that the mix says is written, the same each time and in runs
// of eight; at first all of them are, as they have to be filled.
func TestBurstsWriteTheirShare(t *testing.T) {
	for _, share := range []float64{0, 0.06, 0.5, 1} {
		m := mix(Periodic)
		m.Duration = Duration(20 * time.Second)
		m.Groups[0].Pages, m.Groups[0].Working, m.Groups[0].Written = 4096, 1, &share
		filled, pages, written := map[int]int{}, 0, 0
		class := map[annex.Page]bool{}
		for _, e := range events(t, m) {
			if e.Kind != trace.Touched {
				continue
			}
			if filled[e.Container] < 4096 {
				if filled[e.Container] += len(e.Pages); !e.Write {
					t.Fatalf("%v of %d pages is not written at first", share, len(e.Pages))
				}
				continue
			}
			pages += len(e.Pages)
			for _, p := range e.Pages {
				if was, known := class[p/8*8]; known && was != e.Write {
					t.Fatalf("%v: page %d is written, and another of its run is not", share, p)
				}
				class[p/8*8] = e.Write
				if e.Write {
					written++
				}
			}
		}
		if got := float64(written) / float64(pages); pages == 0 || math.Abs(got-share) > 0.005 {
			t.Errorf("%v of %d pages are written, want %v", got, pages, share)
		}
	}
}

func TestTimesBetweenHaveTheirMean(t *testing.T) {
	for _, kind := range []Kind{Periodic, Poisson, Serving} {
		m := mix(kind)
		n := 0
		for _, e := range events(t, m) {
			if e.Kind == trace.Woke || e.Kind == trace.Requested {
				n++
			}
		}
		want := 2 * float64(m.Duration) / float64(m.Groups[0].Every)
		if sd := math.Sqrt(want); math.Abs(float64(n)-want) > 5*sd {
			t.Errorf("%s: %d activations, expected %.0f, standard deviation %.0f", kind, n, want, sd)
		}
	}
}

func TestSameSeedSameTraceOtherSeedAnother(t *testing.T) {
	write := func(m Mix) string {
		s, err := Make(m)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := trace.Text(&b, s); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	m := mix(Heavy)
	first := write(m)
	if write(m) != first {
		t.Error("the same mix gave another trace")
	}
	m.Seed++
	if write(m) == first {
		t.Error("another seed gave the same trace")
	}
}

func TestWrongMixesAreRefused(t *testing.T) {
	for _, text := range []string{
		`{}`, `{"duration":"1s"}`, `{"duration":"1s","groups":[{}]}`, `{"duration":"1s","sed":1}`,
		`{"duration":"1s","groups":[{"name":"a","kind":"periodic","class":"elastic","count":1,"pages":1,"every":"0s"}]}`,
	} {
		if _, err := Parse(strings.NewReader(text)); err == nil {
			t.Errorf("%s: taken", text)
		}
	}
	if _, err := Parse(strings.NewReader(`{"duration":"1s","groups":[{"name":"a","kind":"periodic","class":"elastic","count":1,"pages":1,"every":"1s"}]}`)); err != nil {
		t.Error(err)
	}
}

func TestWhatIsWronglyWrittenIsToldWithItsLine(t *testing.T) {
	const whole = "{\n\t\"duration\": \"1s\",\n\t\"groups\": [\n\t\t{\"name\": \"a\", \"kind\": \"periodic\", \"class\": \"elastic\", \"count\": 1, \"pages\": 1, \"every\": \"1s\"}\n\t]\n}\n"
	if _, err := Parse(strings.NewReader(whole)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, says string }{
		{"\"1s\",\n\t\"groups", "\"1s\"\n\t\"groups", "line 3: "},
		{"\"count\": 1", "\"count\": \"1\"", "line 4: "},
		{"]\n}", "]\n", "line 6: it ends in the middle"},
		{"]\n}\n", "]\n}\n}\n", "line 7: there is more"},
		{whole, "", "it is empty"},
	} {
		_, err := Parse(strings.NewReader(strings.Replace(whole, c.from, c.to, 1)))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q for %q: %v, want %q", c.to, c.from, err, c.says)
		}
	}
}

// FuzzParse: a mix that is read has passed its check, and what is wrong with another is said.
func FuzzParse(f *testing.F) {
	f.Add(`{"duration":"1s","groups":[{"name":"a","kind":"periodic","class":"elastic","count":1,"pages":1,"every":"1s"}]}`)
	f.Add("{\"duration\":\n1}")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse(strings.NewReader(text))
		if err == nil && m.Check() != nil || err != nil && err.Error() == "" {
			t.Errorf("%q is read as %+v, %v", text, m, err)
		}
	})
}
