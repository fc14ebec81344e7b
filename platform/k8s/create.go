package k8s

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tare/image"
	"tare/kernel/file"
	"tare/kernel/socket"
	"tare/platform"
	"tare/platform/containerd"
	"tare/platform/engine"
	"tare/platform/held"
	"tare/platform/rootfs"
)

// kindPod is the kind of ledger entry for a pod: its manifest, and what the kubelet makes of it.
const (
	kindPod      = "pod" // ID: its uid; Attrs[attrManifest]
	attrManifest = "manifest"
)

// launch is one pod: each step takes what it makes into things.
type launch struct {
	p       *Platform
	node    *node
	engine  *containerd.Platform
	spec    platform.Spec
	program platform.Process
	things  *held.Things

	uid      string
	ways     ways
	plan     rootfs.Plan
	tree     rootfs.Tree
	manifest string // where the kubelet finds it
	pod      *pod
	starting time.Time // when the kubelet was given the manifest
	output   *engine.Output
	instance *instance
}

// created is a pod that the kubelet does not know yet, and later the pod.
type created struct {
	platform.Created
	l *launch
}

// Create writes the manifest where the kubelet does not look.
func (p *Platform) Create(ctx context.Context, spec platform.Spec) (_ platform.Created, err error) {
	if err := p.Supports(spec.Setting); err != nil {
		return nil, err
	}
	if err := spec.RefuseEdits(Name, "a pod has what the node's device plugins give"); err != nil {
		return nil, err
	}
	if spec.Group != "" {
		return nil, p.Groups(ctx)
	}
	if n := spec.Setting.Network; n == "" || n == platform.NetworkHost {
		if err := spec.CheckPorts(); err != nil {
			return nil, err
		}
	}
	program, err := spec.Process()
	if err != nil {
		return nil, err
	}
	n, engine, err := p.find()
	if err != nil {
		return nil, err
	}
	var uid [16]byte
	_, _ = rand.Read(uid[:]) // never fails (crypto/rand)
	l := &launch{
		p: p, node: n, engine: engine, spec: spec, program: program,
		things: held.New(p.options.Ledger), uid: hex.EncodeToString(uid[:]),
	}
	l.pod = newPod(l.uid)
	defer func() {
		if err != nil {
			err = errors.Join(err, l.clear(context.WithoutCancel(ctx)))
		}
	}()
	if err := p.feed.join(ctx, l.pod); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{l.layFiles, l.publish, l.serve, l.writeManifest} {
		if err := step(ctx); err != nil {
			return nil, err
		}
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
	}
	return created{held.NewCreated(held.Steps{ID: l.uid, Start: l.start, Hold: l.hold, Clear: l.clear}), l}, nil
}

// layFiles makes the instance's directory, with what is bound into the container.
func (l *launch) layFiles(ctx context.Context) error {
	trials, dir, err := rootfs.Place(l.p.options.StateDir, l.spec.Name)
	if err != nil {
		return err
	}
	l.plan = rootfs.Plan{
		Dir: dir, Image: l.spec.Image, Kind: platform.RootOverlay, Storage: l.spec.Setting.Storage, Data: l.spec.Data,
	}
	if err := l.checkData(); err != nil {
		return err
	}
	return l.things.Take(ctx, platform.Entry{Platform: Name, Kind: held.Directory, ID: dir}, func() error {
		l.tree, err = l.plan.BuildData()
		return err
	}, func(context.Context) error { return rootfs.Remove(trials, dir) })
}

// ways are how clients come to a pod, but for its own address.
type ways struct {
	published map[int]int // the node's ports, by those of the program
	service   *Service    // nil where none leads to the pod
}

// loopback is the address at which a published port answers: of the node alone.
const loopback = "127.0.0.1"

