package foreign

import (
	"errors"
	"testing"
)

// Levels of factors are bounded in all values together, of one file and of several:
// few of many factors, and many of few, may take as much.
func TestLevelsAreBounded(t *testing.T) {
	two := observation{factors: []level{{"a", "1"}, {"b", "2"}}}
	for what, of := range map[string]func(*observations) error{
		"one more":    func(o *observations) error { return o.add(two) },
		"of one file": func(o *observations) error { return o.append("more.csv", []observation{two}) },
	} {
		full := observations{levels: mostLevels - 2}
		if err := of(&full); err != nil {
			t.Errorf("%s, within: %v", what, err)
		}
		var malformed *Malformed
		if err := of(&full); !errors.As(err, &malformed) {
			t.Errorf("%s, beyond: %v", what, err)
		}
	}
}
