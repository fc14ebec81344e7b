package image

import (
	"os"
	"testing"
)

// recipeStore opens a store for tests that build recipes, or skips where this
// host cannot.
func recipeStore(t *testing.T) *Store {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: images have numeric owners")
	}
	s, err := OpenStore(t.TempDir(), func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBusyboxRecipe(t *testing.T) {
	s := recipeStore(t)
	img, err := s.Recipe(t.Context(), "busybox")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", img)
	again, err := s.Recipe(t.Context(), "busybox")
	if err != nil || again.Digest != img.Digest {
		t.Fatal(again, err)
	}
}
