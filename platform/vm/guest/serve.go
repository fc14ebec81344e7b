package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"tare/kernel/process"
	"tare/platform"
	"tare/platform/agent"
	"tare/platform/bare"
	"tare/platform/box"
	"tare/platform/oci"
)

// serve is the agent of a machine; what it returns is its exit status.
func serve() int {
	if err := serveHost(); err != nil {
		complain(err)
		return 1
	}
	return 0
}

// agentOOMScore keeps the machine's agent alive where a program has taken all of the
// machine's memory: the program is to end, and the agent to tell of it. Platforms give
// programs their own score.
const agentOOMScore = -900

func serveHost() error {
	p := begin()
	if len(os.Args) != 2 {
		return fmt.Errorf("the agent was started with %d arguments, and takes the order", len(os.Args)-1)
	}
	var order Order
	if err := json.Unmarshal([]byte(os.Args[1]), &order); err != nil {
		return fmt.Errorf("the machine's order: %w", err)
	}
	if err := process.SetOOMScore(agentOOMScore); err != nil {
		return err
	}
	images := filepath.Join(StateDir, "images")
	if err := os.MkdirAll(images, 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	bounded, give := context.WithTimeout(ctx, diskBound)
	defer give()
	channel, err := openChannel(bounded, order.Channel)
	if err != nil {
		return fmt.Errorf("the channel to the host: %w", err)
	}
	defer channel.Close()
	p.done("agent")
	entries := &ledger{}
	server := agent.Server{
		Version: order.Version, Platforms: platforms(entries), ImageDir: images, Mount: mountImage, Phases: p.Steps,
		// The kernel is there for nobody else.
		Boxes:    box.New(box.Options{StateDir: StateDir, Ledger: entries, Own: true}).Make,
		PowerOff: cancel,
	}
	err = server.Serve(ctx, channel)
	if ctx.Err() != nil {
		return nil // as it was asked to
	}
	return err
}

// platforms are those of the machine: bare metal, in a control group, in a container
// of each runtime. A platform is made once.
func platforms(ledger *ledger) func(name string) (platform.Platform, error) {
	made := map[string]platform.Platform{}
	for _, p := range []platform.Platform{
		bare.New(bare.Options{StateDir: StateDir, Ledger: ledger}),
		bare.NewInCgroup(bare.Options{StateDir: StateDir, Ledger: ledger}),
		oci.New("runc", oci.Options{StateDir: StateDir, Ledger: ledger}),
		oci.New("crun", oci.Options{StateDir: StateDir, Ledger: ledger}),
	} {
		made[p.Name()] = p
	}
	return func(name string) (platform.Platform, error) {
		if p, ok := made[name]; ok {
			return p, nil
		}
		return nil, fmt.Errorf("a virtual machine has no platform %q: there are bare, cgroup, oci:runc, oci:crun", name)
	}
}

// ledger is the machine's: in memory, since nothing of the machine outlives it.
type ledger struct {
	mutex sync.Mutex
	next  int
	holds map[int]platform.Entry
}

func (l *ledger) Add(e platform.Entry) (done func(), err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.holds == nil {
		l.holds = map[int]platform.Entry{}
	}
	id := l.next
	l.next++
	l.holds[id] = e
	return func() {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		delete(l.holds, id)
	}, nil
}
