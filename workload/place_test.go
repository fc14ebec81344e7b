package workload

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// A service that can be placed is: its command has the port and the address, the
// port is the one that it serves, and its parameters stay as they were.
func TestAt(t *testing.T) {
	for _, w := range All() {
		p := resolve(t, w)
		usual, err := w.Program(p)
		if err != nil {
			t.Fatal(err)
		}
		if !Places(w) {
			continue
		}
		before := maps.Clone(p)
		program, placed, err := At(w, p, Place{Port: 23450, Listen: "127.0.0.9"})
		if err != nil {
			t.Errorf("%s: %v", w.Name(), err)
			continue
		}
		if !maps.Equal(p, before) {
			t.Errorf("%s: its parameters were changed to %v", w.Name(), p)
		}
		said := strings.Join(slices.Concat(program.Args, program.Env), " ")
		for _, want := range []string{"23450", "127.0.0.9"} {
			if !strings.Contains(said, want) {
				t.Errorf("%s: %q does not say %s", w.Name(), said, want)
			}
		}
		if strings.Contains(said, everywhere) {
			t.Errorf("%s: %q listens everywhere", w.Name(), said)
		}
		if !slices.Equal(program.Ports, []int{23450}) {
			t.Errorf("%s serves %v", w.Name(), program.Ports)
		}
		if again, err := w.Program(placed); err != nil || !slices.Equal(again.Args, program.Args) {
			t.Errorf("%s: its placed parameters make %q, %v", w.Name(), again.Args, err)
		}
		// Without an address it listens everywhere, and without a port at its own.
		for _, place := range []Place{{}, {Listen: "0.0.0.0"}} {
			if at, _, err := At(w, p, place); err != nil || !slices.Equal(at.Args, usual.Args) || !slices.Equal(at.Ports, usual.Ports) {
				t.Errorf("%s at %+v: %q, %v, want %q", w.Name(), place, at.Args, err, usual.Args)
			}
		}
	}
}

func TestAtRefuses(t *testing.T) {
	p := resolve(t, redis{})
	for want, place := range map[string]Place{
		"1 to 65533":     {Port: 65534},
		"port -1":        {Port: -1},
		`"localhost"`:    {Listen: "localhost"},
		`"::1" of`:       {Listen: "::1"},
		`such as 127.0.`: {Listen: "127.0.0.1:80"},
	} {
		if _, _, err := At(redis{}, p, place); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", place, err, want)
		}
	}
	_, _, err := At(stream{}, resolve(t, stream{}), Place{Port: 7})
	refusedAs[*Unplaceable](t, err, "workload stream", "cannot be told where to listen")
	if _, _, err := At(stream{}, resolve(t, stream{}), Place{}); err != nil {
		t.Error(err)
	}
}
