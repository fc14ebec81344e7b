package files

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/image"
	"tare/platform"
	"tare/record"
	"tare/study/kit"
	"tare/study/latency/service"
	"tare/workload"
)

// fakeEngine launches a program that a test plays.
type fakeEngine struct {
	platform.Platform // nil: what is not overridden is not called

	name     string
	layering platform.Layering
	refuses  platform.Storage
	missing  error
	flatten  error // of Flatten
	play     func(args []string) (stdout, stderr string, exit platform.Exit)

	specs     []platform.Spec
	running   int
	flattened map[string]bool // images that Flatten made and nobody discarded
}

func (f *fakeEngine) Name() string                { return f.name }
func (f *fakeEngine) Check(context.Context) error { return f.missing }

func (f *fakeEngine) Supports(s platform.Setting) error {
	if f.refuses != "" && s.Storage == f.refuses {
		return &platform.Unsupported{Platform: f.name, Key: "storage=" + string(s.Storage), Reason: "a test's"}
	}
	return nil
}

func (f *fakeEngine) Launch(_ context.Context, spec platform.Spec) (platform.Instance, error) {
	f.specs = append(f.specs, spec)
	stdout, stderr, exit := f.play(spec.Args)
	fmt.Fprint(spec.Stdout, stdout)
	fmt.Fprint(spec.Stderr, stderr)
	f.running++
	return &fakeInstance{engine: f, exit: exit}, nil
}

type fakeInstance struct {
	platform.Instance // nil likewise
	engine            *fakeEngine
	exit              platform.Exit
}

func (i *fakeInstance) Wait(context.Context) (platform.Exit, error) { return i.exit, nil }
func (i *fakeInstance) Stop(context.Context) error                  { i.engine.running--; return nil }

// layerer is a fakeEngine that has layers.
type layerer struct{ *fakeEngine }

func (f layerer) Layering(context.Context) (platform.Layering, error) { return f.layering, nil }

func (f layerer) Flatten(_ context.Context, img image.Image) (platform.Flattened, error) {
	if f.fakeEngine.flatten != nil {
		return platform.Flattened{}, f.fakeEngine.flatten
	}
	img.Reference = fmt.Sprintf("flat-%d", len(f.flattened)+1)
	if f.flattened == nil {
		f.fakeEngine.flattened = map[string]bool{}
	}
	f.fakeEngine.flattened[img.Reference] = true
	return platform.Flattened{Image: img, Took: 1500 * time.Millisecond, Before: platform.Stored{Bytes: 3000, Layers: 8}, After: platform.Stored{Bytes: 1000, Layers: 1}}, nil
}

func (f layerer) Discard(_ context.Context, img image.Image) error {
	if !f.flattened[img.Reference] {
		return errors.New("not one that was made")
	}
	delete(f.flattened, img.Reference)
	return nil
}

// docker is a fake of it.
func docker() layerer {
	return layerer{&fakeEngine{name: engine, layering: platform.Layering{Driver: "overlay2", Backing: "extfs", MostLayers: image.MostLayers}, play: plays}}
}

// plays prints what the program would: each operation once, its times all alike.
func plays(args []string) (stdout, stderr string, exit platform.Exit) {
	value := func(words []string, name string) string {
		i := slices.Index(words, name)
		if i < 0 {
			return ""
		}
		return words[i+1]
	}
	var series []string
	for _, words := range split(args[1:]) {
		count, _ := strconv.Atoi(value(words, "--count"))
		times := fmt.Sprintf(`"count":%d,"sum_ns":%d,"min_ns":2000,"max_ns":2000,"bars_ns":[[2000,%d]]`, count, 2000*count, count)
		switch words[0] {
		case "write":
			series = append(series, fmt.Sprintf(`{"operation":"write","size":%s,"sync":%q,%s}`, value(words, "--size"), value(words, "--sync"), times))
		case "open":
			series = append(series, fmt.Sprintf(`{"operation":"open","mode":%q,"first_ns":9000,%s}`, value(words, "--mode"), times))
		case "walk":
			series = append(series, fmt.Sprintf(`{"operation":"walk","first_ns":9000,"entries":%d,%s}`, entries, times))
		case "create":
			series = append(series, `{"operation":"create",`+times+`}`)
		case "copyup":
			var opened []string
			for _, file := range words[2:] {
				size := strings.Split(file, "-")[1]
				opened = append(opened, fmt.Sprintf(`{"size":%s,"first_open_ns":%s,"first_write_ns":100,"second_open_ns":200}`, size, size))
			}
			series = append(series, `{"operation":"copyup","files":[`+strings.Join(opened, ",")+`]}`)
		}
	}
	return `{"clock_ns":20,"series":[` + strings.Join(series, ",") + "]}\n", "", platform.Exit{}
}

