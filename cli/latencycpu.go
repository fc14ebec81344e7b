package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/kernel/accounting"
	"tare/kernel/cgroup"
	"tare/lab"
	"tare/platform"
	"tare/study/latency"
	"tare/study/latency/cpu"
	"tare/study/latency/service"
	"tare/study/predict"
	"tare/workload"
)

// cpuFlags are what the user asked for of `tare latency cpu`.
type cpuFlags struct {
	studyFlags
	params      []string
	image       string
	experiments []string
	quotas      []string
	periods     []string
	neighbours  []string
	rate        float64
	stall       time.Duration
	matrix      int
	duration    time.Duration
	requests    int64
}

func latencyCPU() (*cobra.Command, *subStudy) {
	f := &cpuFlags{}
	cmd := &cobra.Command{
		Use:   "cpu [SERVICE...] [flags]",
		Short: "Measure the effect of CPU quotas, shares and neighbours on a service's tail",
		Long: `Cpu runs a service on a core of its own and loads it from another core. It measures
the service on bare metal, in a container with CPU shares, under quotas (closed loop,
open loop, with a burst), and beside a container that multiplies matrices. The result
has latencies, stalled requests and the kernel's counts of throttling.

SERVICE is a workload that tare loads itself, with parameters after a colon. The
default is thrift with server and client in Python, as in S4 (published study of
service latency).`,
		Example: `  tare latency cpu --quick
  tare latency cpu thrift:server=go,client=go --experiment quota,open --rate 5000
  tare latency cpu httpd --quota 1ms,2ms,5ms --period 10ms,100ms
  tare latency cpu --experiment neighbour`,
		ValidArgsFunction: completeWorkloads,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&f.experiments, "experiment", nil, "some of "+strings.Join(cpu.Experiments, ", ")+" (default shares, quota, neighbour, as published)")
	flags.StringVar(&f.platform, "platform", "docker", "platform of the containers")
	flags.StringSliceVar(&f.quotas, "quota", nil, "CPU time in each period, 1ms or more, or max, which is always measured (default as published: 1ms to 10ms, nine of them)")
	flags.StringSliceVar(&f.periods, "period", nil, "periods of the quotas, 1ms to 1s; --quota is for the first, the others get the same shares (default 10ms, as published, and for some of the shares 100ms, today's default; without --quota also 4ms, the small granularity that S4 asks for)")
	flags.StringSliceVar(&f.neighbours, "neighbour-quota", nil, "the service's quotas beside a neighbour, which gets the rest of the period (default 5ms,7ms,9ms; with --full as published)")
	flags.Float64Var(&f.rate, "rate", 2000, "requests per second of the open loop, Poisson arrivals")
	flags.DurationVar(&f.stall, "stall", service.DefaultStall, "latency above which a request counts as stalled")
	flags.IntVar(&f.matrix, "matrix", cpu.MatrixSize, "rows and columns of the neighbour's matrices, 64 to 2048")
	flags.DurationVar(&f.duration, "duration", 2*time.Second, "length of each load, 100ms to 1h")
	flags.Int64Var(&f.requests, "requests", 0, "of each load, in place of --duration, if the service has a parameter count")
	flags.StringArrayVar(&f.params, "param", nil, "NAME=VALUE: parameter of the services")
	flags.StringVar(&f.image, "image", "", "image of the Docker engine or a kubelet, in place of the service's own")
	f.register(cmd, "about a minute: shares and four quotas, loads of half a second", "the published size (S4): a million requests each, ten blocks, all quotas beside the neighbour; takes hours",
		[]string{"cpuset-cpus", "memory", "network", "seccomp", "lsm", "log-driver", "runtime"})
	return cmd, &subStudy{name: latency.CPU, flags: &f.studyFlags, design: f.design}
}

func (f *cpuFlags) design(cmd *cobra.Command, args []string, host studyHost) (lab.Design, error) {
	o, err := f.options(cmd, args, host)
	if err != nil {
		return lab.Design{}, err
	}
	d, err := cpu.Design(o)
	return latency.Of(latency.CPU, d), err
}

func (f *cpuFlags) options(cmd *cobra.Command, args []string, host studyHost) (o cpu.Options, err error) {
	changed := cmd.Flags().Changed
	o = cpu.Options{Rate: f.rate, Stall: f.stall, Matrix: f.matrix, Seed: f.seed}
	if o.Plan, err = f.plan(changed); err != nil {
		return o, err
	}
	if o.Base, err = f.places(&host); err != nil {
		return o, err
	}
	if host.shared() {
		o.Plan.Notes = append(o.Plan.Notes, fmt.Sprintf("too few cores to separate client and service (load on CPU %s, service on %s): latencies include the client's CPU time, and the client runs while a quota stalls the service",
			platform.FormatCPUList(host.load), o.Base.CPUSet))
	}
	o.Plan.Notes = append(o.Plan.Notes, unmoved(host.server)...)
	if o.Platform, err = lab.OwnPlatform(f.platform); err != nil {
		return o, err
	}
	o.Experiments = f.experiments
	if len(o.Experiments) == 0 {
		o.Experiments = []string{cpu.Shares, cpu.Quota, cpu.Neighbour}
		if f.quick {
			o.Experiments = []string{cpu.Shares, cpu.Quota}
		}
	}
	if err := f.levels(&o, changed); err != nil {
		return o, err
	}
	if o.Services, err = f.services(args, changed); err != nil {
		return o, err
	}
	kernel, _ := predict.HostKernel("/")
	o.Slice, o.Tick = kernel.Slice, kernel.Tick
	o.Host = host.Host
	return o, nil
}

