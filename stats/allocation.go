package stats

import (
	"math"
	"time"
)

// StopFrom is the number of rounds from which a run may stop because its intervals are
// narrow enough. Earlier, the rounds that happen to agree stop it too often.
const StopFrom = 8

// StripsPerRound is the number of strips in a round that makes the interval narrowest in a
// given time, within least and most: the square root of costRound/costStrip times
// varStrips/varRounds, rounded up (Kalibera and Jones, ISMM 2013). costRound is the time
// of a round without its strips, costStrip that of one strip; the variances are those of
// [Components]. It is most where rounds are not seen to differ, and least where strips are
// not, or a cost is not positive.
func StripsPerRound(costRound, costStrip time.Duration, varStrips, varRounds float64, least, most int) int {
	switch {
	case !(varStrips > 0) || costRound <= 0 || costStrip <= 0:
		return least
	case !(varRounds > 0):
		return max(least, most)
	}
	best := math.Ceil(math.Sqrt(float64(costRound) / float64(costStrip) * varStrips / varRounds))
	return int(max(float64(least), min(best, float64(most))))
}
