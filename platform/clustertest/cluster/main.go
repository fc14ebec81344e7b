// Command cluster starts a Kubernetes cluster on this host for tests by hand, and removes what clusters left.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tare/platform/clustertest"
	"tare/terminal"
)

const usage = `usage: go run ./platform/clustertest/cluster build | start [NODES] | stop
  build  build Kubernetes' programs where they are not there yet (ten minutes)
  start  start a cluster of two nodes, or NODES, and remove it at Ctrl-C
  stop   remove what clusters left whose starters were killed`

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		terminal.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func say(format string, args ...any) { terminal.Fprintf(os.Stdout, format+"\n", args...) }

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "build":
		dir, err := clustertest.Programs(ctx, say)
		if err == nil {
			say("Kubernetes' programs are in %s", dir)
		}
		return err
	case len(args) > 0 && len(args) <= 2 && args[0] == "start":
		nodes := 2
		if len(args) == 2 {
			var err error
			if nodes, err = strconv.Atoi(args[1]); err != nil {
				return fmt.Errorf("%q is no number of nodes", args[1])
			}
		}
		return start(ctx, nodes)
	case len(args) == 1 && args[0] == "stop":
		return stop(ctx)
	}
	return fmt.Errorf("%s", usage)
}

func start(ctx context.Context, nodes int) error {
	c, err := clustertest.Start(ctx, clustertest.Options{Nodes: nodes, Log: say})
	if err != nil {
		return err
	}
	say("kubectl --kubeconfig %s; Ctrl-C removes the cluster", c.Kubeconfig)
	<-ctx.Done()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return c.Stop(ending)
}

func stop(ctx context.Context) error {
	removed, err := clustertest.Clean(ctx, clustertest.StateDir)
	if err != nil {
		return err
	}
	for _, id := range removed {
		say("removed cluster %s", id)
	}
	running, err := clustertest.Running(clustertest.StateDir)
	if err == nil && len(running) > 0 {
		err = fmt.Errorf("left alone, as their starters run: %s; end those by Ctrl-C", strings.Join(running, ", "))
	}
	return err
}