// unmoved notes what stays on the service's CPUs: what the kernel has bound to them,
// and other programs of the host.
func unmoved(cpus []int) []string {
	var notes []string
	for _, n := range cpus {
		bound, err := accounting.Bound(n)
		if err != nil || len(bound) == 0 {
			continue
		}
		named := bound[:min(len(bound), 6)]
		more := ""
		if len(bound) > len(named) {
			more = fmt.Sprintf(" and %d more", len(bound)-len(named))
		}
		notes = append(notes, fmt.Sprintf("the kernel has bound threads to CPU %d (%s%s); they and other programs stay on it", n, strings.Join(named, ", "), more))
	}
	return notes
}

// levels reads the quotas and periods.
func (f *cpuFlags) levels(o *cpu.Options, changed func(string) bool) (err error) {
	// Every service is measured without a limit, which the kernel writes as max.
	limited := slices.DeleteFunc(slices.Clone(f.quotas), func(q string) bool { return strings.TrimSpace(q) == "max" })
	if o.Quotas, err = durations("quota", limited); err != nil {
		return err
	}
	if o.Periods, err = durations("period", f.periods); err != nil {
		return err
	}
	if o.Neighbours, err = durations("neighbour-quota", f.neighbours); err != nil {
		return err
	}
	if f.matrix < 64 || f.matrix > 2048 {
		return usageError("--matrix %d: want 64 to 2048", f.matrix)
	}
	if f.stall < 10*time.Microsecond || f.stall > time.Minute {
		return usageError("--stall %v: want 10us to 1m", f.stall)
	}
	if len(o.Periods) == 0 {
		o.Periods = []time.Duration{cpu.Period, 100 * time.Millisecond}
		if f.quick {
			o.Periods = o.Periods[:1]
		} else if len(f.quotas) == 0 {
			o.Periods = append(o.Periods, shortPeriod)
		}
	}
	if len(f.quotas) == 0 {
		for _, q := range cpu.Quotas {
			// In another first period they are the same shares.
			o.Quotas = append(
				o.Quotas,
				max(
					cgroup.LeastQuota,
					time.Duration(float64(q)/float64(cpu.Period)*float64(o.Periods[0])).Round(time.Microsecond),
				),
			)
		}
		o.Quotas = slices.Compact(o.Quotas)
		for i := 0; i < len(o.Quotas); i += 2 {
			o.Further = append(o.Further, o.Quotas[i])
		}
		if f.quick {
			o.Quotas = []time.Duration{
				o.Quotas[0],
				o.Quotas[len(o.Quotas)/3],
				o.Quotas[2*len(o.Quotas)/3],
				o.Quotas[len(o.Quotas)-1],
			}
		}
	}
	if len(o.Neighbours) == 0 && o.Periods[0] == cpu.Period {
		o.Neighbours = []time.Duration{5 * time.Millisecond, 7 * time.Millisecond, 9 * time.Millisecond}
		if f.full {
			o.Neighbours = cpu.NeighbourQuotas
		}
	}
	return nil
}

// shortPeriod is of about the smallest granularity of a quota: the kernel accepts none below 1 ms, so
// that a shorter period would leave only large shares.
const shortPeriod = 4 * time.Millisecond

// services reads what is measured, with the size of each load.
func (f *cpuFlags) services(args []string, changed func(string) bool) ([]workload.Subject, error) {
	if len(args) == 0 {
		args = []string{"thrift:server=python,client=python"}
	}
	all, err := servicesOf(args, f.params, f.image)
	if err != nil {
		return nil, err
	}
	duration, requests := f.duration, f.requests
	if f.quick && !changed("duration") {
		duration = 500 * time.Millisecond
	}
	if f.full && !changed("requests") {
		requests = fullRequests
	}
	if duration < 100*time.Millisecond || duration > time.Hour {
		return nil, usageError("--duration %v: want 100ms to 1h", duration)
	}
	if requests < 0 || changed("requests") && requests == 0 {
		return nil, usageError("--requests %d: want 1 or more", requests)
	}
	for i := range all {
		if requests > 0 {
			counted, ok := all[i].With("count", fmt.Sprint(requests))
			if !ok {
				return nil, usageError("--requests: %s has no parameter count; use --duration", all[i].Workload.Name())
			}
			all[i], duration = counted, time.Hour
		}
		all[i], _ = all[i].With("duration", duration.String())
	}
	return all, nil
}

// durations reads a list of times.
func durations(flag string, texts []string) ([]time.Duration, error) {
	var all []time.Duration
	for _, text := range texts {
		d, err := time.ParseDuration(strings.TrimSpace(text))
		if err != nil || d <= 0 {
			return nil, usageError("--%s %s: want a time with its unit, such as 1500us or 1.5ms", flag, text)
		}
		if !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	return all, nil
}
