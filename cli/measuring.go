package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tare/image"
	"tare/kernel/file"
	"tare/kernel/process"
	"tare/lab"
	"tare/overhead"
	"tare/platform"
	"tare/platform/bare"
	"tare/platform/box"
	"tare/platform/containerd"
	"tare/platform/docker"
	"tare/platform/k8s"
	"tare/record"
	"tare/report"
	"tare/stats"
	"tare/terminal"
	"tare/workload"
)

// measuring is what a command that measures holds: the host's lock, the
// ledger, the stores, and where results go.
type measuring struct {
	app      *app
	dir      string
	out      string // directory of the HTML report
	json     string
	session  *lab.Session
	store    *record.Store
	lab      *lab.Lab
	boxes    *box.Maker
	progress *progress
	loadCPUs []int // where load programs run; empty is everywhere
}

// measuring opens everything that a measuring command needs, or refuses before
// anything is touched.
func (a *app) measuring(ctx context.Context, dir, study, out, json string) (*measuring, error) {
	if err := needRoot(); err != nil {
		return nil, err
	}
	m := &measuring{app: a, dir: dir, out: out, json: json}
	if m.out == "" {
		m.out = filepath.Join(dir, "reports")
	}
	if err := trustworthy(dir); err != nil {
		return nil, err
	}
	// Results that cannot be written are found out now, not after the run.
	if err := file.OutputDirectory(m.out); err != nil {
		return nil, err
	}
	if err := writable(json); err != nil {
		return nil, err
	}
	session, cleaned, err := lab.OpenSession(ctx, lab.LockPath, dir, study)
	if err != nil {
		return nil, err
	}
	m.session = session
	if a.services != nil {
		pods, err := session.Platforms(k8s.Name)
		if err != nil {
			m.close()
			return nil, err
		}
		pods.(*k8s.Platform).Provide(a.services)
	}
	if n := len(cleaned.Removed); n > 0 {
		terminal.Fprintf(a.err, "removed %d things that an earlier tare, which was killed, had left\n", n)
	}
	for _, failure := range cleaned.Failed {
		terminal.Fprintf(a.err, "warning: %s %s is left from an earlier tare: %s\n", failure.Entry.Kind, failure.Entry.ID, failure.Err)
	}
	if m.store, err = record.Open(filepath.Join(dir, storeFile)); err != nil {
		m.close()
		return nil, err
	}
	m.progress = newProgress(a.err)
	images, err := image.OpenStore(filepath.Join(dir, "images"), m.progress.note)
	if err != nil {
		m.close()
		return nil, err
	}
	images.OnStep = m.progress.step
	m.boxes = box.New(box.Options{StateDir: dir, Ledger: session.Ledger})
	m.lab = &lab.Lab{
		Store:     m.store,
		Platforms: session.Platforms,
		Boxes:     m.boxes.Make,
		Image: func(ctx context.Context, src workload.Source) (image.Image, error) {
			return provide(ctx, images, src, a.of != nil)
		},
		Generate: func(ctx context.Context, img image.Image, netns string, args []string) ([]byte, error) {
			return bare.Generate(ctx, bare.GeneratorSpec{
				Options: bare.Options{StateDir: dir, Ledger: session.Ledger},
				Name:    platform.Unique("load"), Image: img, Args: args, CPUs: m.loadCPUs, NetNS: netns,
			})
		},
		Watch:   m.progress.event,
		Interim: m.interim,
	}
	return m, nil
}

// writable refuses a file that could not be written when the result is there.
func writable(json string) error {
	if json == "" || json == "-" {
		return nil
	}
	err := file.Replaceable(json)
	if exposed := new(file.Exposed); errors.As(err, &exposed) {
		return usageError("--json: %v", err) // which names the path
	}
	if why := new(fs.PathError); errors.As(err, &why) {
		err = why.Err
	}
	if err != nil {
		return usageError("--json %s: %v", json, err)
	}
	return nil
}

// needRoot refuses to measure as anybody else, and at a priority that only some
// platforms would inherit.
func needRoot() error {
	if os.Geteuid() != 0 {
		return withCode(exitHost, errors.New("measuring needs root (namespaces, cgroups, mounts): run it with sudo; help, show, compare and export do not need it"))
	}
	if nice, err := process.Nice(); err == nil && nice != 0 {
		return withCode(exitHost, fmt.Errorf("tare runs at nice %d, which programs on bare metal would inherit and an engine's would not: run it at nice 0", nice))
	}
	return nil
}

// needRootToLook refuses to look into others' memory as anybody else.
func needRootToLook() error {
	if os.Geteuid() != 0 {
		return withCode(exitHost, errors.New("what other processes have in their page tables, and which faults they take, is for root alone (CAP_SYS_ADMIN): run it with sudo"))
	}
	return nil
}

