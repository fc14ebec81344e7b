package nearest_test

import (
	"fmt"
	"testing"

	"tare/nearest"
)

func ExampleOf() {
	known := []string{"redis", "postgres", "redis-2", "nginx"}
	fmt.Println(nearest.Of(known, 2, func(name string) (int, bool) {
		d := nearest.Edits("rdeis", name)
		return d, d <= 3
	}))
	// Output: [redis redis-2]
}

func TestEdits(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"redis", "redis", 0}, {"rdis", "redis", 1}, {"reddis", "redis", 1},
		{"radis", "redis", 1}, {"rdeis", "redis", 1}, {"abcd", "badc", 2}, {"ca", "abc", 3},
	} {
		if got, back := nearest.Edits(c.a, c.b), nearest.Edits(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("between %q and %q are %d edits, back %d; want %d", c.a, c.b, got, back, c.want)
		}
	}
}
