package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tare/image"
	"tare/lab"
	"tare/overhead"
	"tare/platform"
	"tare/platform/bare"
	"tare/record"
	"tare/stats"
	"tare/study/weigh"
	"tare/workload"
)

//go:embed plant/plant.c
var plantSource []byte

// control is what the library maps: its form is plant.c's.
type control struct {
	On, Iterations, Stall, Unused uint32
	Seed                          uint64
}

func (c control) encode() []byte {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, c) // to memory, of a fixed size
	return b.Bytes()
}

// Where the library and what it maps lie in a root file system. A service's data directory
// is a plain one of each instance's own, so that what is written there reaches the mapping.
const (
	plantLibrary = "/usr/lib/tare-plant.so"
	plantControl = "/data/tare-plant"
)

// planted are the parameters of redis as the plant slows it down: one command, so that all
// strips are of it.
var planted = map[string]string{"commands": plantedCommand}

const (
	plantedCommand = "get"
	plantedCPU     = plantedCommand + "-cpu"
)

// plant is two root file systems of redis that differ in one file: in the first the
// library burns nothing.
type plant struct {
	dir     string
	off, on image.Image
	// perIteration is by how much one iteration of the loop raises the CPU time of a
	// request, as a ratio-effect, and slowing by how much it raises the time of one.
	perIteration, slowing float64
}

// plantOf makes the plant, and finds what an iteration costs.
func (p *place) plantOf(ctx context.Context) (*plant, error) {
	if p.bench.plant != nil {
		return p.bench.plant, nil
	}
	img, err := p.images.Recipe(ctx, "redis")
	if err != nil {
		return nil, err
	}
	made := &plant{off: img, on: img}
	if made.dir, err = os.MkdirTemp(p.bench.home, "plant-"); err != nil {
		return nil, err
	}
	library := filepath.Join(made.dir, "plant.so")
	compile := exec.CommandContext(ctx, "cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-x", "c", "-o", library, "-")
	compile.Stdin = bytes.NewReader(plantSource)
	if out, err := compile.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("compile the plant (apt-get install gcc libc6-dev): %w: %s", err, out), os.RemoveAll(made.dir))
	}
	for _, of := range []struct {
		name string
		img  *image.Image
	}{{"off", &made.off}, {"on", &made.on}} {
		root := filepath.Join(made.dir, of.name)
		if err := furnish(ctx, img.Root, root, library); err != nil {
			return nil, errors.Join(err, os.RemoveAll(made.dir))
		}
		of.img.Name, of.img.Root, of.img.Digest = "plant-"+of.name, root, img.Digest+"-plant-"+of.name
		of.img.Config.Env = append(of.img.Config.Env[:len(of.img.Config.Env):len(of.img.Config.Env)], "LD_PRELOAD="+plantLibrary)
	}
	// About what a stall takes: the service alone bounds the rate then, as it does there.
	const probe = 8000
	cpu, rate, err := p.truth(ctx, made, control{Iterations: probe}, p.bench.lasting(10*time.Second, 4*time.Second), 0)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(made.dir))
	}
	made.perIteration, made.slowing = (cpu.Value-1)/probe, (1/rate.Value-1)/probe
	if !(made.perIteration > 0 && made.slowing > 0) {
		return nil, errors.Join(fmt.Errorf("the plant costs nothing: CPU time %v times, rate %v times", cpu.Value, rate.Value), os.RemoveAll(made.dir))
	}
	p.bench.plant = made
	return made, nil
}

// furnish copies a root file system and puts the library there.
func furnish(ctx context.Context, from, to, library string) error {
	if out, err := exec.CommandContext(ctx, "cp", "-a", "--reflink=auto", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w: %s", from, err, out)
	}
	text, err := os.ReadFile(library)
	if err != nil {
		return err
	}
	target, err := image.Resolve(to, plantLibrary)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(filepath.Join(to, target)), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(to, target), text, 0o755); err != nil {
		return err
	}
	return setControl(to, control{})
}

func setControl(root string, c control) error {
	path := filepath.Join(root, plantControl)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, c.encode(), 0o644)
}

// dose is one strength of plants, and how many runs are made of it.
type dose struct {
	name    string
	percent float64
	stalls  bool
	runs    int
}

