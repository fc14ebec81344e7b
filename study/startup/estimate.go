package startup

import (
	"strconv"
	"time"
)

// What a container costs outside of its start, to be made and removed, by two at
// a time, and what a search for the knee takes: assumptions by which a pass over
// a design is estimated, from an engine on two CPUs.
const (
	assumedEach   = 150 * time.Millisecond
	assumedKnee   = 30 * time.Second
	assumedSingle = 900 * time.Millisecond
	assumedBurst  = 4 * time.Second
)

// warmUpTime is that of a trial of the warm-up, which starts few containers.
func warmUpTime(factors map[string]string) time.Duration {
	switch factors[factorKind] {
	case kindSingle, kindTrace, kindBurst:
		return assumedBurst
	}
	return warmUpCount * (assumedSingle + assumedEach)
}

func trialTime(factors map[string]string) time.Duration {
	switch factors[factorKind] {
	case kindKnee:
		return assumedKnee
	case kindSingle, kindTrace:
		return singleCount * assumedSingle
	case kindBurst:
		return assumedBurst + burstCount*assumedEach
	}
	rate, err := strconv.ParseFloat(factors[factorRate], 64)
	count, cerr := strconv.Atoi(factors[factorCount])
	if err != nil || cerr != nil || rate <= 0 {
		return assumedBurst
	}
	return time.Duration(float64(count)/rate*float64(time.Second)) + time.Duration(count)*assumedEach
}