// split parts a command line at its pluses.
func split(args []string) (operations [][]string) {
	from := 0
	for at := 0; at <= len(args); at++ {
		if at == len(args) || args[at] == "+" {
			operations = append(operations, args[from:at])
			from = at + 1
		}
	}
	return operations
}

// options are those of a design on a platform, and bare metal.
func options(on platform.Platform) Options {
	o := Quick()
	o.Plan = record.Plan{Blocks: 2, Level: 0.95, SmallestEffect: 0.02}
	metal := &fakeEngine{name: bare, play: plays}
	o.Host = kit.Host{Platform: func(name string) (platform.Platform, error) {
		switch name {
		case bare:
			return metal, nil
		case on.Name():
			return on, nil
		}
		return nil, fmt.Errorf("unknown platform %q", name)
	}, Check: func(p platform.Platform) error { return p.Check(context.Background()) }}
	return o
}

// made is a run whose figures are made up: what the judge must say of it is known.
type made struct {
	run    record.Run
	blocks int
}

func makeRun(blocks int) *made {
	return &made{record.Run{ID: "latency-1", Study: service.Study, Status: record.Complete, Started: time.Now(), Plan: record.Plan{Level: 0.95, SmallestEffect: 0.02}}, blocks}
}

// wobble is the noise of a block, the same for all conditions, and a little of a
// condition's own.
func wobble(block, own int) float64 {
	return 1 + 0.05*math.Sin(float64(3*block)) + 0.002*math.Sin(float64(7*block+5*own))
}

// add adds a condition with the levels of its metrics.
func (m *made) add(experiment string, p place, levels map[string]float64, covariates map[string]float64) {
	factors := map[string]string{factorExperiment: experiment, factorStorage: string(p.storage), factorDriver: "overlay2 on extfs"}
	if p.metal {
		factors[factorStorage] = bare
	}
	if p.layers > 0 {
		factors[factorLayers] = strconv.Itoa(p.layers)
	}
	if p.flattened {
		factors[factorFlattened] = "yes"
	}
	group := "files[" + experiment + "]"
	first := !slices.ContainsFunc(m.run.Conditions, func(c record.Condition) bool { return c.Workload == group })
	var metrics []workload.Metric
	for name := range levels {
		metrics = append(metrics, timed(name, ""))
	}
	slices.SortFunc(metrics, func(a, b workload.Metric) int { return strings.Compare(a.Name, b.Name) })
	c := record.Condition{ID: group + "@" + p.label(engine), Label: p.label(engine), Workload: group, Platform: engine, Factors: factors, Baseline: first, Metrics: metrics}
	m.run.Conditions = append(m.run.Conditions, c)
	for block := 1; block <= m.blocks; block++ {
		for replicate := range map[bool]int{true: 2, false: 1}[first] {
			t := record.Trial{ID: int64(len(m.run.Trials) + 1), Condition: c.ID, Workload: group, Block: block, Attempt: 1, Replicate: replicate, Started: m.run.Started, Covariates: covariates}
			for i, metric := range metrics {
				t.Samples = append(t.Samples, record.Sample{Metric: metric.Name, Value: levels[metric.Name] * wobble(block, len(m.run.Conditions)+3*replicate+11*i)})
			}
			m.run.Trials = append(m.run.Trials, t)
		}
	}
}
