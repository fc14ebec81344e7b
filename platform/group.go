package platform

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"strings"

	"tare/kernel/cgroup"
)

// Grouping is a Platform that may be unable to put a program into a [Spec.Group], and that
// says so before anything starts. The others can.
type Grouping interface {
	// Groups refuses by an *Unsupported with the reason.
	Groups(ctx context.Context) error
}

// groupShape is one part of a [Spec.Group]. What begins as tare's own groups do is left
// out: those go with the last group in them.
var groupShape = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// BadGroup says that a [Spec.Group] is no path of groups below [CgroupParent].
type BadGroup struct{ Group, Why string }

func (b *BadGroup) Error() string {
	return fmt.Sprintf("cgroup %q below %s: %s", b.Group, CgroupParent, b.Why)
}

// Parent is the path, from the root of each hierarchy, of the cgroup in which the
// instance's own is made.
func (s Spec) Parent() string { return path.Join(CgroupParent, s.Group) }

// CheckGroup refuses a Group that is no path below [CgroupParent], by a *BadGroup. It
// looks at the name alone.
func (s Spec) CheckGroup() error {
	if s.Group == "" {
		return nil
	}
	for part := range strings.SplitSeq(s.Group, "/") {
		switch {
		case !groupShape.MatchString(part):
			return &BadGroup{s.Group, fmt.Sprintf("%q is not a name of lower-case letters, digits and '-'", part)}
		case strings.HasPrefix(part, "tare"):
			return &BadGroup{s.Group, fmt.Sprintf("%q begins as tare's own groups do, which go with the last program in them", part)}
		}
	}
	return nil
}

// FindGroup refuses a Group that is not there, in any hierarchy: an instance makes its
// own group and none above it, or nobody would remove that. CheckGroup goes before.
func (s Spec) FindGroup(layout cgroup.Layout) error {
	if err := s.CheckGroup(); err != nil {
		return err
	}
	if s.Group != "" && !layout.At(s.Parent()).Exists() {
		return &BadGroup{s.Group, "it is not there: make its box first, and launch before the box is removed"}
	}
	return nil
}