// trustworthy refuses a state directory in which others could write: what a
// ledger there names, root removes.
func trustworthy(dir string) error { return file.MakeDirectory(dir, 0o755, guarded) }

// guarded says which directory it is that others could write.
func guarded(dir string) error {
	err := file.Guarded(dir)
	var exposed *file.Exposed
	if errors.As(err, &exposed) {
		return withCode(exitUsage, fmt.Errorf("state directory %s: %w", dir, err))
	}
	return err
}

// provide finds or makes the image of a source. A node of a cluster has its images in its kubelet's containerd.
func provide(ctx context.Context, images *image.Store, src workload.Source, isNode bool) (image.Image, error) {
	switch {
	case src.Recipe != "":
		img, err := images.Recipe(ctx, src.Recipe)
		if err == nil && src.Layers > 1 {
			return images.Layered(ctx, img, src.Repeated, src.Layers)
		}
		return img, err
	case src.Archive != "":
		return images.FromArchive(ctx, src.Archive)
	case src.Rootfs != "":
		return images.FromRootfs(ctx, src.Rootfs)
	case src.Image != "":
		stream, err := export(ctx, src.Image, isNode)
		if err != nil {
			return image.Image{}, err
		}
		defer stream.Close()
		img, err := images.FromReader(ctx, src.Image, stream)
		if err == nil && src.Given != nil {
			return images.With(ctx, img, *src.Given)
		}
		return img, err
	}
	return image.Image{}, errors.New("the workload names no image")
}

// export gives an image of the Docker engine or of the kubelet. On a node the kubelet has pulled it for the study:
// Docker may have another one of that name.
func export(ctx context.Context, name string, isNode bool) (io.ReadCloser, error) {
	pulled := k8s.New(k8s.Options{})
	if isNode {
		return pulled.Export(ctx, name)
	}
	engine := docker.New(docker.Options{})
	err := engine.Check(ctx)
	if err == nil {
		var stream io.ReadCloser
		if stream, err = engine.Export(ctx, name); err == nil {
			return stream, nil
		}
	}
	stream, other := pulled.Export(ctx, name)
	if is[*platform.Missing](other) || is[*containerd.UnknownImage](other) {
		return nil, err
	}
	return stream, other
}

// close gives everything back; what cannot be is reported.
func (m *measuring) close() {
	if m.store != nil {
		m.store.Close()
		m.store = nil
	}
	if m.session != nil {
		if err := m.session.Close(); err != nil {
			terminal.Fprintf(m.app.err, "tare: %s\n", err)
		}
		m.session = nil
	}
}

// interim shows the first table within a minute and the next ones now and then.
func (m *measuring) interim(run record.Run, group string) {
	if run.Plan.InRounds(group) {
		m.interimRounds(run, group)
		return
	}
	if !m.progress.due() {
		return
	}
	if s, ok := studies()[run.Study]; ok {
		m.showInterim(s.Interim(run), false)
		return
	}
	m.showInterim(report.InterimSheet(run, overhead.Analyse(run, overhead.Options{})), true)
}

// interimRounds shows what is known of a group that is measured by rounds: a table as soon as
// there is a figure, and again with the first that count; then a line a condition.
func (m *measuring) interimRounds(run record.Run, group string) {
	rep := overhead.Analyse(run, overhead.Options{Workload: group, Pilot: true})
	if len(rep.Groups) != 1 || rep.Groups[0].Strips == 0 {
		return
	}
	g := rep.Groups[0]
	if m.progress.table(group, g.Pilot) {
		m.showInterim(report.InterimSheet(run, rep), true)
	}
	m.progress.know(report.LiveRows(g))
}

// showInterim shows a sheet of a run that goes on, or in short its tables alone.
func (m *measuring) showInterim(sheet report.Sheet, short bool) {
	m.progress.clear()
	if m.app.part || short && len(sheet.Parts) == 0 {
		return
	}
	options := report.TerminalOptions{Width: terminalWidth(m.app.err), Color: isTerminal(m.app.err), Interim: short}
	if err := report.SheetTerminal(m.app.err, sheet, options); err != nil {
		m.progress.note("interim table: " + err.Error())
	}
}

// finish shows and writes what a run came to. err is the run's own.
func (m *measuring) finish(run record.Run, err error) error {
	m.progress.clear()
	var interrupted *lab.Interrupted
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%w before anything was measured", lab.ErrStopped)
	case err != nil && !errors.As(err, &interrupted):
		return err
	}
	if werr := m.app.presentSheet(run, m.store, m.out, m.json, m.app.again(nextCommand(run), "tare show "+run.ID)); werr != nil {
		return werr
	}
	if err != nil || run.Plan.FailAbove == 0 {
		return interruptedHint(err)
	}
	rep := overhead.Analyse(run, overhead.Options{})
	return thresholdError(rep.Threshold, decidesRun(rep))
}

