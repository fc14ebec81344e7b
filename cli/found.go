package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tare/container"
	"tare/report"
	"tare/study/pages"
)

// foundRunning finds what a command looks at: the containers named and processes by id, or,
// where all are asked for, every container but those that a tare is measuring. The notes are
// of engines that did not answer, and of what was left out.
func foundRunning(
	ctx context.Context,
	all bool,
	names []string,
	pids []int,
) (found []container.Container, notes []string, err error) {
	finder := container.Open(container.Options{})
	if !all {
		names = slices.Clone(separated(names))
		for _, pid := range pids {
			names = append(names, fmt.Sprintf("pid:%d", pid))
		}
		found, err = finder.FindEach(ctx, names)
		return found, nil, err
	}
	found, unheard, err := finder.All(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range unheard {
		notes = append(notes, n.String())
	}
	measured := len(found)
	found = slices.DeleteFunc(found, pages.Measured)
	if measured -= len(found); measured > 0 {
		notes = append(notes, report.Counted(measured, "container")+" left out: tare is measuring there")
	}
	if len(found) == 0 {
		notes = append(notes, "name a process (pid:NUMBER) or the path of a control group")
		return nil, nil, withCode(exitHost, errors.New("no container was found on this host: "+strings.Join(notes, "; ")))
	}
	return found, notes, nil
}
