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

// The names by which a program runs itself as a machine's first process: to enter its control groups,
// whose process files are its arguments, and then for good.
const (
	enterName = "tare-cluster-enter"
	firstName = "tare-cluster-machine"
)

// init is before any main, so that the tests' programs have it too.
func init() {
	switch os.Args[0] {
	case enterName:
		fail(enter(os.Args[1:]))
	case firstName:
		fail(newFirst().run(os.Stdin))
		os.Exit(0)
	}
}

// fail ends the program where there is an error.
func fail(err error) {
	if err != nil {
		_, _ = io.WriteString(os.NewFile(2, "log"), err.Error()+"\n")
		os.Exit(1)
	}
}

// enter makes the machine's control groups all that it sees of any. Namespaces of control groups are a
// thread's: the program that this one executes is in them with all its threads.
func enter(groups []string) error {
	if err := cgroup.Join(groups); err != nil {
		return err
	}
	if err := cgroup.Enclose(); err != nil {
		return err
	}
	return process.Execute("/proc/self/exe", []string{firstName}, []string{})
}

func newFirst() *first {
	reports := os.NewFile(3, "reports")
	process.CloseOnExec(reports)
	return &first{reports: json.NewEncoder(reports), running: map[int]string{}}
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
	if err := machine.SetHostname(f.orders.Name); err != nil {
		return err
	}
	if err := netns.RaiseLoopback(); err != nil {
		return err
	}
	if err := mount.New("proc", "/proc", mount.Options{NoExec: true, NoDev: true, NoSUID: true}); err != nil {
		return err
	}
	if err := joinSystem(); err != nil {
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

// joinSystem moves the process, and what it starts, beside the groups that a kubelet makes.
func joinSystem() error {
	layout, err := cgroup.Host()
	if err != nil {
		return err
	}
	group := layout.At("/system")
	if err := group.Create(); err != nil {
		return err
	}
	return cgroup.Join(group.ProcessFiles())
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
