package predict

import "math/bits"

// cell is what the record knows of a page, in two bytes: 5 bits of pattern and 11 bits of
// rank.
type cell uint16

func newCell(p pattern, rank int) cell { return cell(p)<<rankBits | cell(rankCode(rank)) }

func (c cell) pattern() pattern { return pattern(c >> rankBits) }
func (c cell) code() int        { return int(c & (rankCodes - 1)) }
func (c cell) rank() int        { return codeRank(c.code()) }

// pattern is what the last bursts did with a page, the latest in the lowest bit: 1 is
// touched. A one stands above the highest, so that the length is known. Bursts that
// could not tell are not in it.
type pattern uint8

const (
	patternBits = 4
	patterns    = 1 << (patternBits + 1)

	unknown pattern = 1 // no burst is known yet
)

// bursts is of how many bursts it knows.
func (p pattern) bursts() int { return bits.Len8(uint8(p)) - 1 }

// touched is how many of them touched the page.
func (p pattern) touched() int { return bits.OnesCount8(uint8(p)) - 1 }

// then is the pattern after one more burst, of which the last k are kept.
func (p pattern) then(touched bool, k int) pattern {
	next := p << 1
	if touched {
		next |= 1
	}
	if p.bursts() >= k {
		top := pattern(1) << k
		next = top | next&(top-1)
	}
	return next
}

// expectation is how likely the page is touched next while nothing was measured: Laplace's
// rule of succession.
func (p pattern) expectation() float64 { return float64(p.touched()+1) / float64(p.bursts()+2) }

// Ranks are held to within a part in 128: exact below 256, and up to 4 million. A page is
// missed the later the higher its rank is, so that what counts is the relative error.
const (
	rankBits  = 11
	rankCodes = 1 << rankBits
	exactRank = 256
	rankSteps = exactRank / 2
)

func rankCode(r int) int {
	if r < exactRank {
		return max(0, r)
	}
	shift := bits.Len(uint(r)) - bits.Len(exactRank-1)
	return min(exactRank+(shift-1)*rankSteps+(r>>shift-rankSteps), rankCodes-1)
}

// codeRank is the middle of the ranks that have a code.
func codeRank(code int) int {
	if code < exactRank {
		return code
	}
	shift := (code-exactRank)/rankSteps + 1
	return (rankSteps+(code-exactRank)%rankSteps)<<shift + 1<<(shift-1)
}
