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

// recording is the noise of one run of rounds of slices: the log ratios of the baseline's
// second instance against the first, by round and strip.
type recording struct {
	name   string
	rounds [][]float64
}

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

var recordingHeader = []string{"round", "strip", "log_ratio"}

// readRounds reads a recording, whose form testdata/README.md describes.
func readRounds(r io.Reader) ([][]float64, error) {
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
	var rounds [][]float64
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
		strip, errStrip := strconv.Atoi(row[1])
		ratio, errRatio := strconv.ParseFloat(row[2], 64)
		if err := errors.Join(errRound, errStrip, errRatio); err != nil {
			return nil, fmt.Errorf("line %d: want two whole numbers and a log ratio, have %q", line, row)
		}
		if math.IsNaN(ratio) || math.IsInf(ratio, 0) {
			return nil, fmt.Errorf("line %d: %v is not a log ratio", line, ratio)
		}
		if round > lastRound {
			rounds = append(rounds, nil)
			lastRound, lastStrip = round, 0
		}
		if round < 1 || round != lastRound || strip <= lastStrip {
			return nil, fmt.Errorf("line %d: round %d, strip %d comes after round %d, strip %d: want rising numbers from 1", line, round, strip, lastRound, lastStrip)
		}
		lastStrip = strip
		rounds[len(rounds)-1] = append(rounds[len(rounds)-1], ratio)
	}
	if len(rounds) < 2 {
		return nil, fmt.Errorf("need at least 2 rounds, have %d", len(rounds))
	}
	return rounds, nil
}

// synthetic stands for recordings while there are none: strips whose noise fades slowly and
// has heavy tails, rare stalls of one side that outlast a strip, and rounds that differ a
// little. Its figures are made up, of the size that a service on a shared host shows.
func synthetic() recording {
	const (
		rounds, strips = 10, 60
		roundSD        = 0.0005
		stripSD        = 0.005
		fades          = 0.4  // correlation of a strip with the next
		stalls         = 0.02 // share of strips in which one begins
	)
	rng := rand.New(rand.NewPCG(publishedSeed, 0))
	r := recording{name: "synthetic, made up"}
	for range rounds {
		level, state, stall := roundSD*rng.NormFloat64(), 0.0, 0.0
		var round []float64
		for range strips {
			// Student's t with two degrees of freedom: its tails are as heavy as can be.
			shock := rng.NormFloat64() / math.Sqrt(rng.ExpFloat64())
			state = fades*state + math.Sqrt(1-fades*fades)*shock
			stall /= 2
			if rng.Float64() < stalls {
				stall = 0.2 * rng.NormFloat64()
			}
			round = append(round, level+stripSD*state+stall)
		}
		r.rounds = append(r.rounds, round)
	}
	return r
}

// together is how many consecutive strips are resampled as one, so that what is correlated
// stays so.
const together = 10

// round draws a round of a recording, and makes another like it of blocks of its strips
// (the moving-block bootstrap of H. R. Künsch, Annals of Statistics 17, 1989).
func (r recording) round(rng *rand.Rand) []float64 {
	return another(rng, r.rounds[rng.IntN(len(r.rounds))])
}

func another(rng *rand.Rand, round []float64) []float64 {
	size := min(together, len(round))
	made := make([]float64, 0, len(round)+size)
	for len(made) < len(round) {
		from := rng.IntN(len(round) - size + 1)
		made = append(made, round[from:from+size]...)
	}
	return made[:len(round)]
}

// expected is the true value of a figure of rounds: its mean over rounds that are made
// from all recorded ones alike.
func (r recording) expected(figure func(strips []float64) float64) float64 {
	const each = 4000
	rng := rand.New(rand.NewPCG(streamOf("expected", r.name, each), publishedSeed))
	var sum float64
	for _, round := range r.rounds {
		for range each {
			sum += figure(another(rng, round))
		}
	}
	return sum / float64(each*len(r.rounds))
}
