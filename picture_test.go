package tare_test

import (
	"flag"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the documents' pictures anew")

// parts divide the tower into what a newcomer asks for, from the top. Each begins with a floor and
// ends before the next part's.
var parts = []struct{ from, title, says string }{
	{"cmd", "Commands", "parse, call, print"},
	{"study", "Questions and answers", "a design of trials, and what they say"},
	{"lab", "Trial design and evidence", "order, rounds, taint, effects, verdicts, the store"},
	{"platform", "What runs", "platforms, programs, images, load"},
	{"annex", "Memory extension", "which pages leave memory, and come back"},
	{"census", "What is seen", "probes of programs and containers that run"},
	{"model", "What is computed", "models and estimators: no input, no clock"},
	{"terminal", "The ground", "the one door to Linux"},
}

// TestTowerPicture keeps docs/tower.svg as the tower stands. go test . -update draws it anew.
func TestTowerPicture(t *testing.T) {
	rooms := map[string]int{}
	for _, p := range packages(t) {
		head, _, _ := strings.Cut(p.path(), "/")
		rooms[head]++
	}
	current(t, filepath.Join("docs", "tower.svg"), towerPicture(rooms))
}

// current compares a document's picture with what it has to be.
func current(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s is not current (%v): go test . -update draws it anew", path, err)
	}
}

// Measures of the picture, in pixels.
const (
	width, margin = 860, 16
	bandHeight    = 62
	titleWidth    = 300
	letter        = 7.9 // of a room's name
)

func towerPicture(rooms map[string]int) string {
	var b strings.Builder
	height := 2*margin + len(parts)*bandHeight
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" role="img" aria-label="The packages of tare as a tower: imports run downwards">
<style>
text { font: 13px ui-sans-serif, system-ui, sans-serif; fill: #1f2328 }
.says { font-size: 11.5px; fill: #59636e }
.room { font: 13px ui-monospace, monospace }
.band { fill: #f3f5f7 } .box { fill: #fff; stroke: #b9c1c9 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .says { fill: #9aa5b1 } .band { fill: #1b2128 } .box { fill: #0f1419; stroke: #49535e }
}
</style>
`, width, height, width)
	for i, p := range parts {
		y := margin + i*bandHeight
		from, to := slices.Index(tower, p.from), len(tower)
		if i+1 < len(parts) {
			to = slices.Index(tower, parts[i+1].from)
		}
		fmt.Fprintf(&b, "<rect class=\"band\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", margin, y, width-2*margin, bandHeight-8)
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" font-weight=\"600\">%s</text>\n", margin+12, y+23, html.EscapeString(p.title))
		fmt.Fprintf(&b, "<text class=\"says\" x=\"%d\" y=\"%d\">%s</text>\n", margin+12, y+41, html.EscapeString(p.says))
		x := float64(margin + titleWidth)
		for _, floor := range tower[from:to] {
			name := floor
			if n := rooms[floor]; n > 1 {
				name = fmt.Sprintf("%s %d", floor, n)
			}
			w := letter*float64(len(name)) + 20
			fmt.Fprintf(&b, "<rect class=\"box\" x=\"%.0f\" y=\"%d\" width=\"%.0f\" height=\"28\" rx=\"4\"/>\n", x, y+13, w)
			fmt.Fprintf(&b, "<text class=\"room\" x=\"%.0f\" y=\"%d\">%s</text>\n", x+10, y+31, name)
			x += w + 8
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}
