package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"tare/cli/command"
	"tare/lab"
	"tare/platform"
	"tare/platform/agent"
	"tare/platform/box"
	"tare/terminal"
)

func (a *app) agent() *cobra.Command {
	var o agentOptions
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run programs for a tare outside this virtual machine, or at the other end of a pipe",
		Long: `Agent serves this host's platforms to a tare elsewhere, which then launches and
measures programs here as it does on its own host. Whoever has the other end of its
stream runs programs as root. It serves no network.`,
		Example: "  tare agent --vsock 7070\n  tare agent --channel /dev/virtio-ports/tare\n  tare agent --stdio",
		Args:    command.ExactArgs(0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serveAgent(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.vsock, "vsock", "", "serve the host of this virtual machine at a port of vsock")
	flags.StringVar(&o.channel, "channel", "", "serve through a character device, such as /dev/virtio-ports/tare")
	flags.BoolVar(&o.stdio, "stdio", false, "serve one client through standard input and output, such as ssh's")
	return cmd
}

type agentOptions struct {
	vsock, channel string
	stdio          bool
}

// serveAgent serves in the one way that was chosen.
func (a *app) serveAgent(ctx context.Context, o agentOptions) error {
	ways := 0
	for _, chosen := range []bool{o.vsock != "", o.channel != "", o.stdio} {
		if chosen {
			ways++
		}
	}
	if ways != 1 {
		return usageError("agent serves in one way, not %d: name --vsock PORT, --channel DEVICE or --stdio", ways)
	}
	var port uint32
	if o.vsock != "" {
		var err error
		if port, err = o.vsockPort(); err != nil { // before anything is touched
			return err
		}
	}
	if os.Geteuid() != 0 {
		return withCode(exitHost, errors.New("agent needs root, to run programs as platforms do: run it with sudo"))
	}
	dir, err := a.stateDir()
	if err != nil {
		return err
	}
	if err := trustworthy(dir); err != nil {
		return err
	}
	serve := func(ctx context.Context, conn io.ReadWriteCloser) error { return a.serveClient(ctx, dir, conn, 0) }
	switch {
	case o.stdio:
		return a.serveClient(ctx, dir, openStdio(os.Stdin, os.Stdout), agent.HandshakeBound)
	case o.channel != "":
		return a.serveChannel(ctx, o.channel, serve)
	}
	l, err := agent.ListenVsock(port)
	if err != nil {
		return withCode(exitHost, fmt.Errorf("listening at vsock port %d: %w: is this a virtual machine with vsock?", port, err))
	}
	terminal.Fprintf(a.err, "tare agent: serving at %s\n", l.Addr())
	return agent.Accept(
		ctx,
		l,
		func(ctx context.Context, conn net.Conn) error { return serve(ctx, conn) },
		func(err error) {
			terminal.Fprintln(a.err, "tare agent:", err)
		},
	)
}

// vsockPort reads --vsock. The kernel takes no port for 0, and any for the highest: nobody
// could know where to call.
func (o agentOptions) vsockPort() (uint32, error) {
	port, err := strconv.ParseUint(o.vsock, 10, 32)
	if err != nil || port == 0 || port == math.MaxUint32 {
		return 0, usageError("--vsock %s: want the number of a port, 1 to %d", o.vsock, uint32(math.MaxUint32-1))
	}
	return uint32(port), nil
}

// serveChannel serves one client after another: a virtual machine's host comes and goes.
func (a *app) serveChannel(
	ctx context.Context,
	path string,
	serve func(context.Context, io.ReadWriteCloser) error,
) error {
	for ctx.Err() == nil {
		channel, err := agent.OpenChannel(path)
		if err != nil {
			return withCode(exitHost, err)
		}
		if err := serve(ctx, channel); err != nil && ctx.Err() == nil {
			terminal.Fprintln(a.err, "tare agent:", err)
		}
	}
	return nil
}

// serveClient serves one client. From its first use of a platform, or its first box, on it
// has the host for itself; while another tare measures here, that is refused, and said.
func (a *app) serveClient(
	ctx context.Context,
	dir string,
	conn io.ReadWriteCloser,
	patience time.Duration,
) (err error) {
	var session *lab.Session
	var opening sync.Mutex
	open := func() (*lab.Session, error) {
		opening.Lock()
		defer opening.Unlock()
		if session == nil {
			opened, _, err := lab.OpenSession(ctx, lab.LockPath, dir, "agent")
			if err != nil {
				return nil, err
			}
			session = opened
		}
		return session, nil
	}
	server := &agent.Server{Version: versionText(), ImageDir: filepath.Join(dir, "images"), Patience: patience}
	server.Platforms = func(name string) (platform.Platform, error) {
		s, err := open()
		if err != nil {
			return nil, err
		}
		return s.Platforms(name) // the server asks for one at a time
	}
	server.Boxes = func(ctx context.Context, spec platform.BoxSpec) (platform.Box, error) {
		s, err := open()
		if err != nil {
			return nil, err
		}
		// Nobody at this host has allowed what reaches all of its programs.
		return box.New(box.Options{StateDir: dir, Ledger: s.Ledger}).Make(ctx, spec)
	}
	err = server.Serve(ctx, conn)
	if session != nil {
		err = errors.Join(err, session.Close())
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil // as asked
	}
	return err
}

// stdio is the standard streams as one. Both go through pipes of this program's own, since
// closing a descriptor that blocks ends neither a reading nor a writing of it: whoever is at
// the other end may be dead.
type stdio struct {
	*io.PipeReader
	*io.PipeWriter
}

func openStdio(in io.Reader, out io.Writer) stdio {
	read, arrive := io.Pipe()
	leave, write := io.Pipe()
	go func() {
		_, err := io.Copy(arrive, in)
		_ = arrive.CloseWithError(err) // EOF where it is nil
	}()
	go func() {
		_, err := io.Copy(out, leave)
		_ = leave.CloseWithError(err)
	}()
	return stdio{read, write}
}

func (s stdio) Close() error { return errors.Join(s.PipeReader.Close(), s.PipeWriter.Close()) }
