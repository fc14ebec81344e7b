package bare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"tare/image"
	"tare/kernel/cgroup"
	"tare/kernel/process"
	"tare/platform"
	"tare/platform/held"
)

// GeneratorSpec is one load program to run.
type GeneratorSpec struct {
	Options
	Name  string      // unique among running programs, as platform.Spec's
	Image image.Image // the zero one is the host itself, with tare's own environment and directory
	Args  []string
	Env   []string
	Dir   string
	CPUs  []int  // to run on; empty is all that tare may use
	NetNS string // the path that keeps the network namespace to run in; empty is the host's
}

// generatorParent is the cgroup, below tare's own, that load programs are followed in.
const generatorParent = "tare-load"

// generatorScore makes the load the first to die when memory ends.
const generatorScore = 1000

// Generate runs a load program to its end in the load generator's place, which
// is the same whatever is weighed: beside the host, from the image's or the host's
// root directory, no limits of its own, first to die when memory ends. It returns
// what the program printed. Where it ends badly, or ctx ends first, the error
// holds the end of what it complained of; nothing of it is left either way.
func Generate(ctx context.Context, g GeneratorSpec) (stdout []byte, err error) {
	spec := platform.Spec{Name: g.Name, Image: g.Image, Args: g.Args, Env: g.Env, Dir: g.Dir}
	if err := process.Adopt(); err != nil { // as Launch does
		return nil, err
	}
	things := held.New(g.Ledger)
	defer func() { err = errors.Join(err, things.Drop(context.WithoutCancel(ctx))) }()

	p := place{options: g.Options, platform: Bare, things: things}
	program, root, err := p.generator(ctx, spec)
	if err != nil {
		return nil, err
	}
	layout, err := cgroup.Host()
	if err != nil {
		return nil, err
	}
	own, _, err := layout.Of(os.Getpid())
	if err != nil {
		return nil, err
	}
	group := own.Tracking().Child(generatorParent).Child(spec.Name)
	if err := things.Take(ctx, held.CgroupEntry(Bare, group),
		func() error { return group.Create() },
		func(ctx context.Context) error { return held.EndGroup(ctx, group) }); err != nil {
		return nil, err
	}
	o := orderFor(program, root)
	o.Join, o.OOMScore, o.CPUs, o.NetNS = group.ProcessFiles(), generatorScore, g.CPUs, g.NetNS

	var printed bytes.Buffer
	complaints := process.Tail{Most: 4 << 10}
	r, err := start(ctx, o, group, &printed, &complaints)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = r.cmd.Process.Kill() })
	defer stop()
	ending, waiting := r.wait()
	flushing := r.flush()
	cleaning := errors.Join(held.EndProcesses(context.WithoutCancel(ctx), group, r.cmd.Process.Pid), r.close())
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("load program %s: %w", g.Args[0], ctx.Err())
	case ending.Signal != 0:
		err = fmt.Errorf("load program %s was ended by signal %d%s", g.Args[0], ending.Signal, quoted(&complaints))
	case ending.Code != 0:
		err = fmt.Errorf("load program %s ended with status %d%s", g.Args[0], ending.Code, quoted(&complaints))
	}
	return printed.Bytes(), errors.Join(err, waiting, flushing, cleaning)
}

// generator finds a load program, and the root directory that it runs in.
func (p place) generator(ctx context.Context, spec platform.Spec) (program platform.Process, root string, err error) {
	if spec.Image.Root == "" {
		dir, err := os.Getwd()
		if err != nil {
			return program, "", err
		}
		program = platform.Process{Args: spec.Args, Env: append(os.Environ(), spec.Env...), Dir: dir}
		program.Program, err = process.LookPath("/", dir, spec.Args[0], os.Getenv("PATH"))
		return program, "/", err
	}
	if program, err = spec.Process(); err != nil {
		return program, "", err
	}
	tree, err := p.lay(ctx, spec, program.Dir)
	return program, tree.Root, err
}

// quoted is what a program complained of, to stand behind an error.
func quoted(t *process.Tail) string {
	text := strings.TrimSpace(string(t.Bytes()))
	if text == "" {
		return ""
	}
	if t.Cut() {
		text = "..." + text
	}
	return ": " + text
}
