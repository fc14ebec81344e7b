package workload

import (
	"math"
	"slices"
	"strings"
	"testing"

	"tare/load"
)

// within fails where a share of n draws is further from what it should be than
// five standard errors: by chance once in two million.
func within(t *testing.T, what string, count, n int, want float64) {
	t.Helper()
	got := float64(count) / float64(n)
	if bound := 5*math.Sqrt(want*(1-want)/float64(n)) + 1e-9; math.Abs(got-want) > bound {
		t.Errorf("%s: %.4f of %d draws, want %.4f within %.4f", what, got, n, want, bound)
	}
}

func TestYCSBFractions(t *testing.T) {
	const records, n = 1000, 100_000
	m := newYCSB(records, 95, 7)
	hot, reads := 0, 0
	perRecord := make([]int, records)
	for range n {
		o := m.next()
		perRecord[o.record]++
		if o.record < records*hotDataFraction {
			hot++
		}
		if o.read {
			reads++
		}
	}
	within(t, "hot operations", hot, n, hotOperationFraction)
	within(t, "reads", reads, n, 0.95)
	// Within either part every record is as likely as any other: the sum of squared
	// deviations over their mean is chi-square, whose mean is its degrees of freedom.
	for _, part := range []struct {
		name string
		of   []int
		mean float64
	}{
		{"hot", perRecord[:records/5], n * hotOperationFraction / (records / 5)},
		{"cold", perRecord[records/5:], n * (1 - hotOperationFraction) / (records - records/5)},
	} {
		var chi float64
		for _, count := range part.of {
			chi += (float64(count) - part.mean) * (float64(count) - part.mean) / part.mean
		}
		if free := float64(len(part.of)); math.Abs(chi-free) > 6*math.Sqrt(2*free) {
			t.Errorf("%s records are not equally likely: chi-square %.0f with %.0f degrees of freedom", part.name, chi, free)
		}
	}
}

func TestYCSBAccess(t *testing.T) {
	in := newYCSB(3, 100, 1).by(serial)
	for i := range int64(7) {
		if got := in.next().record; got != i%3 {
			t.Errorf("request %d in order is for record %d", i, got)
		}
	}
	const n = 100_000
	hot, m := 0, newYCSB(1000, 100, 1).by(uniform)
	for range n {
		if m.next().record < 200 {
			hot++
		}
	}
	within(t, "uniform requests of a fifth", hot, n, 0.2)
}

func FuzzYCSB(f *testing.F) {
	f.Add(int64(1), uint8(50), uint64(1))
	f.Add(int64(4), uint8(0), uint64(2))
	f.Add(int64(42_949_672), uint8(100), uint64(3))
	f.Fuzz(func(t *testing.T, records int64, reads uint8, seed uint64) {
		records = 1 + int64(uint64(records)%50_000_000)
		reads %= 101
		one, two := newYCSB(records, int64(reads), seed), newYCSB(records, int64(reads), seed)
		hot, read, updates := 0, 0, int64(0)
		const n = 2000
		for range n {
			o := one.next()
			if o != two.next() {
				t.Fatal("a seed gives two sequences")
			}
			if o.record < 0 || o.record >= records {
				t.Fatalf("record %d of %d", o.record, records)
			}
			if o.record < hotOf(records) {
				hot++
			}
			if o.read {
				read++
			} else if updates++; o.update != updates {
				t.Fatalf("update %d has the number %d", updates, o.update)
			}
		}
		if records > 1 {
			within(t, "hot operations", hot, n, hotOperationFraction)
		}
		within(t, "reads", read, n, float64(reads)/100)
	})
}

func TestYCSBSeedsDiffer(t *testing.T) {
	one, two := newYCSB(1000, 50, 1), newYCSB(1000, 50, 2)
	same := 0
	for range 100 {
		if one.next() == two.next() {
			same++
		}
	}
	if same > 50 {
		t.Errorf("%d of 100 operations are the same under two seeds", same)
	}
}

func TestRecordFields(t *testing.T) {
	seen := map[string]bool{}
	for _, n := range []int64{0, 1, 42_949_672} {
		for _, update := range []int64{0, 1, 99, 1<<62 + 1} {
			field := recordField(n, update)
			if len(field) != fieldLength || seen[field] || strings.ContainsAny(field[13:], "\r\n\"\\\x00") {
				t.Errorf("field of %d after %d: %q", n, update, field)
			}
			seen[field] = true
			if err := checkField(n, field); err != nil {
				t.Error(err)
			}
			for _, wrong := range []string{"", field[:99], field + "x", field[:99] + "!", recordField(n+1, update), recordKey(n) + " -1 x"} {
				if checkField(n, wrong) == nil {
					t.Errorf("%q passes for record %d", wrong, n)
				}
			}
		}
	}
	keys := []string{recordKey(0), recordKey(9), recordKey(10), recordKey(recordsIn(mostData))}
	if !slices.IsSorted(keys) || len(keys[0]) != len(keys[3]) {
		t.Errorf("the names %q are not in the order of their records", keys)
	}
	if got := recordsIn(500); got != 5_242_880 {
		t.Errorf("%d records in 500 MiB", got)
	}
}

func TestYCSBCommandsAreChecked(t *testing.T) {
	m := newYCSB(10, 50, 1).resp()
	kinds := map[string]int{}
	for range 200 {
		command, check := m()
		kinds[command[0]]++
		right := load.Reply{Type: '+', Text: []byte("OK")}
		if command[0] == "GET" {
			var n int64
			for recordKey(n) != command[1] {
				n++
			}
			right = load.Reply{Type: '$', Text: []byte(recordField(n, 3))}
		}
		if err := check(right); err != nil {
			t.Error(err)
		}
		for _, wrong := range []load.Reply{{Type: '$', Nil: true}, {Type: '+', Text: []byte("QUEUED")}, {Type: '$', Text: []byte(recordField(11, 0))}} {
			if check(wrong) == nil {
				t.Errorf("%v passes for %q", wrong, command)
			}
		}
	}
	if kinds["GET"] < 60 || kinds["SET"] < 60 {
		t.Errorf("operations %v, want halves", kinds)
	}
}

// Records come in batches that leave none out and none twice.
func TestInBatches(t *testing.T) {
	var got []int64
	err := inBatches(7, 3, func(from, to int64) error { got = append(got, from, to); return nil })
	if want := []int64{0, 3, 3, 6, 6, 7}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}
