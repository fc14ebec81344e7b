package report

import (
	"fmt"
	"html/template"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// A flamePage is a Flame as the page shows it: boxes from the root at the top
// to the leaves, each as wide as its share of the whole.
type flamePage struct {
	Boxes   template.HTML
	Legend  []segmentPage // kinds, with what is their own
	Total   string
	Remarks []string
	Data    dataTable
}

const (
	leastBox  = 0.1  // percent; about a pixel of a page
	mostBoxes = 8000 // in a page; above it the least box is wider
	mostDeep  = 120
	boxHeight = 18 // pixels
	bareBox   = 1.6
)

// A box is one frame with its place, in percent of the whole.
type box struct {
	frame    *Frame
	depth    int
	x, width float64
	gathered int // frames that this grey box stands for
}

// weight is a frame's value as far as it can be drawn.
func (f *Frame) weight() float64 {
	if f == nil || !finite(f.Value) || f.Value < 0 {
		return 0
	}
	return f.Value
}

// below is what a frame's children hold, and own what is left for itself.
func (f *Frame) below() float64 {
	sum := 0.0
	for _, c := range f.Children {
		sum += c.weight()
	}
	return sum
}

func (f *Frame) own() float64 { return max(0, f.weight()-f.below()) }

// layout places frames whose share is at least least percent. What is smaller
// is gathered in one box a parent, so that widths still add up.
func layout(root *Frame, least float64) (boxes []box, pruned, cut int) {
	var put func(f *Frame, depth int, x, width float64)
	put = func(f *Frame, depth int, x, width float64) {
		boxes = append(boxes, box{frame: f, depth: depth, x: x, width: width})
		whole := max(f.weight(), f.below())
		if whole == 0 || !finite(whole) || len(f.Children) == 0 {
			return
		}
		if depth+1 >= mostDeep {
			cut += count(f) - 1
			return
		}
		small, gathered := 0.0, 0
		for _, c := range byWeight(f.Children) {
			share := width * (c.weight() / whole)
			if share < least {
				small += share
				gathered += count(c)
				continue
			}
			put(c, depth+1, x, share)
			x += share
		}
		pruned += gathered
		if small >= least {
			boxes = append(boxes, box{depth: depth + 1, x: x, width: small, gathered: gathered})
		}
	}
	put(root, 0, 0, 100)
	return boxes, pruned, cut
}

// byWeight puts the heaviest children first: the eye finds them at the left.
func byWeight(children []*Frame) []*Frame {
	sorted := make([]*Frame, 0, len(children))
	for _, c := range children {
		if c != nil {
			sorted = append(sorted, c)
		}
	}
	sort.SliceStable(sorted, func(i, j int) bool { return sorted[i].weight() > sorted[j].weight() })
	return sorted
}

// count counts frames; a stack keeps no stack of its own that a deep one could
// exhaust.
func count(f *Frame) int {
	n := 0
	for todo := []*Frame{f}; len(todo) > 0; {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if next == nil {
			continue
		}
		n++
		todo = append(todo, next.Children...)
	}
	return n
}

// walk visits all frames, parents first.
func walk(root *Frame, visit func(*Frame)) {
	for todo := []*Frame{root}; len(todo) > 0; {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if next == nil {
			continue
		}
		visit(next)
		for _, c := range slices.Backward(next.Children) {
			todo = append(todo, c)
		}
	}
}

func newFlamePage(f Flame, colours *palette) *flamePage {
	page := &flamePage{}
	total := f.Root.weight()
	if total == 0 {
		page.Remarks = []string{"There is nothing to draw."}
		return page
	}
	unit := clean(f.Unit)
	page.Total = strings.TrimSpace(reading(total) + " " + unit)
	least := leastBox
	boxes, pruned, cut := layout(f.Root, least)
	for len(boxes) > mostBoxes {
		least *= 1.5
		boxes, pruned, cut = layout(f.Root, least)
	}
	kinds, own := kindsOf(f.Root)
	// By name, so that a kind keeps its colour whatever its share.
	coloured := slices.Sorted(slices.Values(kinds))
	colours.assign(coloured)
	deepest := 0
	for _, b := range boxes {
		deepest = max(deepest, b.depth)
	}
	s := &svg{}
	fmt.Fprintf(&s.b, `<svg class="flame" height="%d" role="group" aria-label="%s">`, (deepest+1)*boxHeight, template.HTMLEscapeString(clean(f.Title)))
	for _, b := range boxes {
		colour := "gathered"
		if b.frame != nil && slices.Contains(kinds, kindOf(b.frame)) {
			colour = colours.colour(kindOf(b.frame))
		}
		s.box(b, total, unit, colour)
	}
	page.Boxes = s.html()
	for _, k := range kinds {
		swatch := &svg{}
		fmt.Fprintf(&swatch.b, `<svg class="swatched flame-sample" aria-hidden="true"><g class="%s"><rect width="100%%" height="100%%"/></g>`, colours.colour(k))
		page.Legend = append(
			page.Legend,
			segmentPage{
				Sample: swatch.html(),
				Name:   k,
				Cells:  []cellPage{{Text: shareText(own[k], total), Number: true}},
			},
		)
	}
	if pruned > 0 {
		page.Remarks = append(
			page.Remarks,
			fmt.Sprintf("%s narrower than %s %% of the whole are gathered in grey boxes, or left out where these would be as narrow.", Counted(pruned, "frame"), strconv.FormatFloat(least, 'g', 2, 64)),
		)
	}
	if cut > 0 {
		page.Remarks = append(page.Remarks, Counted(cut, "frame")+fmt.Sprintf(" deeper than %d calls are left out.", mostDeep))
	}
	page.Data = heaviest(f, total, unit)
	return page
}

// kindOf names a frame's kind.
func kindOf(f *Frame) string { return orElse(clean(f.Kind), "other") }

// kindsOf gives the kinds of frames, the heaviest first, and how much is each
// one's own. The root stands for all and has a kind only where it has company.
func kindsOf(root *Frame) ([]string, map[string]float64) {
	own := map[string]float64{}
	var kinds []string
	walk(root, func(f *Frame) {
		k := kindOf(f)
		if f == root && len(f.Children) > 0 {
			own[k] += f.own()
			return
		}
		if !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
		own[k] += f.own()
	})
	sort.SliceStable(kinds, func(i, j int) bool { return own[kinds[i]] > own[kinds[j]] })
	return kinds, own
}

func shareText(v, total float64) string {
	share := 100 * v / total
	switch {
	case share == 0:
		return "0\u00a0%"
	case share < 0.05:
		return "under 0.05\u00a0%"
	}
	return fixed(share, 1) + "\u00a0%"
}

// box writes one box. It clips its name; the script shortens names to their
// boxes and gives the narrow ones theirs when they are enlarged.
func (s *svg) box(b box, total float64, unit, colour string) {
	name, tooltip := "", ""
	if b.frame == nil {
		name = "…"
		tooltip = Counted(b.gathered, "frame") + " too small to be drawn"
	} else {
		name = orElse(clean(b.frame.Name), "unnamed")
		tooltip = name + ": " + strings.TrimSpace(reading(b.frame.weight())+" "+unit) + ", " +
			shareText(b.frame.weight(), total)
	}
	// Four decimals: what is a pixel now is wide when enlarged.
	fmt.Fprintf(
		&s.b,
		`<svg class="%s" x="%s%%" y="%d" width="%s%%" height="%d"><title>%s</title><rect width="100%%" height="%d"/>`,
		colour,
		coord4(b.x),
		b.depth*boxHeight,
		coord4(b.width),
		boxHeight,
		template.HTMLEscapeString(shortened(tooltip, 300)),
		boxHeight-1,
	)
	if b.width >= bareBox {
		fmt.Fprintf(&s.b, `<text x="4" y="13">%s</text>`, template.HTMLEscapeString(shortened(bareName(name), 160)))
	}
	s.b.WriteString("</svg>")
}

// bareName leaves the path of a Go package away: what is called says more in a
// narrow box than where it was published.
func bareName(name string) string {
	path := name
	if i := strings.IndexAny(path, "[( "); i >= 0 {
		path = path[:i]
	}
	if i := strings.LastIndexByte(path, '/'); i >= 0 && i < len(path)-1 {
		return name[i+1:]
	}
	return name
}

// heaviest lists the functions with the most that is their own, wherever they
// are called from.
func heaviest(f Flame, total float64, unit string) dataTable {
	own, kinds := map[string]float64{}, map[string]string{}
	var names []string
	walk(f.Root, func(f *Frame) {
		name := orElse(clean(f.Name), "unnamed")
		if _, seen := own[name]; !seen {
			names = append(names, name)
			kinds[name] = kindOf(f)
		}
		own[name] += f.own()
	})
	sort.SliceStable(names, func(i, j int) bool { return own[names[i]] > own[names[j]] })
	t := dataTable{Caption: "What functions spend themselves, without what they call", Head: []string{"function", "kind", orElse(unit, "value"), "share"}}
	for i, name := range names {
		if i == mostRows || own[name] == 0 {
			break
		}
		t.Rows = append(t.Rows, []string{name, kinds[name], reading(own[name]), shareText(own[name], total)})
	}
	return t
}
