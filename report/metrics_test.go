package report

import "testing"

func TestWhatRowsHaveInCommonIsSaidOnce(t *testing.T) {
	got := inCommon([]string{"docker: no interval: 1 block.", "oci:runc root=dir: no interval: 1 block.", "oci:crun: no figure: it failed.", "A remark."})
	want := "docker, oci:runc root=dir: no interval: 1 block.\n\noci:crun: no figure: it failed.\n\nA remark."
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNoIntervalIsRoundedToNothing(t *testing.T) {
	// Beside 96000 ±9000, in thousands, 1000 ±300 must not become 1000 ±0.
	if d := agree(-2, -3, 300); d != -2 {
		t.Errorf("%d decimals, want -2", d)
	}
	if d := agree(-2, -3, 2000); d != -3 {
		t.Errorf("%d decimals, want the column's -3", d)
	}
}

// On which side of an end nothing lies is seen, whatever its size.
func TestEndsOfIntervalsAreNotRoundedToNothing(t *testing.T) {
	for want, ends := range map[string][2]float64{
		"+0.4 to +8": {0.4, 8}, "-8 to -0.3": {-8, -0.3}, "+0.03 to +8": {0.03, 8}, "0 to +8": {0, 8}, "-3 to +8": {-3, 8}, "-0.10 to +0.10": {-0.1, 0.1},
	} {
		if got := spanText(ends[0], ends[1]); got != want {
			t.Errorf("%v is written %q, want %q", ends, got, want)
		}
	}
}
