package platform_test

import (
	"slices"
	"testing"

	"tare/image"
	"tare/platform"
)

func TestEnvironmentLaterWins(t *testing.T) {
	spec := platform.Spec{
		Image: image.Image{Config: image.Config{Env: []string{"A=image", "HOME=/image", "B=image"}}},
		Env:   []string{"B=spec", "C=spec", "C=again"},
	}
	env := spec.Environment()
	for _, want := range []string{"A=image", "HOME=/", "B=spec", "C=again"} {
		if !slices.Contains(env, want) {
			t.Errorf("%q lacks %q", env, want)
		}
	}
	if want := 3 + len(platform.Surroundings.Env); len(env) != want {
		t.Errorf("%d entries, want %d: %q", len(env), want, env)
	}
}
