package agent

import (
	"os"

	"tare/kernel/cgroup"
)

// ownDirectory is the directory of the group that a program has to itself: one in
// which the agent itself is not, that with the CPU controller before others, since it
// tells of throttling.
func ownDirectory(group cgroup.Group) (dir string, ok bool) {
	layout, err := cgroup.Host()
	if err != nil {
		return "", false
	}
	ours, _, err := layout.Of(os.Getpid())
	if err != nil {
		return "", false
	}
	shared := map[string]bool{}
	for _, p := range ours.Places {
		shared[p.Dir()] = true
	}
	if p, has := group.For("cpu"); has && !shared[p.Dir()] {
		return p.Dir(), true
	}
	for _, p := range group.Places {
		if !shared[p.Dir()] {
			return p.Dir(), true
		}
	}
	return "", false
}
