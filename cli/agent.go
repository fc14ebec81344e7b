package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tare/cli/command"
	"tare/kernel/file"
	"tare/kernel/process"
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
		Short: "Run programs for a tare on another host, or outside this virtual machine",
		Long: `Agent serves this host's platforms to a tare elsewhere, which then launches and
measures programs here as it does on its own host. Whoever is let in runs programs as
root: over the network both ends show who they are by a key (tare agent identity), and
an agent lets in only those whose fingerprints stand in its file of peers. Whom this
host calls stands in its file of agents, which lets nobody in.`,
		Example: "  tare agent identity\n  tare agent --listen 0.0.0.0:7070\n  tare agent --unix /run/tare-agent.sock\n  tare agent --channel /dev/virtio-ports/tare\n  tare agent ping node1:7070",
		Args:    command.ExactArgs(0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serveAgent(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.listen, "listen", "", "serve the network at HOST:PORT, to the peers alone")
	flags.StringVar(&o.unix, "unix", "", "serve at a Unix socket, which only root may open")
	flags.StringVar(&o.vsock, "vsock", "", "serve the host of this virtual machine at a port of vsock")
	flags.StringVar(&o.channel, "channel", "", "serve through a character device, such as /dev/virtio-ports/tare")
	flags.BoolVar(&o.stdio, "stdio", false, "serve one client through standard input and output, such as ssh's")
	cmd.PersistentFlags().StringVar(&o.identity, "identity", "", "file with this end's key (default agent/identity.pem in the state directory)")
	flags.StringVar(&o.peers, "peers", "", "file with the fingerprints of those let in, one a line (default agent/peers in the state directory)")
	cmd.AddCommand(a.agentIdentity(&o), a.agentPing(&o))
	return cmd
}

type agentOptions struct {
	listen, unix, vsock, channel string
	stdio                        bool
	identity, peers, agents      string
}

// places fills in where the key, the peers and the agents lie.
func (o *agentOptions) places(stateDir string) {
	if o.identity == "" {
		o.identity = filepath.Join(stateDir, "agent", "identity.pem")
	}
	if o.peers == "" {
		o.peers = filepath.Join(stateDir, "agent", "peers")
	}
	if o.agents == "" {
		o.agents = filepath.Join(stateDir, "agent", "agents")
	}
}

func (a *app) agentIdentity(o *agentOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "identity",
		Short: "Print the fingerprint of this host's key, and make the key where there is none",
		Example: "  tare agent identity\n" +
			"  ssh node1 tare agent identity >> /var/lib/tare/agent/peers",
		Args: command.ExactArgs(0),
		RunE: func(*cobra.Command, []string) error {
			dir, err := a.stateDir()
			if err != nil {
				return err
			}
			if err := trustworthy(dir); err != nil {
				return err
			}
			o.places(dir)
			identity, err := agent.OpenIdentity(o.identity)
			if err != nil {
				return err
			}
			name, err := os.Hostname()
			if err != nil {
				name = ""
			}
			terminal.Fprintln(a.out, strings.TrimSpace(identity.Fingerprint()+" "+name))
			return nil
		},
	}
}

func (a *app) agentPing(o *agentOptions) *cobra.Command {
	var jsonPath string
	var trips int
	cmd := &cobra.Command{
		Use:     "ping ADDRESS",
		Short:   "Shake hands with an agent: its host, its clock, its round trips",
		Example: "  tare agent ping node1:7070\n  tare agent ping unix:/run/tare-agent.sock --json -",
		Args:    command.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if trips < 1 || trips > 1_000_000 {
				return usageError("--count %d: want 1 to 1000000 round trips", trips)
			}
			address, err := agent.ParseAddress(args[0])
			if err != nil {
				return withCode(exitUsage, err)
			}
			p, err := a.pingAgent(cmd.Context(), address, *o, trips)
			if err != nil {
				return err
			}
			if jsonPath != "" {
				if err := a.emitJSON(jsonPath, p); err != nil || jsonPath == "-" {
					return err
				}
			}
			return p.print(a.out)
		},
	}
	cmd.Flags().StringVar(&o.agents, "agents", "", "file with the agents this host calls, one HOST:PORT FINGERPRINT a line (default agent/agents in the state directory)")
	cmd.Flags().IntVar(&trips, "count", 1000, "how many round trips to time")
	cmd.Flags().StringVar(&jsonPath, "json", "", "write the answer as JSON to this file (- for standard output)")
	return cmd
}

// ping is the document of `tare agent ping --json`; times are in microseconds.
type ping struct {
	Schema      string      `json:"schema"`
	Address     string      `json:"address"`
	Agent       agent.Hello `json:"agent"`
	Trips       int         `json:"round_trips_n"`
	P50         float64     `json:"round_trip_p50_us"`
	P99         float64     `json:"round_trip_p99_us"`
	Max         float64     `json:"round_trip_max_us"`
	ClockOffset float64     `json:"clock_offset_us"`
	ClockWithin float64     `json:"clock_within_us"`
}