// publish chooses the node's ports for those of the program. Nothing keeps them free until the kubelet has them.
func (l *launch) publish(context.Context) error {
	if l.spec.Setting.Network != platform.NetworkNAT || len(l.spec.Ports) == 0 {
		return nil
	}
	first := socket.DrawPorts(len(l.spec.Ports), mathrand.IntN, socket.PortFree)
	if first == 0 {
		return fmt.Errorf("%d successive ports of the node are not free", len(l.spec.Ports))
	}
	l.ways.published = map[int]int{}
	for i, port := range l.spec.Ports {
		l.ways.published[port] = first + i
	}
	return nil
}

// checkData refuses a directory in the container's layer that nobody would make: the layer is the
// kubelet's to ask for and containerd's to make.
func (l *launch) checkData() error {
	if s := l.spec.Setting.Storage; s != "" && s != platform.StorageLayer {
		return nil
	}
	for _, dir := range l.spec.Data {
		at, err := image.Resolve(l.spec.Image.Root, dir)
		if err != nil {
			return err
		}
		if info, err := os.Lstat(filepath.Join(l.spec.Image.Root, at)); err != nil || !info.IsDir() {
			return fmt.Errorf("image %s has no directory %s, and a pod's layer gets none: give storage=bind", l.spec.Image.Name, dir)
		}
	}
	return nil
}

// hidden is where the manifest lies that the kubelet is not to read: it leaves out what begins with a
// dot (pkg/kubelet/config/file_linux.go).
func hidden(manifest string) string {
	return filepath.Join(filepath.Dir(manifest), "."+filepath.Base(manifest))
}

func (l *launch) writeManifest(ctx context.Context) error {
	text, err := manifest(l.uid, l.spec, l.program, l.tree.Binds, l.ways)
	if err != nil {
		return err
	}
	l.manifest = filepath.Join(l.node.StaticPods, "tare-"+l.spec.Name+".json")
	for _, path := range []string{l.manifest, hidden(l.manifest)} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists: a pod of that name runs, or was left by a crash, and tare clean removes it", path)
		}
	}
	entry := platform.Entry{
		Platform: Name, Kind: kindPod, ID: l.uid, Attrs: map[string]string{attrManifest: l.manifest},
	}
	return l.things.Take(ctx, entry,
		func() error { return os.WriteFile(hidden(l.manifest), text, 0o600) },
		func(ctx context.Context) error { return l.p.removePod(ctx, l.uid, l.manifest) })
}

// start gives the kubelet the manifest, and returns when containerd has started the program.
func (l *launch) start(ctx context.Context) error {
	l.starting = time.Now()
	if err := os.Rename(hidden(l.manifest), l.manifest); err != nil {
		return err
	}
	doing := "start " + l.spec.Args[0] + " in pod " + l.spec.Name
	patience := l.engine.Requests().Patience
	select {
	case <-l.pod.started:
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	case <-time.After(patience):
		return &engine.Error{Doing: doing, Message: fmt.Sprintf("%s after %v", l.stuck(), patience)}
	}
	if _, _, lost := l.pod.state(); lost != nil {
		return fmt.Errorf("%s: %w", doing, lost)
	}
	if l.spec.Stdout == nil && l.spec.Stderr == nil {
		return nil
	}
	return l.follow()
}

// stuck says how far the kubelet has come with the pod. It tells the API server alone why.
func (l *launch) stuck() string {
	const log = ": its log says why (journalctl -u kubelet)"
	sandbox, program, _ := l.pod.state()
	switch {
	case program.id != "":
		return "the kubelet has made the container and has not started it" + log
	case !sandbox.started.IsZero():
		return "the kubelet has made the pod's sandbox and no container" + log
	case l.logDir() == "":
		return "the kubelet has not begun with the pod, as where its requests do not fit the node" + log
	}
	return "the kubelet has no sandbox for the pod, as where no network is configured in /etc/cni/net.d" + log
}

