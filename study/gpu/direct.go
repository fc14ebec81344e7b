package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"tare/image"
	"tare/platform"
)

// NewDirect gives a platform that starts programs as plain children, from where their
// image lies and with the host's own libraries and devices. It is for a host that lets
// nobody change roots, mount or make groups, such as one that is a container itself: there
// kernels, calls and compilation can be measured, and no platform can be compared. What
// would be mounted inside is named to the program by where it lies. Libraries are the
// directories, parted by colons, in which the driver's are looked for after those that
// LD_LIBRARY_PATH names to tare itself; empty is none.
func NewDirect(libraries string) platform.Platform { return direct{libraries} }

type direct struct{ libraries string }

func (direct) Name() string                   { return Direct }
func (direct) Version(context.Context) string { return "" }
func (direct) Check(context.Context) error    { return nil }

func (direct) Supports(s platform.Setting) error {
	// The devices are the host's own, whichever are asked for.
	s.GPU = ""
	if s = s.Normal(); s != (platform.Setting{}) {
		return &platform.Unsupported{Platform: Direct, Key: s.Pairs()[0].Key, Reason: "nothing stands between the program and the host"}
	}
	return nil
}

func (direct) Prepare(_ context.Context, img image.Image) error {
	if info, err := os.Stat(img.Root); err != nil || !info.IsDir() {
		return fmt.Errorf("image %s: its root file system %q is not there: make the image again", img.Name, img.Root)
	}
	return nil
}

func (direct) Release(context.Context) error { return nil }

func (direct) Remove(context.Context, platform.Entry) error { return nil }

// Launch starts the program. It outlives the context, as elsewhere, and Stop ends it.
func (d direct) Launch(ctx context.Context, spec platform.Spec) (platform.Instance, error) {
	if err := d.Supports(spec.Setting); err != nil {
		return nil, err
	}
	if len(spec.Args) == 0 {
		return nil, errors.New("no program was named")
	}
	if len(spec.Edits.Devices) > 0 {
		return nil, spec.RefuseEdits(Direct, "the devices are the host's own")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	program := filepath.Join(spec.Image.Root, spec.Args[0])
	if _, err := os.Stat(program); err != nil {
		program = spec.Args[0] // the host's own, such as an interpreter
	}
	cmd := exec.Command(program)
	cmd.Args = make([]string, len(spec.Args))
	for i, a := range spec.Args {
		cmd.Args[i] = outside(a, spec)
	}
	cmd.Env = append(cmd.Env, searched(d.libraries)...)
	for _, kv := range slices.Concat(platform.Surroundings.Env, []string{"HOME=/"}, spec.Env) {
		key, value, _ := strings.Cut(kv, "=")
		cmd.Env = append(cmd.Env, key+"="+outside(value, spec))
	}
	cmd.Dir = spec.Image.Root
	cmd.Stdout, cmd.Stderr = spec.Stdout, spec.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Args[0], err)
	}
	i := &plain{cmd: cmd, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // its state says all
		i.took = time.Since(began)
		close(i.ended)
	}()
	return i, nil
}

// searched is the variable by which libraries are found, with directories added; none where
// it would be empty.
func searched(libraries string) []string {
	dirs := strings.Trim(os.Getenv("LD_LIBRARY_PATH")+":"+libraries, ":")
	if dirs == "" {
		return nil
	}
	return []string{"LD_LIBRARY_PATH=" + dirs}
}

// outside gives a path inside as it is on the host, by what is mounted there, or that lies
// in the image; other text stays.
func outside(text string, spec platform.Spec) string {
	for _, m := range spec.Edits.Mounts {
		if rest, ok := strings.CutPrefix(text, m.Target); ok && m.Directory && (rest == "" || rest[0] == '/') {
			return m.Source + rest
		}
	}
	if strings.HasPrefix(text, "/") && !strings.Contains(text, ":") {
		if _, err := os.Stat(filepath.Join(spec.Image.Root, text)); err == nil && text != "/" {
			return filepath.Join(spec.Image.Root, text)
		}
	}
	return text
}

// plain is a child.
type plain struct {
	cmd   *exec.Cmd
	ended chan struct{}
	took  time.Duration
	once  sync.Once
}

func (p *plain) Address(int) string        { return "" }
func (p *plain) Processes() ([]int, error) { return []int{p.cmd.Process.Pid}, nil }

// InForce: nothing was granted, so that there is nothing to read back.
func (p *plain) InForce() (platform.InForce, error) {
	return platform.InForce{}, fmt.Errorf("started directly: %w", platform.ErrGone)
}

func (p *plain) Usage() (platform.Usage, error) {
	select {
	case <-p.ended:
		return platform.Usage{CPU: p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()}, nil
	default:
		return platform.Usage{}, errors.New("what it has used is known when it has ended")
	}
}

func (p *plain) Wait(ctx context.Context) (platform.Exit, error) {
	select {
	case <-p.ended:
	case <-ctx.Done():
		return platform.Exit{}, ctx.Err()
	}
	code := p.cmd.ProcessState.ExitCode()
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = 128 + int(status.Signal())
	}
	return platform.Exit{Code: code, Elapsed: p.took}, nil
}

func (p *plain) Signal(sig int) error { return p.cmd.Process.Signal(syscall.Signal(sig)) }

func (p *plain) Stop(ctx context.Context) error {
	p.once.Do(func() { _ = p.cmd.Process.Kill() }) // it may have ended
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
