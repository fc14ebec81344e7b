package report

import (
	"fmt"
	"strings"
)

const (
	// pathShare is the least share in percent of a path that is shown.
	pathShare = 5.0
	// mostPaths are as many lines as a flame graph has on the first screen.
	mostPaths = 18
	pathDepth = 12
)

// A path is a frame with the frames that lead to it and nowhere else.
type path struct {
	frame  *Frame
	chain  []string
	indent int
}

// flame writes the heaviest paths as an indented tree: a share, and what is
// called there. Frames that hand nearly all of their time on stand on one line
// with what they call.
func (s *screen) flame(f Flame, opt TerminalOptions) {
	total := f.Root.weight()
	if total == 0 {
		s.paragraph(faint, "No samples.")
		return
	}
	share, most := pathShare, mostPaths
	if opt.All {
		share, most = 1, 10*mostPaths
	}
	paths := heavyPaths(f.Root, total, share)
	for len(paths) > most && share < 100 {
		share++
		paths = heavyPaths(f.Root, total, share)
	}
	for _, p := range paths {
		head := right(fixed(100*p.frame.weight()/total, 1)+" %", 7) + "  " + strings.Repeat(" ", 2*min(p.indent, pathDepth))
		name := p.chain[0]
		if n := len(p.chain); n == 2 {
			name += " → " + p.chain[1]
		} else if n > 2 {
			name += fmt.Sprintf(" → %d more → %s", n-2, p.chain[n-1])
		}
		for k, l := range wrap(name, max(s.width-columns(head), 20)) {
			if k == 0 {
				s.bare(head + l)
			} else {
				s.bare(strings.Repeat(" ", columns(head)) + l)
			}
		}
	}
	s.paragraph(faint, fmt.Sprintf("Paths of %s %% or more of %s; the report has the whole flame graph.", fixed(share, 0), strings.TrimSpace(reading(total)+" "+clean(f.Unit))))
}

// heavyPaths gives the paths of a share or more, parents first.
func heavyPaths(root *Frame, total, share float64) []path {
	var paths []path
	var put func(f *Frame, indent int)
	put = func(f *Frame, indent int) {
		const handsOn = 0.92 // of its time: the frame is a step and no fork
		p := path{frame: f, indent: indent, chain: []string{frameName(f)}}
		last := f
		for {
			children := byWeight(last.Children)
			if len(children) == 0 || children[0].weight() < handsOn*last.weight() || len(p.chain) >= mostDeep {
				break
			}
			last = children[0]
			p.chain = append(p.chain, frameName(last))
		}
		paths = append(paths, p)
		if indent >= mostDeep {
			return
		}
		for _, c := range byWeight(last.Children) {
			if 100*c.weight()/total >= share {
				put(c, indent+1)
			}
		}
	}
	put(root, 0)
	return paths
}

func frameName(f *Frame) string { return bareName(orElse(clean(f.Name), "unnamed")) }