var doses = []dose{
	{name: "nothing planted", runs: 5},
	{name: "0.5 % planted", percent: 0.5, runs: 5},
	{name: "1 % planted", percent: 1, runs: 20},
	{name: "2 % planted", percent: 2, runs: 5},
	{name: "stalls planted", stalls: true, runs: 20},
}

// stallFactor is how many times as long a slice takes that stalls.
const stallFactor = 1.5

// The values of a line of plants.
const (
	valueDose   = "dose_percent"
	valueStalls = "stalls"
)

// plantJobs take the doses in turn, so that none has a part of the day to itself.
func (b *bench) plantJobs() []job {
	var jobs []job
	most := 0
	for _, d := range doses {
		most = max(most, b.times(d.runs))
	}
	for i := range most {
		for _, d := range doses {
			if n := b.times(d.runs); i*n/most != (i+1)*n/most {
				jobs = append(
					jobs,
					job{d.name, func(ctx context.Context, seed int64) (runs []string, found result, err error) {
						err = b.opened(ctx, func(p *place) error {
							runs, found, err = p.planting(ctx, d, seed)
							return err
						})
						return runs, found, err
					}},
				)
			}
		}
	}
	return jobs
}

// planting measures one dose: first its truth, within one process, then by a run.
func (p *place) planting(ctx context.Context, d dose, seed int64) ([]string, result, error) {
	made, err := p.plantOf(ctx)
	if err != nil {
		return nil, result{}, err
	}
	draw := rand.New(rand.NewPCG(uint64(seed), 0x706c616e74))
	c := control{On: 1, Seed: draw.Uint64()}
	around := 0.8 + 0.4*draw.Float64()
	c.Iterations = uint32(math.Round(d.percent / 100 / made.perIteration * around))
	probe := c
	if d.stalls {
		c.Stall = uint32(math.Round((stallFactor - 1) / made.slowing))
		probe = control{Iterations: c.Stall} // as a slice that stalls, all the time
	}
	cpu, rate, err := p.truth(ctx, made, probe, p.bench.lasting(10*time.Second, 4*time.Second), seed)
	if err != nil {
		return nil, result{}, err
	}
	if err := setControl(made.on.Root, c); err != nil {
		return nil, result{}, err
	}
	w, err := workload.Lookup("redis")
	if err != nil {
		return nil, result{}, err
	}
	off, on := workload.Source{Rootfs: made.off.Root}, workload.Source{Rootfs: made.on.Root}
	run, rep, err := p.run(ctx, weigh.Subject{Workload: w, Params: planted, Sources: []workload.Source{off, on}}, false,
		p.bench.lasting(time.Minute, 20*time.Second), seed, map[workload.Source]image.Image{off: made.off, on: made.on})
	if err != nil {
		return nil, result{}, err
	}
	found := resultOf(run, rep)
	found.Values[valueDose] = overhead.Number(d.percent)
	found.Values["iterations"], found.Values["stall_iterations"] = overhead.Number(c.Iterations), overhead.Number(c.Stall)
	if d.stalls {
		found.Values[valueStalls] = 1
	}
	found.Figures = append(
		found.Figures,
		figure{Workload: "redis", Metric: plantedCPU, Kind: kindTruth}.of(cpu),
		figure{Workload: "redis", Metric: plantedCommand, Kind: kindTruth}.of(rate),
	)
	return []string{run.ID}, found, nil
}

const (
	truthBatches = 10
	// truthSlice is loaded with the plant on, and off; truthSettle before it is left out.
	truthSlice, truthSettle = 40 * time.Millisecond, 4 * time.Millisecond
	truthRamp               = truthSlice / 20
)

