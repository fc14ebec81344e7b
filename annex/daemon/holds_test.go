package daemon

import (
	"errors"
	"testing"

	"tare/annex"
	"tare/annex/bound"
	"tare/annex/config"
	"tare/container"
)

// roomy is swap with so much room, and what containers have there by their names.
type roomy struct {
	free    int64
	swapped map[string]int64
}

func (r roomy) Holds(bytes int64) error {
	if bytes > r.free {
		return &bound.Full{Want: bytes, Free: r.free, Size: 1 << 40}
	}
	return nil
}

func (r roomy) Container(c container.Container) (bound.Container, error) {
	swapped, is := r.swapped[c.Name]
	if !is {
		return bound.Container{}, errors.New("it has ended")
	}
	return bound.Container{Swapped: swapped}, nil
}

// What has left before a start has not to leave again; what others have there is not held for
// what would.
func TestSwapHolds(t *testing.T) {
	c := config.Default()
	c.Memory.High = 96 * mebibyte
	c.Rules = []config.Rule{{Class: annex.Elastic, Name: "web*"}, {Class: annex.Critical, Name: "db"}}
	found := []container.Container{{Name: "web-1"}, {Name: "web-2"}, {Name: "web-gone"}, {Name: "db"}, {Name: "other"}}
	for name, one := range map[string]struct {
		room roomy
		want int64 // that there is no room for; 0 is that there is
	}{
		"room":                   {roomy{96 * mebibyte, nil}, 0},
		"not enough":             {roomy{95 * mebibyte, nil}, 96 * mebibyte},
		"some has left":          {roomy{40 * mebibyte, map[string]int64{"web-1": 40 * mebibyte, "web-2": 16 * mebibyte}}, 0},
		"not all has":            {roomy{39 * mebibyte, map[string]int64{"web-1": 40 * mebibyte, "web-2": 16 * mebibyte}}, 40 * mebibyte},
		"filled by this":         {roomy{0, map[string]int64{"web-1": 1 << 30}}, 0},
		"filled by others":       {roomy{0, map[string]int64{"db": 1 << 30, "other": 1 << 30}}, 96 * mebibyte},
		"filled by both of them": {roomy{0, map[string]int64{"web-1": 95 * mebibyte, "other": 1 << 30}}, mebibyte},
	} {
		err := holds(one.room, c, found)
		full := new(bound.Full)
		if errors.As(err, &full); (err != nil) != (one.want != 0) || full.Want != one.want {
			t.Errorf("%s: %v, want no room for %d", name, err, one.want)
		}
	}
}