// logDir is the directory of the pod's logs, which the kubelet makes just before it asks for the
// sandbox (createPodSandbox, pkg/kubelet/kuberuntime); empty before that.
func (l *launch) logDir() string {
	found, _ := filepath.Glob(filepath.Join(l.node.PodLogs, "*_"+l.uid))
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

// Phases implements [platform.Phased].
func (c created) Phases() []platform.Phase {
	sandbox, program, _ := c.l.pod.state()
	if program.started.IsZero() {
		return nil
	}
	ends := []struct {
		name string
		at   time.Time
	}{
		{PhaseKubelet, time.Time{}}, {PhaseNetwork, sandbox.created}, {PhaseSandbox, sandbox.started},
		{PhaseContainer, program.created}, {PhaseStart, program.started},
	}
	if logs, err := file.Pin(c.l.logDir()); err == nil {
		ends[0].at, _ = logs.Born() // where the file system keeps it; else it is in the next phase
		_ = logs.Close()
	}
	var phases []platform.Phase
	from := c.l.starting
	for _, end := range ends {
		if end.at.IsZero() {
			continue
		}
		phases = append(phases, platform.Phase{Name: end.name, Time: end.at.Sub(from)})
		from = end.at
	}
	return phases
}

// The phases of a pod's start, in their order.
const (
	PhaseKubelet   = "kubelet"       // from the manifest to the request for a sandbox: admission, control groups, volumes
	PhaseNetwork   = "pod network"   // to the sandbox's container: network namespace and CNI
	PhaseSandbox   = "pod sandbox"   // to its start: shim, runtime
	PhaseContainer = "pod container" // to the container: snapshot, configuration
	PhaseStart     = "pod start"     // to the program: the runtime's creation and start
)

// Phases lists them.
var Phases = []string{PhaseKubelet, PhaseNetwork, PhaseSandbox, PhaseContainer, PhaseStart}

// clear ends and removes whatever there is, in whatever state.
func (l *launch) clear(ctx context.Context) error {
	err := l.things.Drop(ctx)
	if l.output != nil {
		l.output.Close()
	}
	if err != nil {
		return fmt.Errorf("remove pod %s (tare clean removes what is left of it): %w", l.spec.Name, err)
	}
	if l.instance != nil {
		l.instance.HangUp()
	}
	l.p.feed.leave(l.pod)
	l.give()
	return nil
}

// removePod takes the manifest from the kubelet, and returns when nothing of the pod runs. What the
// kubelet keeps for a while, a sandbox that has ended and logs, it removes itself.
func (p *Platform) removePod(ctx context.Context, uid, manifest string) error {
	if uid == "" || !strings.HasPrefix(filepath.Base(manifest), "tare-") {
		return fmt.Errorf("pod %q was entered with the manifest %q, which is none of tare's: it is left alone", uid, manifest)
	}
	for _, path := range []string{hidden(manifest), manifest} {
		if err := removeManifest(path, uid); err != nil {
			return err
		}
	}
	_, e, err := p.find()
	if missing := new(platform.Missing); errors.As(err, &missing) {
		return fmt.Errorf("pod %s may run still, and ends when its kubelet works again (%s): then tare clean", uid, missing.What)
	}
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, e.Requests().Patience)
	defer cancel()
	for {
		left, err := running(bounded, e, uid)
		if err != nil || len(left) == 0 {
			return err
		}
		for _, pid := range left {
			// Version 1's freezer keeps what the kubelet kills from dying.
			if group, err := groupOf(pid, uid); err == nil {
				if err := group.Thaw(ctx); err != nil {
					return err
				}
			}
		}
		select {
		case <-bounded.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("the kubelet has not ended pod %s in %v: see its log (journalctl -u kubelet)", uid, e.Requests().Patience)
		case <-time.After(10 * time.Millisecond): // after a crash nobody listens to events
		}
	}
}

// removeManifest removes the file if it is the pod's.
func removeManifest(path, uid string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var pod struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	// One that was half written when tare ended can still be empty, and hidden.
	if json.Unmarshal(text, &pod) == nil && pod.Metadata.UID != uid {
		return nil
	}
	return os.Remove(path)
}
