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
		"testdata/slices-redis-set.csv": {Data: []byte("round,strip,first,second\n1,1,11.5,11.51\n1,3,11.4,-0.02\n4,1,11.5,1e-3\n")},
	}
	got, err := recordings(files)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].name != "redis-set" || len(got[0].rounds) != 2 || !slices.Equal(got[0].rounds[0], []strip{{11.5, 11.51}, {11.4, -0.02}}) {
		t.Errorf("%+v", got)
	}
	delete(files, "testdata/slices-redis-set.csv")
	if got, err = recordings(files); err == nil || !strings.Contains(err.Error(), "no recordings") {
		t.Errorf("where nothing is recorded: %+v, %v", got, err)
	}
	files["testdata/slices-bad.csv"] = &fstest.MapFile{Data: []byte("round,strip,log_ratio\n")}
	if _, err := recordings(files); err == nil || !strings.HasPrefix(err.Error(), "testdata/slices-bad.csv: header") {
		t.Errorf("%v", err)
	}
}

func TestRecordingsThatAreRefused(t *testing.T) {
	const header = "round,strip,first,second\n"
	for text, want := range map[string]string{
		"":                                       "header",
		"round,strip,log_ratio\n":                "wrong number of fields",
		"round,strip,second,first\n1,1,0,0\n":    "want [\"round\" \"strip\" \"first\" \"second\"]",
		header + "1,1,0,0\n":                     "need at least 2 rounds, have 1",
		header + "1,1,0,0\n2,1,0\n":              "wrong number of fields",
		header + "1,one,0,0\n":                   `line 2: want two whole numbers and two logarithms of speeds, have ["1" "one" "0" "0"]`,
		header + "1,1,NaN,0\n":                   "line 2: NaN is not the logarithm of a speed",
		header + "1,1,0,-Inf\n":                  "line 2: -Inf is not the logarithm of a speed",
		header + "1,2,0,0\n1,2,0,0\n":            "line 3: round 1, strip 2 comes after round 1, strip 2",
		header + "2,1,0,0\n1,2,0,0\n":            "line 3: round 1, strip 2 comes after round 2, strip 1",
		header + "0,1,0,0\n":                     "want rising numbers from 1",
		header + "1,1,0,0\n2,1,0,0\n3,1,1e999,0": "line 4",
	} {
		if _, err := readRounds(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzReadRounds(f *testing.F) {
	f.Add("round,strip,first,second\n1,1,11.5,11.51\n1,2,-1e-3,0\n2,1,0,0\n")
	f.Fuzz(func(t *testing.T, text string) {
		rounds, err := readRounds(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, round := range rounds {
			for _, s := range round {
				for _, v := range []float64{s.first, s.second} {
					if math.IsNaN(v) || math.IsInf(v, 0) {
						t.Errorf("%v among the logarithms", v)
					}
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
	round := make([]strip, 45)
	for i := range round {
		round[i] = strip{float64(i), -float64(i)}
	}
	made := another(rand.New(rand.NewPCG(1, 2)), round)
	for i := range made {
		if i%together != 0 && made[i].first != made[i-1].first+1 {
			t.Errorf("strip %v follows strip %v", made[i], made[i-1])
		}
		if made[i].second != -made[i].first {
			t.Errorf("%v joins instances of two strips", made[i])
		}
	}
}

// Where all slices are alike but one, which stalls, totals show it and typical ratios do not.
func TestFiguresOfARound(t *testing.T) {
	round := make([]strip, 10)
	for i := range round {
		round[i] = strip{11, 11.01}
	}
	round[3].second -= math.Log(2)
	if got, _ := typicalOf(round); math.Abs(got-0.01) > 1e-12 {
		t.Errorf("typical %v, want 0.01", got)
	}
	if got, want := meanOf(round), 0.01+math.Log(0.95); math.Abs(got-want) > 1e-12 {
		t.Errorf("mean %v, want %v", got, want)
	}
}
