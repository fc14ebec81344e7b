package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"tare/lab"
	"tare/platform/k8s"
	"tare/record"
	"tare/terminal"
	"tare/workload"
)

// Sent is what a node was sent for its part of a study.
type Sent struct {
	Files    map[string]string // texts of those that the arguments name
	Services []k8s.Service     // for its pods
}

// MeasurePart measures one node's part of a study, as tare with these arguments would. A part that
// was begun goes on, and of a complete one nothing is measured. The error says why the part is not complete.
func MeasurePart(ctx context.Context, args []string, sent Sent, of record.Part, out, errOut io.Writer) error {
	defer func() { workload.Away = nil }()
	workload.Away = func(path string) ([]byte, error) {
		text, ok := sent.Files[path]
		if !ok {
			return nil, fmt.Errorf("the study has no file %s", path)
		}
		return []byte(text), nil
	}
	a := &app{
		out: terminal.To(out), err: terminal.To(errOut), args: append([]string{"tare"}, args...), part: true, of: &of,
		services: sent.Services,
	}
	dir, err := a.stateDir()
	if err != nil {
		return err
	}
	before, err := partIn(dir, of)
	if err != nil || before.Status == record.Complete {
		return err
	}
	stopping, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(lab.ErrStopped) })()
	err = a.measurePart(stopping, dir, before)
	after, reading := partIn(dir, of)
	switch {
	case after.Status == record.Complete:
		return nil // a threshold that is exceeded is a result
	case err != nil || reading != nil:
		return errors.Join(err, reading)
	}
	return fmt.Errorf("the run is %s: %s", after.Status, after.Reason)
}

// measurePart measures a part, and resumes it where it was begun.
func (a *app) measurePart(ctx context.Context, dir string, before record.Run) error {
	switch before.Status {
	case record.Running, record.Interrupted:
		return a.resumeSub(ctx, commandsOf(before.Study), dir, before, "", "")
	case record.Failed: // nothing of it can be compared
		store, err := record.Open(StorePath(dir))
		if err != nil {
			return err
		}
		if err := errors.Join(store.Remove(before.ID), store.Close()); err != nil {
			return err
		}
	}
	root := a.root()
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetArgs(a.args[1:])
	root.SetOut(a.out)
	root.SetErr(a.err)
	return root.ExecuteContext(ctx)
}

// partIn is what a store has of a part; the zero value where that is nothing.
func partIn(dir string, of record.Part) (record.Run, error) {
	store, err := record.Open(StorePath(dir))
	if err != nil {
		return record.Run{}, err
	}
	defer store.Close()
	if _, err := store.StatusOf(of.ID()); is[*record.NotFound](err) {
		return record.Run{}, nil
	}
	return store.Run(of.ID())
}