func (a *app) pingAgent(ctx context.Context, address agent.Address, o agentOptions, trips int) (_ ping, err error) {
	c, err := a.dialAgent(ctx, address, o)
	if err != nil {
		return ping{}, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	took, err := c.RoundTrips(ctx, trips)
	if err != nil {
		return ping{}, err
	}
	clock, err := c.Clock(ctx)
	if err != nil {
		return ping{}, err
	}
	slices.Sort(took)
	us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	// The least value that at least that share of all does not exceed.
	at := func(percent int) float64 { return us(took[(len(took)*percent+99)/100-1]) }
	return ping{
		Schema: "tare-agent-ping/1", Address: address.String(), Agent: c.Hello(), Trips: len(took),
		P50: at(50), P99: at(99), Max: at(100), ClockOffset: us(clock.Offset), ClockWithin: us(clock.Within),
	}, nil
}

// dialAgent connects to an agent with this host's key, where the way to it needs one.
func (a *app) dialAgent(ctx context.Context, address agent.Address, o agentOptions) (*agent.Client, error) {
	if address.Network != "tcp" {
		return agent.Dial(ctx, address, nil, nil, versionText())
	}
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	if err := trustworthy(dir); err != nil {
		return nil, err
	}
	o.places(dir)
	identity, err := agent.OpenIdentity(o.identity)
	if err != nil {
		return nil, err
	}
	agents, err := agent.OpenAgents(o.agents)
	if err != nil {
		return nil, err
	}
	return agent.Dial(ctx, address, identity, agents, versionText())
}

func (p ping) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	terminal.Fprintf(w, "agent\ttare %s at %s\n", p.Agent.Version, p.Address)
	terminal.Fprintf(
		w,
		"host\tLinux %s %s, %d CPUs, %.1f GiB, cgroup %s\n",
		p.Agent.Kernel,
		p.Agent.Architecture,
		p.Agent.CPUs,
		float64(p.Agent.Memory)/(1<<30),
		p.Agent.Cgroup,
	)
	for _, phase := range p.Agent.Phases {
		terminal.Fprintf(w, "until ready\t%s %v\n", phase.Name, phase.Took.Round(time.Millisecond))
	}
	terminal.Fprintf(w, "round trip\t%.0f µs (p50), %.0f µs (p99), %.0f µs at most, of %d\n", p.P50, p.P99, p.Max, p.Trips)
	terminal.Fprintf(w, "clock\t%+.0f µs against this host's, within %.0f µs\n", p.ClockOffset, p.ClockWithin)
	return w.Flush()
}

// serveAgent serves in the one way that was chosen.
func (a *app) serveAgent(ctx context.Context, o agentOptions) error {
	ways := 0
	for _, chosen := range []bool{o.listen != "", o.unix != "", o.vsock != "", o.channel != "", o.stdio} {
		if chosen {
			ways++
		}
	}
	if ways != 1 {
		return usageError("agent serves in one way, not %d: name --listen HOST:PORT, --unix PATH, --vsock PORT, --channel DEVICE or --stdio", ways)
	}
	if err := o.check(); err != nil {
		return err
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
	o.places(dir)
	serve := func(ctx context.Context, conn io.ReadWriteCloser) error { return a.serveClient(ctx, dir, conn, 0) }
	switch {
	case o.stdio:
		return a.serveClient(ctx, dir, openStdio(os.Stdin, os.Stdout), agent.HandshakeBound)
	case o.channel != "":
		return a.serveChannel(ctx, o.channel, serve)
	}
	l, err := o.listener(ctx)
	if err != nil {
		return err
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

// check refuses what could never be listened at, before anything is touched.
func (o agentOptions) check() error {
	switch {
	case o.vsock != "":
		_, err := o.vsockPort()
		return err
	case o.listen != "":
		_, port, err := net.SplitHostPort(o.listen)
		if err != nil {
			return usageError("--listen %s: want HOST:PORT, such as 0.0.0.0:7070", o.listen)
		}
		// 0 has the kernel choose one, which is reported. A name is a service's.
		if n, err := strconv.Atoi(port); err == nil && (n < 0 || n > 65535) {
			return usageError("--listen %s: want a port from 0 to 65535, such as 0.0.0.0:7070", o.listen)
		} else if err != nil {
			if _, err := net.LookupPort("tcp", port); err != nil || port == "" {
				return usageError("--listen %s: want HOST:PORT with the number of a port, such as 0.0.0.0:7070", o.listen)
			}
		}
	}
	return nil
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

func (o agentOptions) listener(ctx context.Context) (net.Listener, error) {
	switch {
	case o.unix != "":
		return listenUnix(ctx, o.unix)
	case o.vsock != "":
		port, err := o.vsockPort()
		if err != nil {
			return nil, err
		}
		l, err := agent.ListenVsock(port)
		if err != nil {
			return nil, withCode(exitHost, fmt.Errorf("listening at vsock port %d: %w: is this a virtual machine with vsock?", port, err))
		}
		return l, nil
	}
	identity, err := agent.OpenIdentity(o.identity)
	if err != nil {
		return nil, err
	}
	if _, err := agent.OpenPeers(o.peers); err != nil {
		return nil, err
	}
	// Read anew for each who comes: whoever is taken out is out.
	return agent.ListenTCP(ctx, o.listen, identity, func() (agent.Peers, error) { return agent.OpenPeers(o.peers) })
}

// listenUnix makes a socket that only its owner may open. A socket that nobody serves
// any more is replaced. A directory in which another user could put a socket in its place is refused: that one would
// be sent the images and the programs of who calls.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := file.Guarded(filepath.Dir(path)); err != nil {
		return nil, usageError("--unix %s: %v", path, err)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
		if conn, err := net.Dial("unix", path); err == nil {
			_ = conn.Close()
			return nil, fmt.Errorf("%s is served by another process already", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	restore := process.SetUmask(0o177)
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	process.SetUmask(restore)
	return l, err
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
