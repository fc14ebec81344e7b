package image

import (
	"slices"
	"testing"
)

// A large image has the packages of the usual one, and is another image.
func TestLargeRecipes(t *testing.T) {
	for _, r := range largeRecipes {
		usual, ok := findRecipe(r.lockedBy)
		if !ok || r.name != Large(usual.name) || !slices.Equal(r.packages, usual.packages) {
			t.Errorf("%s is large for %q", r.name, r.lockedBy)
		}
		of, err := usual.key("amd64")
		if err != nil {
			t.Fatal(err)
		}
		if key, err := r.key("amd64"); err != nil || key == of {
			t.Errorf("%s has the key %s, %v; the usual one has %s", r.name, key, err, of)
		}
		if slices.Contains(LockedRecipes(), r.name) {
			t.Errorf("%s has a lock file of its own", r.name)
		}
	}
}
