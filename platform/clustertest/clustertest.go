// Package clustertest starts a Kubernetes cluster of several nodes on this host, for tests, and
// removes it.
//
// The control plane and each node are a machine: a process in namespaces of its own (processes,
// mounts, network, control groups, host name), which starts the machine's programs. /var, /run and /tmp are
// directories of the machine's own, so that a hostPath volume lies on one node alone. Everything
// else of the file system is the host's.
//
// No device, mount or packet filter is made in the host's namespaces: bridges, kube-proxy's rules
// and volumes are the machines', and the kernel removes them with a machine's first process. That
// one ends with whoever started the cluster, however that ends. Directories and control groups
// stay then. A ledger lists them, and [Clean] or the next [Start] removes them.
//
// It is neither quick nor secure: etcd keeps its data in memory, and each node's programs run as
// the host's root.
package clustertest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"tare/kernel/cgroup"
	"tare/kernel/file"
	"tare/kernel/netns"
	"tare/kernel/process"
)

// StateDir is where clusters and their ledgers are.
const StateDir = "/var/lib/tare-cluster"

// Options say what cluster to start.
type Options struct {
	Nodes    int                              // 0 is two
	StateDir string                           // empty is [StateDir]
	Log      func(format string, args ...any) // receives a line for each step; nil is nobody
}

// Cluster is a cluster that runs.
type Cluster struct {
	// Kubeconfig is the file that a client is given. Only root can read it. Its user may do everything.
	Kubeconfig string
	// Nodes are named node1, node2, and so on.
	Nodes []*Node

	id, dir  string // the directory holds everything, and is named by the id
	programs string
	log      func(format string, args ...any)
	failed   func(error) // ends what waits in Start
	trust    *authority
	control  *Machine
	booted   []*Machine // all of them
	group    cgroup.Group
	ledger   *os.File
	listener net.Listener
	server   string // the API's address
	client   *http.Client
	stopped  sync.Once
}

// Node is a machine with a kubelet.
type Node struct {
	*Machine
	address netip.Addr
	pods    netip.Prefix
	port    netns.Link // of the bridge, to which the node is joined
}

// Addresses of the cluster. They are in network namespaces of its own: that the host uses the
// same ones makes no difference.
var (
	machines = netip.MustParsePrefix("10.213.0.0/24")
	allPods  = netip.MustParsePrefix("10.214.0.0/16")
	services = netip.MustParsePrefix("10.215.0.0/16")
)

const bridge = "machines"

// mostNodes is how many subnets of pods there are beside the first.
const mostNodes = 250

// controlAddress is the control plane's, whose machine has the bridge.
func controlAddress() netip.Addr { return netns.Gateway(machines) }

// Start removes what clusters have left whose starters have ended, builds Kubernetes where it is not
// built yet (minutes), starts the cluster, and returns when every node is ready.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Nodes == 0 {
		o.Nodes = 2
	}
	if o.StateDir == "" {
		o.StateDir = StateDir
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Nodes < 1 || o.Nodes > mostNodes {
		return nil, fmt.Errorf("%d nodes: want 1 to %d", o.Nodes, mostNodes)
	}
	if err := check(); err != nil {
		return nil, err
	}
	if _, err := Clean(ctx, o.StateDir); err != nil {
		return nil, err
	}
	programs, err := Programs(ctx, o.Log)
	if err != nil {
		return nil, err
	}
	c := &Cluster{programs: programs, log: o.Log}
	if err := c.enter(o.StateDir); err != nil {
		return nil, err
	}
	waiting, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	c.failed = fail
	if err := c.start(waiting, o.Nodes); err != nil {
		// Removing takes moments, and is due also where ctx has ended.
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return nil, errors.Join(err, c.Stop(ending))
	}
	return c, nil
}

// enter draws the cluster's name and enters it in a ledger, which is locked from then on.
func (c *Cluster) enter(stateDir string) error {
	if err := file.Private(stateDir); err != nil {
		return err
	}
	drawn := make([]byte, 4)
	_, _ = rand.Read(drawn) // never fails (crypto/rand)
	c.id = hex.EncodeToString(drawn)
	c.dir = filepath.Join(stateDir, c.id)
	layout, err := cgroup.Host()
	if err != nil {
		return err
	}
	c.group = groupOf(layout, c.id)
	c.ledger, err = file.Lock(c.dir + ledgerSuffix)
	return err
}

