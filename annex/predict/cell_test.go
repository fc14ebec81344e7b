package predict

import "testing"

func TestRanksAreHeldWithinAPartIn128(t *testing.T) {
	last := -1
	for r := 0; r < 1<<21; r += 1 + r/1000 {
		code := rankCode(r)
		if code < last || code >= rankCodes {
			t.Fatalf("rank %d has code %d, and a lower one %d", r, code, last)
		}
		last = code
		got := codeRank(code)
		if off := got - r; off > r/rankSteps || -off > r/rankSteps {
			t.Fatalf("rank %d is held as %d", r, got)
		}
		if again := rankCode(got); again != code {
			t.Fatalf("rank %d has code %d, which is rank %d, of code %d", r, code, got, again)
		}
	}
	for _, r := range []int{-5, 1 << 22, 1 << 40} {
		if code := rankCode(r); code < 0 || code >= rankCodes {
			t.Errorf("rank %d has code %d", r, code)
		}
	}
}

func TestPatternsKeepTheLastBursts(t *testing.T) {
	for _, c := range []struct {
		bursts                   int
		known                    []bool
		pattern                  pattern
		wantBursts, wantTouched  int
		wantExpectationAboveHalf bool
	}{
		{4, nil, 0b1, 0, 0, false},
		{4, []bool{true}, 0b11, 1, 1, true},
		{4, []bool{true, false}, 0b110, 2, 1, false},
		{4, []bool{true, true, false, true}, 0b11101, 4, 3, true},
		{4, []bool{true, false, false, false, false}, 0b10000, 4, 0, false},
		{2, []bool{true, false, true}, 0b101, 2, 1, false},
		{1, []bool{true, true, false}, 0b10, 1, 0, false},
	} {
		p := unknown
		for _, touched := range c.known {
			p = p.then(touched, c.bursts)
		}
		if p != c.pattern || p.bursts() != c.wantBursts || p.touched() != c.wantTouched || p.expectation() > 0.5 != c.wantExpectationAboveHalf {
			t.Errorf("%v of %d bursts is %b: %d told, %d touched, %.2f expected; want %b, %d, %d", c.known, c.bursts, p, p.bursts(), p.touched(), p.expectation(), c.pattern, c.wantBursts, c.wantTouched)
		}
	}
}

func TestCellsHoldPatternAndRank(t *testing.T) {
	for p := pattern(1); p < patterns; p++ {
		for _, rank := range []int{0, 1, 255, 256, 1 << 20} {
			c := newCell(p, rank)
			if c.pattern() != p || c.code() != rankCode(rank) {
				t.Errorf("pattern %b of rank %d is held as %b of %d", p, rank, c.pattern(), c.rank())
			}
		}
	}
}
