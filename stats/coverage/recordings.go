package main

import (
	"embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
)

// recording is the noise of one run of rounds of slices: the strips of the baseline's two
// instances, by round.
type recording struct {
	name   string
	rounds [][]strip
}

// strip holds the logarithms of the speeds of the baseline's two instances in one strip. Of
// a time or a cost they are those of its inverse.
type strip struct{ first, second float64 }

//go:embed testdata
var recorded embed.FS

// recordings reads all that lie in testdata; where there are none, a synthetic one takes
// their place.
func recordings(files fs.FS) ([]recording, error) {
	names, err := fs.Glob(files, "testdata/slices-*.csv") // sorted
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return []recording{synthetic()}, nil
	}
	all := make([]recording, len(names))
	for i, name := range names {
		f, err := files.Open(name)
		if err != nil {
			return nil, err
		}
		rounds, err := readRounds(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[i] = recording{strings.TrimSuffix(strings.TrimPrefix(path.Base(name), "slices-"), ".csv"), rounds}
	}
	return all, nil
}

var recordingHeader = []string{"round", "strip", "first", "second"}

// readRounds reads a recording, whose form testdata/README.md describes.
func readRounds(r io.Reader) ([][]strip, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord = len(recordingHeader)
	in.ReuseRecord = true
	header, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if !slices.Equal(header, recordingHeader) {
		return nil, fmt.Errorf("header %q: want %q", header, recordingHeader)
	}
	var rounds [][]strip
	lastRound, lastStrip := 0, 0
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		line, _ := in.FieldPos(0)
		round, errRound := strconv.Atoi(row[0])
		number, errNumber := strconv.Atoi(row[1])
		first, errFirst := strconv.ParseFloat(row[2], 64)
		second, errSecond := strconv.ParseFloat(row[3], 64)
		if err := errors.Join(errRound, errNumber, errFirst, errSecond); err != nil {
			return nil, fmt.Errorf("line %d: want two whole numbers and two logarithms of speeds, have %q", line, row)
		}
		for _, v := range []float64{first, second} {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("line %d: %v is not the logarithm of a speed", line, v)
			}
		}
		if round > lastRound {
			rounds = append(rounds, nil)
			lastRound, lastStrip = round, 0
		}
		if round < 1 || round != lastRound || number <= lastStrip {
			return nil, fmt.Errorf("line %d: round %d, strip %d comes after round %d, strip %d: want rising numbers from 1", line, round, number, lastRound, lastStrip)
		}
		lastStrip = number
		rounds[len(rounds)-1] = append(rounds[len(rounds)-1], strip{first, second})
	}
	if len(rounds) < 2 {
		return nil, fmt.Errorf("need at least 2 rounds, have %d", len(rounds))
	}
	return rounds, nil
}

// synthetic stands for recordings while there are none. The noise of both instances fades
// slowly. A fifth of all slices is disturbed, and only ever slowed: half of these in strips
// that are disturbed as a whole, several in a row. Rounds differ a little. Its figures are
// made up, of the size that a service on a shared host shows.
func synthetic() recording {
	const (
		rounds, strips = 10, 60
		roundSD        = 0.0005
		sliceSD        = 0.005
		fades          = 0.4       // correlation of a slice's noise with that of the next strip
		lasts          = 0.5       // probability that a disturbance of both lasts for another strip
		begins         = 1. / 18   // probability that one begins: it takes begins / (begins + 1 - lasts) = 0.1 of strips
		alone          = 1. / 9    // probability that a slice of another strip is disturbed alone: 0.9 of strips give 0.1
		least, most    = 0.05, 0.6 // by how much a disturbed slice is slower
	)
	rng := rand.New(rand.NewPCG(publishedSeed, 0))
	disturbance := func() float64 { return math.Log1p(-least - (most-least)*rng.Float64()) }
	r := recording{name: "synthetic, made up"}
	for range rounds {
		level := roundSD * rng.NormFloat64()
		var round []strip
		var noise [2]float64
		both := rng.Float64() < 0.1
		for range strips {
			var slowed [2]float64
			if both {
				slowed[0] = disturbance()
				slowed[1] = slowed[0]
			} else {
				for i := range slowed {
					if rng.Float64() < alone {
						slowed[i] = disturbance()
					}
				}
			}
			for i := range noise {
				noise[i] = fades*noise[i] + math.Sqrt(1-fades*fades)*rng.NormFloat64()
			}
			round = append(round, strip{sliceSD*noise[0] + slowed[0], level + sliceSD*noise[1] + slowed[1]})
			next := begins
			if both {
				next = lasts
			}
			both = rng.Float64() < next
		}
		r.rounds = append(r.rounds, round)
	}
	return r
}

// together is how many consecutive strips are resampled as one, so that what is correlated
// stays so. A strip keeps both of its instances.
const together = 10

// round draws a round of a recording, and makes another like it of blocks of its strips
// (the moving-block bootstrap of H. R. Künsch, Annals of Statistics 17, 1989). Both instances
// are of the baseline: which is the first is drawn, so that they do not differ on the mean.
func (r recording) round(rng *rand.Rand) []strip {
	made := another(rng, r.rounds[rng.IntN(len(r.rounds))])
	if rng.IntN(2) == 0 {
		for i, s := range made {
			made[i] = strip{s.second, s.first}
		}
	}
	return made
}

func another(rng *rand.Rand, round []strip) []strip {
	size := min(together, len(round))
	made := make([]strip, 0, len(round)+size)
	for len(made) < len(round) {
		from := rng.IntN(len(round) - size + 1)
		made = append(made, round[from:from+size]...)
	}
	return made[:len(round)]
}