func (c *Cluster) start(ctx context.Context, nodes int) (err error) {
	began := time.Now()
	if err := file.Private(c.dir); err != nil {
		return err
	}
	if c.trust, err = newAuthority(); err != nil {
		return err
	}
	// A free port of loopback: the API server is not reached from outside of the host.
	if c.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	if c.control, err = c.boot(ctx, "control", c.controlPlane); err != nil {
		return err
	}
	for i := 1; i <= nodes; i++ {
		n := &Node{address: nthAddress(i), pods: podsOf(i)}
		if n.Machine, err = c.boot(ctx, fmt.Sprintf("node%d", i), n.programs(c)); err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, n)
	}
	if err := c.link(); err != nil {
		return err
	}
	go c.serve()
	if err := c.control.Start("etcd", "kube-apiserver"); err != nil {
		return err
	}
	for _, n := range c.Nodes {
		if err := n.Start("containerd"); err != nil {
			return err
		}
	}
	if err := c.awaitServer(ctx); err != nil {
		return err
	}
	c.log("the API server answers after %v", time.Since(began).Round(10*time.Millisecond))
	// The controllers end where no server answers them within 10 s.
	if err := c.control.Start("kube-controller-manager", "kube-scheduler"); err != nil {
		return err
	}
	archive := filepath.Join(c.dir, "busybox.tar")
	if err := WriteImage(archive, Busybox, busyboxProgram(), "sleep", "2147483647"); err != nil {
		return err
	}
	for _, n := range c.Nodes {
		if err := n.Load(ctx, archive); err != nil {
			return err
		}
		if err := n.Start("kubelet", "kube-proxy"); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes {
		if err := c.AwaitNode(ctx, n.Name, true); err != nil {
			return err
		}
	}
	if err := c.awaitAccount(ctx); err != nil {
		return err
	}
	c.log("%d nodes are ready after %v", nodes, time.Since(began).Round(10*time.Millisecond))
	return nil
}

// link joins the machines by a bridge in the control plane's namespace, and gives each the routes to
// the others' pods.
func (c *Cluster) link() error {
	err := c.control.within(func() error {
		if err := netns.MakeBridge(netns.NewLink(bridge), machines); err != nil {
			return err
		}
		for _, n := range c.Nodes {
			if err := c.plug(n); err != nil {
				return err
			}
		}
		return c.route(nil)
	})
	for _, n := range c.Nodes {
		err = errors.Join(err, n.within(func() error { return c.route(n) }))
	}
	return err
}

// plug joins a node to the bridge, in whose namespace the calling thread is.
func (c *Cluster) plug(n *Node) error {
	n.port = netns.NewLink(n.Name)
	return netns.Plug(n.port, bridge, n.network(), machines, n.address)
}

// Reboot ends everything that runs on a node at once, and starts it anew: without what was in /run, with another
// boot id, and with what is on its disk.
func (c *Cluster) Reboot(ctx context.Context, n *Node) error {
	if err := n.Crash(ctx); err != nil {
		return err
	}
	select {
	case <-n.gone:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := c.group.Child(n.Name).Remove(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(n.Path("run")); err != nil {
		return err
	}
	before := n.Machine
	booted, err := c.boot(ctx, n.Name, n.programs(c))
	if err != nil {
		return err
	}
	n.Machine = booted
	c.booted = slices.DeleteFunc(c.booted, func(m *Machine) bool { return m == before })
	err = errors.Join(c.control.within(func() error { return c.plug(n) }), n.within(func() error { return c.route(n) }))
	if err != nil {
		return err
	}
	return n.Start("containerd", "kubelet", "kube-proxy")
}

// Cut takes the node's network away, or gives it back. What runs there goes on.
func (c *Cluster) Cut(n *Node, isCut bool) error {
	return c.control.within(func() error { return n.port.SetUp(!isCut) })
}

// route has the calling thread's namespace, which is the named node's or the control plane's, reach
// the pods of the others.
func (c *Cluster) route(here *Node) error {
	for _, n := range c.Nodes {
		if n == here {
			continue
		}
		if err := netns.AddRoute(n.pods, n.address); err != nil {
			return err
		}
	}
	return nil
}

func nthAddress(node int) netip.Addr {
	a := controlAddress()
	for range node {
		a = a.Next()
	}
	return a
}

func podsOf(node int) netip.Prefix {
	a := allPods.Addr().As4()
	a[2] = byte(node)
	return netip.PrefixFrom(netip.AddrFrom4(a), 24)
}

// Stop removes the cluster and everything of it. It may be called again.
func (c *Cluster) Stop(ctx context.Context) (err error) {
	c.stopped.Do(func() { err = c.stop(ctx) })
	return err
}

func (c *Cluster) stop(ctx context.Context) error {
	if c.listener != nil {
		_ = c.listener.Close()
	}
	if c.client != nil {
		c.client.CloseIdleConnections()
	}
	var first []process.Identity
	for _, m := range c.booted {
		first = append(first, m.first)
	}
	if err := remove(ctx, filepath.Dir(c.dir), c.id, first); err != nil {
		return errors.Join(err, c.ledger.Close()) // for Clean to try again
	}
	for _, m := range c.booted {
		<-m.gone
	}
	return errors.Join(file.Unlock(c.ledger), removeIfEmpty(filepath.Dir(c.dir)))
}