// decidesRun says what would decide a run that is inconclusive against its threshold.
func decidesRun(rep overhead.Report) string {
	for _, g := range rep.Groups {
		for _, m := range g.Metrics {
			for _, r := range m.Rows {
				if r.Withheld != "" {
					return withheld(m.Name, r.Condition, r.Withheld)
				}
			}
		}
	}
	return "more blocks or rounds (--budget) or a quieter host would narrow the interval"
}

// withheld says of a row why it does not pass though its interval does.
func withheld(metric, condition, why string) string {
	return fmt.Sprintf("%s of %s: %s; mend that and measure again", metric, condition, why)
}

// thresholdError is the exit code of a threshold; instead says what would decide an
// inconclusive one.
func thresholdError(t overhead.Threshold, instead string) error {
	switch t.Status {
	case overhead.Exceeded:
		return withCode(exitThreshold, fmt.Errorf("worse by more than %s%%", report.Rounded(100*t.FailAbove, 3)))
	case overhead.Undecided:
		return withCode(exitInconclusive, fmt.Errorf("inconclusive against %s%%: %s", report.Rounded(100*t.FailAbove, 3), instead))
	}
	return nil
}

// again gives commands the state directory that this one was given.
func (a *app) again(commands ...string) []string {
	if a.home == "" {
		return commands
	}
	for i, c := range commands {
		if rest, ours := strings.CutPrefix(c, "tare "); ours {
			commands[i] = "tare " + terminal.Shell("--home", a.home) + " " + rest
		}
	}
	return commands
}

// killed is about a run that has not ended, and that nobody measures.
func killed(run record.Run) bool {
	return run.Status == record.Running && !lab.Measuring(lab.LockPath)
}

// nextCommand proposes what to run after this run.
func nextCommand(run record.Run) string {
	if run.Status == record.Interrupted || killed(run) {
		return "tare resume " + run.ID
	}
	if s, ok := studies()[run.Study]; ok {
		return s.NextOf(run)
	}
	for _, c := range run.Conditions {
		name := workloadName(c.Workload)
		if _, err := workload.Lookup(name); err == nil && c.Platform == "docker" && !run.Plan.Ladder {
			return "tare weigh " + name + " --ladder"
		}
	}
	return "tare export " + run.ID + " --format csv"
}

// weightOf is what this run says of the instrument's own weight: the CPU that
// tare itself used while its trials ran, and how long launches took.
func weightOf(run record.Run) report.Weight {
	var cpu []float64
	launch := map[string][]float64{}
	var platforms []string
	toEnd := slices.ContainsFunc(run.Conditions, func(c record.Condition) bool {
		return slices.ContainsFunc(c.Metrics, func(m workload.Metric) bool { return m.Name == "wall" && m.Primary })
	})
	undisturbed := func(t record.Trial) bool {
		return t.Block > 0 && t.Error == "" && len(t.Taint) == 0 &&
			!slices.ContainsFunc(t.Slices, func(s record.Slice) bool { return len(s.Taint) > 0 })
	}
	few := !slices.ContainsFunc(run.Trials, undisturbed) // then the figures include the others
	for _, t := range run.Trials {
		if t.Block == 0 || t.Error != "" || !few && !undisturbed(t) {
			continue
		}
		if v, ok := t.Covariates["tare_cpu_share"]; ok {
			cpu = append(cpu, 100*v)
		}
		if v, ok := t.Covariates["launch_s"]; ok {
			p := platformOf(run, t.Condition)
			if launch[p] == nil {
				platforms = append(platforms, p)
			}
			launch[p] = append(launch[p], v)
		}
	}
	var w report.Weight
	if len(cpu) > 0 {
		w = append(w, report.WeightItem{What: "tare itself, while a trial ran, used of one CPU", Unit: "%", Estimate: mean(cpu, run)})
	}
	for _, p := range platforms {
		what := "launch on " + p
		if toEnd {
			what += ", a part of the time to the end"
		}
		w = append(
			w,
			report.WeightItem{
				What:     what,
				Unit:     "s",
				Estimate: stats.GeometricMean(launch[p], run.Plan.Level, run.Seed),
			},
		)
	}
	return w
}

func mean(values []float64, run record.Run) stats.Estimate {
	e := stats.Mean(values, run.Plan.Level, run.Seed)
	if math.IsNaN(e.Value) {
		return stats.Estimate{}
	}
	return e
}

func platformOf(run record.Run, condition string) string {
	for _, c := range run.Conditions {
		if c.ID == condition {
			return c.Platform
		}
	}
	return ""
}
