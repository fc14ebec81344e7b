package platforms

import (
	"slices"
	"strconv"

	"tare/image"
	"tare/lab"
)

// paramTasks is the parameter by which a workload cuts its work.
const paramTasks = "parts"

// tasking sets the same work, by one process and by many at once, on bare metal and in
// containers (S2.8).
func (b *builder) tasking(s subject, size Size) (lab.Group, error) {
	g := lab.Group{Workload: groupName(s, size, ofTasking)}
	counts := slices.Sorted(slices.Values(b.Tasks))
	clips := image.CutClips()
	if i := slices.IndexFunc(clips, func(c image.CutClip) bool { return c.Seconds == counts[len(counts)-1] }); i >= 0 {
		s.Subject = given(s.Subject, paramClip, clips[i].Path)
	}
	for _, n := range counts {
		cut, _ := s.With(paramTasks, strconv.Itoa(n)) // what has no parts was refused before
		of := s
		of.Subject = cut
		if _, err := b.subject(cut); err != nil {
			return g, err
		}
		for _, c := range b.usable {
			if KindOf(c.name) == BM {
				c = b.metal(size, b.Host.online())
			}
			for _, preset := range b.presets(s, size, c) {
				made := b.condition(of, size, g.Workload, ofTasking, c, preset)
				made.Factors[factorTasks] = strconv.Itoa(n)
				made.Takes = takes(made)
				made.Label += ", " + tasksText(n)
				made.ID = g.Workload + "@" + made.Label
				if err := c.on.Supports(made.Setting); err != nil {
					b.notes.Add("%s is left out at %s: %v", made.Label, size, err)
					continue
				}
				made.Baseline = KindOf(c.name) == BM && n == counts[0]
				g.Conditions = append(g.Conditions, made)
			}
		}
	}
	return g, nil
}

func tasksText(n int) string {
	if n == 1 {
		return "1 process"
	}
	return strconv.Itoa(n) + " processes"
}
