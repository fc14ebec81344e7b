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

// recordings reads all that lie in testdata.
func recordings(files fs.FS) ([]recording, error) {
	names, err := fs.Glob(files, "testdata/slices-*.csv") // sorted
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, errors.New("no recordings in stats/coverage/testdata: make them (its README)")
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
