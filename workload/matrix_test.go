package workload

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const matrixLine = `{"wall_ns":67521208,"cpu_ns":66276316}` + "\n"

func TestMatrixTimes(t *testing.T) {
	one := MatrixTime{Wall: 67521208, CPU: 66276316}
	for name, c := range map[string]struct {
		printed string
		want    []MatrixTime
	}{
		"nothing yet":        {"", nil},
		"whole lines":        {matrixLine + matrixLine, []MatrixTime{one, one}},
		"begins in a line":   {matrixLine[5:] + matrixLine, []MatrixTime{one}},
		"ends in a line":     {matrixLine + matrixLine[:20], []MatrixTime{one}},
		"a piece of a line":  {matrixLine[5:20], nil},
		"begins at its end":  {"\n" + matrixLine, []MatrixTime{one}},
		"had no CPU at all":  {`{"wall_ns":1,"cpu_ns":0}` + "\n", []MatrixTime{{Wall: 1}}},
		"CPU time above all": {`{"wall_ns":1,"cpu_ns":2}` + "\n", []MatrixTime{{Wall: 1, CPU: 2}}}, // the clocks are read apart
	} {
		if got, err := MatrixTimes([]byte(c.printed)); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
	for _, wrong := range []string{
		"{}", `{"wall_ns":1}`, `{"wall_ns":0,"cpu_ns":0}`, `{"wall_ns":5,"cpu_ns":-1}`, `{"wall_ns":1e30,"cpu_ns":1}`, "{wall",
		`{"wall_ns":9223372036854775807,"cpu_ns":1}`,
	} {
		if got, err := MatrixTimes([]byte(matrixLine + wrong + "\n" + matrixLine)); err == nil {
			t.Errorf("%s is taken for %v", wrong, got)
		}
	}
}

func FuzzMatrixTimes(f *testing.F) {
	for _, seed := range []string{matrixLine, matrixLine + matrixLine[:9], matrixLine[9:] + matrixLine, "{}\n", "\n\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, printed []byte) {
		times, err := MatrixTimes(printed)
		if err != nil {
			return
		}
		var again bytes.Buffer
		for _, one := range times {
			fmt.Fprintf(&again, "{\"wall_ns\":%d,\"cpu_ns\":%d}\n", one.Wall, one.CPU)
		}
		if got, err := MatrixTimes(again.Bytes()); err != nil || !slices.Equal(got, times) {
			t.Errorf("%q is %v, and printed again %v, %v", printed, times, got, err)
		}
	})
}

// Fewer multiplications than were asked for are no trial.
func TestMatrixCountsItsMultiplications(t *testing.T) {
	p := resolve(t, matrix{}, "count", "2")
	tr := &trial{params: p, stdout: matrixLine + matrixLine, exit: Exit{Elapsed: time.Second, CPU: time.Second}}
	if err := (matrix{}).Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, matrix{}, tr)
	tr = &trial{params: p, stdout: matrixLine}
	if err := (matrix{}).Drive(t.Context(), tr); err == nil || !strings.Contains(err.Error(), "1 multiplications, want 2") {
		t.Errorf("%v, want how many are missing", err)
	}
}

func TestRealMatrix(t *testing.T) {
	img := realImage(t, "thrift")
	w := matrix{}
	tr := launch(t, w, resolve(t, w, "size", "100", "count", "20"), img, func([]string) {}, 0)
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	checkRecorded(t, w, &tr.trial)
	if n := tr.histograms[multiplications].TotalCount(); n != 20 {
		t.Errorf("%d multiplications, want 20", n)
	}
}
