package files

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"tare/image"
	"tare/kernel/process"
	"tare/lab"
	"tare/platform"
	"tare/report"
	"tare/workload"
)

// stopLimit bounds what a trial clears away, which goes on when the run is
// interrupted.
const stopLimit = 2 * time.Minute

// trial is one container whose program measures, and ends.
type trial struct {
	data    string // directory inside, behind which the condition's storage lies
	program func(warm bool) []string
	keep    func(b lab.Bench, t workload.FileTimes) error
	flatten bool
}

func (t trial) run(ctx context.Context, b lab.Bench) (err error) {
	img := b.Image()
	if err := inLayers(img, layers(b.Condition())); err != nil {
		return err
	}
	if t.flatten {
		var flat image.Image
		var discard func() error
		if flat, discard, err = flattened(ctx, b, img); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, discard()) }()
		img = flat
	}
	times, err := t.measure(ctx, b, img)
	if err != nil {
		return err
	}
	b.Covariate(clockCost, float64(times.Clock))
	return t.keep(b, times)
}

// inLayers refuses an image whose number of layers is not the condition's: a walk over
// one layer would pass for one over many.
func inLayers(img image.Image, want int) error {
	if want == 0 || img.Archive == "" {
		return nil
	}
	have, err := image.Layers(img)
	if err == nil && have != want {
		err = fmt.Errorf("image %s has %s, want %d", img.Name, report.Counted(have, "layer"), want)
	}
	return err
}

// flattened makes one layer of the image, anew in each trial, so that its time is
// measured as often as the walks.
func flattened(ctx context.Context, b lab.Bench, img image.Image) (flat image.Image, discard func() error, err error) {
	layerer, ok := b.Platform().(platform.Layerer)
	if !ok {
		return img, nil, errNoLayers
	}
	if err := b.Measuring(); err != nil {
		return img, nil, err
	}
	made, err := layerer.Flatten(ctx, img)
	if err != nil {
		return img, nil, err
	}
	discard = func() error {
		clearing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		return layerer.Discard(clearing, made.Image)
	}
	if err := b.Measured(); err != nil {
		return img, nil, errors.Join(err, discard())
	}
	b.Record(flattening, made.Took.Seconds())
	b.Covariate(bytesBefore, float64(made.Before.Bytes))
	b.Covariate(bytesAfter, float64(made.After.Bytes))
	b.Covariate(layersBefore, float64(made.Before.Layers))
	b.Covariate(layersAfter, float64(made.After.Layers))
	return made.Image, discard, nil
}

// measure launches the program and reads what it printed.
func (t trial) measure(ctx context.Context, b lab.Bench, img image.Image) (times workload.FileTimes, err error) {
	stdout, stderr := process.Tail{Most: outputKept}, process.Tail{}
	if err := b.Measuring(); err != nil {
		return times, err
	}
	c := b.Condition()
	instance, err := b.Platform().Launch(ctx, platform.Spec{
		Name: b.Name(), Image: img, Args: append([]string{image.FilesProgram}, t.program(b.WarmUp())...), Dir: "/",
		Setting: c.Setting, Data: []string{t.data}, Stdout: &stdout, Stderr: &stderr,
	})
	if err != nil {
		return times, fmt.Errorf("launch on %s: %w", c.Platform, err)
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		err = errors.Join(err, instance.Stop(stopping))
	}()
	if err := b.InForce(instance); err != nil {
		return times, err
	}
	exit, err := instance.Wait(ctx)
	if err != nil {
		return times, fmt.Errorf("wait for the program: %w", err)
	}
	if err := b.Measured(); err != nil {
		return times, err
	}
	if exit.Code != 0 || exit.OOMKilled {
		return times, ended(exit, stderr.LastLine())
	}
	return workload.ParseFileTimes(stdout.Bytes())
}

// ended is the error of a program that failed.
func ended(exit platform.Exit, words string) error {
	switch {
	case exit.OOMKilled:
		return errors.New("the kernel ended the program for its memory limit")
	case words == "":
		return fmt.Errorf("the program ended with status %d and without a message", exit.Code)
	}
	return errors.New(words)
}

// outputKept is the most that a program may print: its histograms have some tens of
// thousands of bars at worst.
const outputKept = 16 << 20

// warmShare is by how much trials of the warm-up are shorter.
const warmShare = 10

func count(n int, warm bool) string {
	if warm {
		n = (n + warmShare - 1) / warmShare
	}
	return strconv.Itoa(n)
}

// joined adds an operation to a program's arguments.
func joined(args []string, operation ...string) []string {
	if len(args) > 0 {
		args = append(args, "+")
	}
	return append(args, operation...)
}

// ways are those of writing, which S4's text does not distinguish.
var ways = []struct{ metric, sync string }{{flushed, "none"}, {synced, "fsync"}}

func (b *builder) writes() func(bool) []string {
	sizes, counts := b.Sizes, map[string]int{flushed: b.Writes, synced: b.Syncs}
	return func(warm bool) (args []string) {
		for _, way := range ways {
			for _, size := range sizes {
				args = joined(args, "write", "--dir", image.FilesData, "--size", strconv.FormatInt(size, 10),
					"--count", count(counts[way.metric], warm), "--sync", way.sync)
			}
		}
		return args
	}
}

