package cli

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strings"

	"tare/annex/control"
	"tare/container"
	"tare/study/diagnose"
	"tare/study/kit"
	"tare/terminal"
)

// watchDiagnose diagnoses again and again, until the user or a signal ends it. A terminal shows
// the last round. Anything else gets one block per round.
func (a *app) watchDiagnose(ctx context.Context, f *diagnoseFlags, args []string) (err error) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	metrics := &diagnose.Metrics{}
	if f.metrics != "" {
		l, err := listenFor(f.metrics)
		if err != nil {
			return err
		}
		served := make(chan error, 1)
		go func() {
			served <- control.ServeCollected(ctx, l, metrics)
			leave()
		}()
		defer func() {
			leave()
			err = cmp.Or(err, <-served)
		}()
	}
	all, notes, err := foundRunning(ctx, f.all, args, nil)
	if err != nil {
		return err
	}
	views, ended := make(chan diagnose.View), make(chan error, 1)
	go func() {
		defer close(views)
		ended <- f.rounds(ctx, all, notes, args, func(v diagnose.View) {
			if v.Last != nil {
				metrics.Set(v.Last)
			}
			select {
			case views <- v:
			case <-ctx.Done():
			}
		})
	}()
	if _, isTerminal := terminal.Behind(a.out); isTerminal {
		if err := terminal.Show(ctx, leave, a.out, views, diagnose.View.Rows); err != nil {
			return err
		}
		return <-ended
	}
	for v := range views {
		if v.Last != nil {
			terminal.Fprintln(a.out, "")
			v.Block(a.out)
		}
	}
	return <-ended
}

// rounds diagnoses until ctx ends. An error of the first round is its own; one of a later round
// is shown, and the next round goes on.
func (f *diagnoseFlags) rounds(
	ctx context.Context,
	all []container.Container,
	notes, args []string,
	show func(diagnose.View),
) error {
	var rounds diagnose.Rounds
	var v diagnose.View
	show(v)
	for {
		result, err := f.round(ctx, all, !f.all, notes)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			v = rounds.Add(result)
		case v.Last == nil:
			return err
		default:
			v.Failed = err
		}
		show(v)
		for {
			if all, notes, err = stillRunning(ctx, f.all, args); err == nil {
				break
			}
			if v.Failed = err; ctx.Err() == nil {
				show(v)
			}
			if !kit.Wait(ctx, f.span) {
				return nil
			}
		}
	}
}

// stillRunning finds the containers again. One that was named and has ended is in the notes, and
// the others are diagnosed without it.
func stillRunning(ctx context.Context, isAll bool, args []string) ([]container.Container, []string, error) {
	var missing []string
	for names := separated(args); ; {
		all, notes, err := foundRunning(ctx, isAll, names, nil)
		var unknown *container.Unknown
		if !errors.As(err, &unknown) || len(names) == 1 {
			return all, append(missing, notes...), err
		}
		missing = append(missing, unknown.Name+" does not run")
		names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == unknown.Name })
	}
}

// listenFor listens for Prometheus: a port alone is one of this host's, which others cannot reach.
func listenFor(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = "", strings.TrimPrefix(address, ":")
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, usageError("--prometheus %s: %v: want PORT, or HOST:PORT of this host", address, err)
	}
	return l, nil
}
