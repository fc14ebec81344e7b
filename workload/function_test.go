package workload

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// functionLine is what a function prints that found what is right.
func functionLine(f function, mebibytes int, sparse bool) string {
	want := f.finds(mebibytes<<20/functionPage, sparse)
	return fmt.Sprintf(`{"function":%q,"bytes":%d,"touched":1000,"records":%d,"results":%d,"checksum":"%016x","seconds":0.5,"generated_seconds":0.25}`+"\n",
		f.name, mebibytes<<20, want.records, want.results, uint64(want.checksum))
}

func TestFunctionDrive(t *testing.T) {
	for _, f := range []function{uriParser, hashing} {
		tr := &trial{params: resolve(t, f, "data", "1", "access", "sparse"), stdout: functionLine(f, 1, true), exit: Exit{Elapsed: 2 * time.Second, CPU: time.Second}}
		if err := f.Drive(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		checkRecorded(t, f, tr)
		if tr.records["elapsed"][0] != 0.5 || tr.records["rate"][0] != 2000 || tr.records["wall"][0] != 2 {
			t.Errorf("recorded %v", tr.records)
		}
		// The same figures of another input are not right.
		for _, params := range [][]string{{"data", "1"}, {"data", "2", "access", "sparse"}} {
			other := &trial{params: resolve(t, f, params...), stdout: tr.stdout}
			if err := f.Drive(t.Context(), other); err == nil || !strings.Contains(err.Error(), "not valid") {
				t.Errorf("%s %q: %v, want that it is not valid", f.name, params, err)
			}
			if len(other.records) != 0 {
				t.Errorf("recorded %v of a wrong result", other.records)
			}
		}
	}
}

// The published first outputs of splitmix64 for seed 1234567.
func TestSplitmix(t *testing.T) {
	s := splitmix(1234567)
	for _, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423} {
		if s += 0x9e3779b97f4a7c15; mix(uint64(s)) != want {
			t.Errorf("drew %d, want %d", mix(uint64(s)), want)
		}
	}
}

// Sparse access finds only what dense access finds, and about a fifth of it.
func TestReferenceShares(t *testing.T) {
	for _, f := range []function{uriParser, hashing} {
		dense, sparse := f.finds(64, false), f.finds(64, true)
		if share := float64(sparse.records) / float64(dense.records); share < 0.15 || share > 0.22 {
			t.Errorf("%s: sparse access finds %v of the records", f.name, share)
		}
		if dense.results < dense.records || f.finds(32, false).records >= dense.records {
			t.Errorf("%s: %v", f.name, dense)
		}
	}
}

func FuzzParseFunction(f *testing.F) {
	f.Add([]byte(functionLine(hashing, 1, false)))
	f.Add([]byte(`{"checksum":"x"}`))
	f.Fuzz(func(t *testing.T, output []byte) {
		if o, err := parseFunction(output); err == nil && (o.Seconds <= 0 || o.Touched <= 0 || o.Generated < 0) {
			t.Errorf("accepted %+v", o)
		}
	})
}