func (b *builder) keepWrites(bench lab.Bench, t workload.FileTimes) error {
	if want := len(ways) * len(b.Sizes); len(t.Series) != want {
		return fmt.Errorf("the program measured %d series, want %d", len(t.Series), want)
	}
	series := t.Series
	for _, way := range ways {
		logs := 0.0
		for _, size := range b.Sizes {
			s := series[0]
			series = series[1:]
			if s.Operation != "write" || s.Sync != way.sync || s.Size != size {
				return fmt.Errorf("the program measured %s of %d bytes with %q, want writes of %d with %q",
					s.Operation, s.Size, s.Sync, size, way.sync)
			}
			name := way.metric + "-" + label(size)
			bench.Record(name, s.MiddleHalf())
			bench.Record(name+mean, s.Mean())
			bench.RecordHistogram(name, s.Histogram())
			logs += math.Log(s.MiddleHalf())
		}
		bench.Record(way.metric, math.Exp(logs/float64(len(b.Sizes))))
	}
	return nil
}

// opens opens the file for reading before anything is created beside it, and for
// writing last, which copies it up.
func (b *builder) opens() func(bool) []string {
	opens, creates := b.Opens, b.Creates
	return func(warm bool) (args []string) {
		args = joined(args, "open", "--file", image.FilesShelved, "--count", count(opens, warm), "--mode", "read")
		args = joined(args, "create", "--dir", image.FilesShelf, "--count", count(creates, warm))
		return joined(args, "open", "--file", image.FilesShelved, "--count", count(opens, warm), "--mode", "write")
	}
}

func keepOpens(b lab.Bench, t workload.FileTimes) error {
	if len(t.Series) != 3 || t.Series[0].Mode != "read" || t.Series[1].Operation != "create" || t.Series[2].Mode != "write" {
		return fmt.Errorf("the program did not measure openings for reading, new files, and openings for writing")
	}
	reading, making, writing := t.Series[0], t.Series[1], t.Series[2]
	b.Record(open, reading.MiddleHalf())
	b.Record(open+mean, reading.Mean())
	b.RecordHistogram(open, reading.Histogram())
	b.Record(openFirst, float64(reading.First))
	b.Record(create, making.MiddleHalf())
	b.Record(create+mean, making.Mean())
	b.Record(openWrite, writing.MiddleHalf())
	return nil
}

// copyUps opens each file once. Where nothing is copied, that ends before the settings
// in force can be read. Walks follow for that reason; they do not count.
func copyUps() func(bool) []string {
	return func(bool) []string {
		args := []string{"copyup", "--files"}
		for _, size := range image.FilesLowerSizes {
			args = append(args, image.FilesLowerFiles(size)...)
		}
		return joined(args, "walk", "--dir", image.FilesTree, "--count", strconv.Itoa(lingering))
	}
}

// lingering is how many walks take about a tenth of a second.
const lingering = 25

// keepCopyUps keeps each size's geometric mean over its files.
func keepCopyUps(b lab.Bench, t workload.FileTimes) error {
	if len(t.Series) != 2 || t.Series[0].Operation != "copyup" {
		return fmt.Errorf("the program measured %d series, want openings for writing, and walks", len(t.Series))
	}
	for _, size := range image.FilesLowerSizes {
		var first, write, second, n float64
		for _, f := range t.Series[0].Files {
			if f.Size != size.Bytes {
				continue
			}
			n++
			first += math.Log(float64(f.FirstOpen))
			write += math.Log(float64(max(f.FirstWrite, 1)))
			second += math.Log(float64(f.SecondOpen))
		}
		if int(n) != size.Count {
			return fmt.Errorf("the program opened %g files of %d bytes, want %d", n, size.Bytes, size.Count)
		}
		b.Record(firstOpen+"-"+label(size.Bytes), math.Exp(first/n))
		b.Record(firstWrite+"-"+label(size.Bytes), math.Exp(write/n))
		b.Record(secondOpen+"-"+label(size.Bytes), math.Exp(second/n))
	}
	return nil
}

// entries is what a walk must see.
const entries = image.FilesTreeDirectories + image.FilesTreeFiles

func (b *builder) walking(layers int) func(bool) []string {
	walks := b.walks(layers)
	return func(warm bool) []string {
		return []string{"walk", "--dir", image.FilesTree, "--count", count(walks, warm), "--entries", strconv.Itoa(entries)}
	}
}

func keepWalks(b lab.Bench, t workload.FileTimes) error {
	if len(t.Series) != 1 || t.Series[0].Entries != entries {
		return fmt.Errorf("the program did not walk the tree of %d entries", entries)
	}
	s := t.Series[0]
	b.Record(walk, s.MiddleHalf())
	b.Record(walk+mean, s.Mean())
	b.Record(walkFirst, float64(s.First))
	b.Covariate(walkEntries, float64(s.Entries))
	return nil
}
