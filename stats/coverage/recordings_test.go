package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestRecordingsAreTakenAsTheyLieThere(t *testing.T) {
	files := fstest.MapFS{
		"testdata/README.md":            {Data: []byte("about")},
		"testdata/slices-redis-set.csv": {Data: []byte("round,strip,log_ratio\n1,1,0.01\n1,3,-0.02\n4,1,1e-3\n")},
	}
	got, err := recordings(files)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].name != "redis-set" || len(got[0].rounds) != 2 || !slices.Equal(got[0].rounds[0], []float64{0.01, -0.02}) {
		t.Errorf("%+v", got)
	}
	delete(files, "testdata/slices-redis-set.csv")
	if got, err = recordings(files); err != nil || len(got) != 1 || !strings.HasPrefix(got[0].name, "synthetic") {
		t.Errorf("where nothing is recorded: %+v, %v", got, err)
	}
	files["testdata/slices-bad.csv"] = &fstest.MapFile{Data: []byte("round,strip,ratio\n")}
	if _, err := recordings(files); err == nil || !strings.HasPrefix(err.Error(), "testdata/slices-bad.csv: header") {
		t.Errorf("%v", err)
	}
}

func TestRecordingsThatAreRefused(t *testing.T) {
	const header = "round,strip,log_ratio\n"
	for text, want := range map[string]string{
		"":                                 "header",
		header + "1,1,0\n":                 "need at least 2 rounds, have 1",
		header + "1,1,0\n2,1\n":            "wrong number of fields",
		header + "1,one,0\n":               `line 2: want two whole numbers and a log ratio, have ["1" "one" "0"]`,
		header + "1,1,NaN\n":               "line 2: NaN is not a log ratio",
		header + "1,2,0\n1,2,0\n":          "line 3: round 1, strip 2 comes after round 1, strip 2",
		header + "2,1,0\n1,2,0\n":          "line 3: round 1, strip 2 comes after round 2, strip 1",
		header + "0,1,0\n":                 "want rising numbers from 1",
		header + "1,1,0\n2,1,0\n3,1,1e999": "line 4",
	} {
		if _, err := readRounds(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzReadRounds(f *testing.F) {
	f.Add("round,strip,log_ratio\n1,1,0.01\n1,2,-1e-3\n2,1,0\n")
	f.Fuzz(func(t *testing.T, text string) {
		rounds, err := readRounds(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, round := range rounds {
			for _, v := range round {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					t.Errorf("%v among the log ratios", v)
				}
			}
			if len(another(rand.New(rand.NewPCG(1, 1)), round)) != len(round) {
				t.Errorf("a round of %d strips became another of a different length", len(round))
			}
		}
	})
}

// A round that is made of another has its strips, in runs of ten as they followed.
func TestAnotherRoundKeepsStripsTogether(t *testing.T) {
	round := make([]float64, 45)
	for i := range round {
		round[i] = float64(i)
	}
	made := another(rand.New(rand.NewPCG(1, 2)), round)
	for i := range made {
		if i%together != 0 && made[i] != made[i-1]+1 {
			t.Errorf("strip %v follows strip %v", made[i], made[i-1])
		}
	}
}
