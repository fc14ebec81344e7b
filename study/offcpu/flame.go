package offcpu

import (
	"slices"

	"tare/probe/causes"
	"tare/report"
)

// The kinds of time off the CPU, by which the flame graph is coloured.
const (
	blockedKind = "blocked"
	waitingKind = "waiting for a CPU"
)

const (
	flameNote = "Width: the time of all threads together, from leaving a CPU until they had one again. Callers are above, what they call below. " +
		"Waiting: preempted, or the quota was used up."
	flameMethod = "A blocked thread's wait for a CPU after it was woken counts as blocked. " +
		"A thread that left its CPU before the watch began, or had none again at its end, is left out. " +
		"C programs without frame pointers show only the innermost function."
)

// Flame is the flame graph of the time off the CPU, in milliseconds of threads' time.
// Blocked and waiting are side by side. Below each are the programs and their calls, the
// outermost first. It is false where there is nothing to draw.
func Flame(title string, stacks []causes.Stack) (report.Flame, bool) {
	root := &report.Frame{Name: "off the CPU"}
	children := map[*report.Frame]map[string]*report.Frame{}
	under := func(parent *report.Frame, name, kind string, v float64) *report.Frame {
		if children[parent] == nil {
			children[parent] = map[string]*report.Frame{}
		}
		f := children[parent][name]
		if f == nil {
			f = &report.Frame{Name: name, Kind: kind}
			children[parent][name] = f
			parent.Children = append(parent.Children, f)
		}
		f.Value += v
		return f
	}
	for _, s := range stacks {
		kind := blockedKind
		if s.Waiting {
			kind = waitingKind
		}
		v := millis(s.Time)
		root.Value += v
		at := under(under(root, kind, kind, v), s.Program, kind, v)
		for _, frame := range slices.Backward(s.Frames) {
			at = under(at, frame, kind, v)
		}
	}
	if len(root.Children) == 1 {
		// A single kind needs no box of its own.
		only := root.Children[0]
		root = &report.Frame{
			Name:     root.Name + ", " + only.Name,
			Value:    only.Value,
			Kind:     only.Kind,
			Children: only.Children,
		}
	}
	return report.Flame{Title: title, Note: flameNote, Method: flameMethod, Unit: "ms", Root: root}, root.Value > 0
}