// truth measures what the plant does within one process: slices with it and without it in
// turn, by the client's own count and the kernel's account of CPU time. Ratios are with the
// plant to without it: the trimmed mean over pairs of slices in each of truthBatches
// batches, with an interval over these. What a loop adds is the same in every slice, so that
// the typical ratio is that of totals, and stalls of the host are not in it.
func (p *place) truth(
	ctx context.Context,
	made *plant,
	c control,
	lasting time.Duration,
	seed int64,
) (cpu, rate stats.Estimate, err error) {
	s, err := p.serve(ctx, made.off, planted)
	if err != nil {
		return cpu, rate, err
	}
	defer func() { err = errors.Join(err, s.inst.Stop(context.WithoutCancel(ctx))) }()
	pids, err := s.inst.Processes()
	if err != nil || len(pids) == 0 {
		return cpu, rate, errors.Join(err, errors.New("redis has no process"))
	}
	file, err := os.OpenFile(fmt.Sprintf("/proc/%d/root%s", pids[0], plantControl), os.O_WRONLY, 0)
	if err != nil {
		return cpu, rate, err
	}
	defer file.Close()
	slicer, err := s.program.Slices(ctx, s, uint64(seed))
	if err != nil {
		return cpu, rate, err
	}
	defer slicer.Close()
	measure := func(on bool) (logCPU, logRate float64, err error) {
		c := c
		if c.On = 0; on {
			c.On = 1
		}
		if _, err := file.WriteAt(c.encode(), 0); err != nil {
			return 0, 0, err
		}
		if _, err := slicer.Load(ctx, workload.Stretch{Drive: plantedCommand, Duration: truthSettle}); err != nil {
			return 0, 0, err
		}
		return s.slice(ctx, slicer)
	}
	draw := rand.New(rand.NewPCG(uint64(seed), 0x7472757468))
	var cpus, rates []float64
	for end := time.Now().Add(lasting); time.Now().Before(end) || len(cpus) < truthBatches; {
		var logs [2][2]float64 // off and on
		for _, on := range draw.Perm(2) {
			if logs[on][0], logs[on][1], err = measure(on == 1); err != nil {
				return cpu, rate, err
			}
		}
		cpus, rates = append(cpus, logs[1][0]-logs[0][0]), append(rates, logs[1][1]-logs[0][1])
	}
	return stats.RoundMean(batched(cpus, truthBatches), nil, level),
		stats.RoundMean(batched(rates, truthBatches), nil, level), nil
}

// batched gives the trimmed means of so many stretches of x, of about equal length.
func batched(x []float64, batches int) []float64 {
	means := make([]float64, batches)
	for i := range means {
		means[i] = stats.TrimmedMean(x[i*len(x)/batches:(i+1)*len(x)/batches], stats.Trim)
	}
	return means
}

// slice loads the service once: the logarithms of its CPU time for an operation, and of
// its rate.
func (s *service) slice(ctx context.Context, slicer workload.Slicer) (logCPU, logRate float64, err error) {
	before, err := s.inst.Usage()
	if err != nil {
		return 0, 0, err
	}
	all, err := slicer.Load(ctx, workload.Stretch{Drive: plantedCommand, Duration: truthSlice, Ramp: truthRamp})
	if err != nil {
		return 0, 0, err
	}
	after, err := s.inst.Usage()
	if err != nil {
		return 0, 0, err
	}
	return math.Log((after.CPU - before.CPU).Seconds() / all[0].Worked),
		math.Log(all[0].Amount / all[0].Window.Seconds()), nil
}

// service is a program that stays up beside no other, as [workload.Trial] has it.
type service struct {
	program workload.Sliced
	params  workload.Params
	inst    platform.Instance
}

// serve launches redis on bare metal, and waits until it is ready.
func (p *place) serve(ctx context.Context, img image.Image, params map[string]string) (*service, error) {
	w, err := workload.Lookup("redis")
	if err != nil {
		return nil, err
	}
	sliced, ok := w.(workload.Sliced)
	if !ok {
		return nil, errors.New("redis cannot be sliced")
	}
	s := &service{program: sliced}
	if s.params, err = workload.Resolve(w, params); err != nil {
		return nil, err
	}
	program, err := w.Program(s.params)
	if err != nil {
		return nil, err
	}
	spec, err := lab.SpecOf(p.name("plant"), img, program, record.Condition{})
	if err != nil {
		return nil, err
	}
	on, err := p.session.Platforms(bare.Bare)
	if err != nil {
		return nil, err
	}
	if s.inst, err = on.Launch(ctx, spec); err != nil {
		return nil, err
	}
	if err := sliced.Ready(ctx, s); err != nil {
		return nil, errors.Join(err, s.inst.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (s *service) Params() workload.Params { return s.params }
func (s *service) Address(port int) string { return s.inst.Address(port) }
func (s *service) Wait(ctx context.Context) (workload.Exit, error) {
	return workload.Exit{}, errors.ErrUnsupported
}
func (s *service) Output() (stdout, stderr []byte)                 { return nil, nil }
func (s *service) Record(string, float64)                          {}
func (s *service) RecordHistogram(string, *hdrhistogram.Histogram) {}

func (s *service) Generate(context.Context, []string) ([]byte, error) {
	return nil, errors.ErrUnsupported
}
