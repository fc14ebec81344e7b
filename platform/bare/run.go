package bare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/clock"
	"tare/kernel/process"
	"tare/platform"
)

// running is one program that a stage has started, with its output.
type running struct {
	cmd            *exec.Cmd
	stdout, stderr *process.Output
	stage          time.Duration // CPU time of the stage, which is tare's and not the program's
	began          time.Time     // when the stage executed the program
}

// start runs the stage with the order and returns when the program runs, or
// has failed to. The first process is born in the group where the host can do
// that, and joins it before anything else where not.
func start(ctx context.Context, o order, group cgroup.Group, stdout, stderr io.Writer) (r *running, err error) {
	r = &running{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	var childOut, childErr *os.File
	if childOut, r.stdout, err = process.NewOutput(stdout); err != nil {
		return r, err
	}
	defer childOut.Close()
	if childErr, r.stderr, err = process.NewOutput(stderr); err != nil {
		return r, err
	}
	defer childErr.Close()
	orders, giveOrders, err := os.Pipe()
	if err != nil {
		return r, err
	}
	defer orders.Close()
	defer giveOrders.Close()
	reports, makeReports, err := os.Pipe()
	if err != nil {
		return r, err
	}
	defer reports.Close()
	defer makeReports.Close()

	cmd := &exec.Cmd{
		Path: self(), Args: []string{stageName}, Env: []string{},
		Stdout: childOut, Stderr: childErr, // and /dev/null for input
		ExtraFiles: []*os.File{orders, makeReports},
		// A session of its own: a terminal's interrupt is tare's, not the program's.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	birthplace, ok, err := group.Directory()
	if err != nil {
		return r, err
	}
	if ok {
		defer birthplace.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(birthplace.Fd())
	}
	if err := cmd.Start(); err != nil {
		return r, fmt.Errorf("starting the stage for %s: %w", o.Program, err)
	}
	r.cmd = cmd
	// Their other ends are the stage's now.
	_, _ = orders.Close(), makeReports.Close()

	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	giving := json.NewEncoder(giveOrders).Encode(o)
	_ = giveOrders.Close()
	stage, said := readReport(reports, o.Program)
	r.stage, r.began = stage.CPU, time.Now()
	if stage.At > 0 { // it may have run, and ended, since then
		r.began = r.began.Add(stage.At - clock.Monotonic())
	}
	if failed := errors.Join(giving, said, ctx.Err()); failed != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		switch {
		case ctx.Err() != nil:
			return r, fmt.Errorf("starting %s: %w", o.Program, ctx.Err())
		case said != nil:
			return r, said
		}
		return r, fmt.Errorf("starting %s: %w", o.Program, giving)
	}
	return r, nil
}

// wait blocks until the first process ends; what it has printed is handed on
// by then. Its error says that somebody else took the process' status, as
// Remove does of an instance that was given up.
func (r *running) wait() (process.Ending, error) {
	err := r.cmd.Wait() // where there is a state, it repeats that
	if r.cmd.ProcessState == nil {
		return process.Ending{}, fmt.Errorf("%w: the status of process %d is lost: %w", platform.ErrGone, r.cmd.Process.Pid, err)
	}
	status, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return process.Ending{Code: r.cmd.ProcessState.ExitCode()}, nil
	}
	return process.EndingOf(status.ExitStatus(), int(status.Signal()), status.Signaled()), nil
}

func (r *running) flush() error { return errors.Join(r.stdout.Flush(), r.stderr.Flush()) }

func (r *running) close() error {
	var errs []error
	for _, o := range []*process.Output{r.stdout, r.stderr} {
		if o != nil {
			errs = append(errs, o.Close())
		}
	}
	return errors.Join(errs...)
}
