package clustertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"tare/kernel/cgroup"
	"tare/kernel/machine"
	"tare/kernel/mount"
	"tare/kernel/netns"
	"tare/kernel/process"
)

// firstName is the name by which a program runs itself as a machine's first process.
const firstName = "tare-cluster-machine"

// init is before any main, so that the tests' programs have it too.
func init() {
	if len(os.Args) != 1 || os.Args[0] != firstName {
		return
	}
	reports := os.NewFile(3, "reports")
	process.CloseOnExec(reports)
	f := &first{reports: json.NewEncoder(reports), running: map[int]string{}}
	if err := f.run(os.Stdin); err != nil {
		// Nobody listens any more where this fails.
		_, _ = io.WriteString(os.NewFile(2, "log"), err.Error()+"\n")
		os.Exit(1)
	}
	os.Exit(0)
}

// first is a machine's first process. With it the kernel ends all others of the machine.
type first struct {
	orders orders

	mu      sync.Mutex
	reports *json.Encoder
	running map[int]string // programs by their process ids
}

// run does as it is told until its input ends, which is when the starter has.
func (f *first) run(input io.Reader) error {
	d := json.NewDecoder(input)
	if err := d.Decode(&f.orders); err != nil {
		return err
	}
	if err := f.settle(); err != nil {
		return err
	}
	go machine.Reap(f.ended)
	f.report(report{Up: true})
	for {
		var program string
		err := d.Decode(&program)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := f.start(program); err != nil {
			f.report(report{Program: program, Error: err.Error()})
		}
	}
}

// settle makes the namespaces that the process was born in a machine of its own.
func (f *first) settle() error {
	// First of all: the files are the host's.
	if err := cgroup.Join(f.orders.Groups); err != nil {
		return err
	}
	if err := machine.SetHostname(f.orders.Name); err != nil {
		return err
	}
	if err := netns.RaiseLoopback(); err != nil {
		return err
	}
	if err := mount.New("proc", "/proc", mount.Options{NoExec: true, NoDev: true, NoSUID: true}); err != nil {
		return err
	}
	// These paths may lead through /var, /run or /tmp, which are covered next.
	for _, s := range f.orders.Shown {
		if err := mount.Bind(s[0], s[1], true); err != nil {
			return err
		}
	}
	for _, dir := range f.orders.InMemory {
		if err := mount.New("tmpfs", filepath.Join(f.orders.Dir, dir), mount.Options{Data: "mode=700"}); err != nil {
			return err
		}
	}
	// One of them hides the others, which the working directory still leads to.
	if err := os.Chdir(f.orders.Dir); err != nil {
		return err
	}
	for _, dir := range ownDirs {
		if err := mount.BindAll(dir, "/"+dir); err != nil {
			return err
		}
	}
	return os.Chdir("/")
}

// start starts a program. The lock keeps its end from being told before its beginning.
func (f *first) start(program string) error {
	args, ok := f.orders.Programs[program]
	if !ok {
		return fmt.Errorf("there is no %s on %s", program, f.orders.Name)
	}
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer nothing.Close()
	log, err := os.OpenFile("/var/log/"+program+".log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := os.StartProcess(args[0], args, &os.ProcAttr{
		Env:   []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"},
		Files: []*os.File{nothing, log, log},
	})
	if err != nil {
		return err
	}
	f.running[p.Pid] = program
	return p.Release()
}

// ended reports the end of a program. Others that come to the first process are of no interest.
func (f *first) ended(pid, code int) {
	f.mu.Lock()
	program, ok := f.running[pid]
	delete(f.running, pid)
	f.mu.Unlock()
	if ok {
		f.report(report{Program: program, Code: code})
	}
}

func (f *first) report(r report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.reports.Encode(r) // or nobody listens any more
}
