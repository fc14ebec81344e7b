package quota

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseTick(t *testing.T) {
	for _, c := range []struct {
		text string
		want time.Duration
		none bool
	}{
		{text: "CONFIG_HZ_250=y\nCONFIG_HZ=250\n", want: 4 * time.Millisecond},
		{text: "CONFIG_HZ=1000", want: time.Millisecond},
		{text: "# CONFIG_HZ is not set\nCONFIG_HZ_PERIODIC=y\n", none: true},
		{text: "", none: true},
	} {
		got, err := ParseTick(strings.NewReader(c.text))
		if got != c.want || errors.Is(err, ErrNoTick) != c.none || !c.none && err != nil {
			t.Errorf("%q: %v, %v", c.text, got, err)
		}
	}
	for _, text := range []string{"CONFIG_HZ=0", "CONFIG_HZ=-4", "CONFIG_HZ=fast"} {
		if _, err := ParseTick(strings.NewReader(text)); err == nil || errors.Is(err, ErrNoTick) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParseTick(f *testing.F) {
	f.Add("CONFIG_HZ=250\n")
	f.Add("CONFIG_HZ=\x00")
	f.Fuzz(func(t *testing.T, text string) {
		if tick, err := ParseTick(strings.NewReader(text)); err == nil && (Kernel{Tick: tick, Slice: time.Millisecond}).check() != nil {
			t.Errorf("%q gives a tick of %v", text, tick)
		}
	})
}
