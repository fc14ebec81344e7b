package cli

import (
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tare/lab"
	"tare/platform"
	"tare/study/latency"
	"tare/study/latency/cpu"
	"tare/study/latency/service"
)

// predictFlags are what the user asked for of `tare predict quota`.
type predictFlags struct {
	cpuFlags
	loops    []string
	burst    time.Duration
	wanted   time.Duration
	validate bool
}

func (a *app) predict() *cobra.Command {
	cmd := grouped(&cobra.Command{
		Use:     "predict",
		Short:   "Predict what a setting, a fan-out or a platform will cost",
		Example: "  tare predict quota thrift --p99 5ms\n  tare predict fanout --slow 1% --calls 100\n  tare predict platform --cpus 0.75",
	}, "prediction", "quota, fanout or platform")
	cmd.AddCommand(a.study(latency.Name, predictQuota), a.predictFanout(), a.predictPlatform())
	return cmd
}

func predictQuota() (*cobra.Command, *subStudy) {
	f := &predictFlags{}
	cmd := &cobra.Command{
		Use:   "quota SERVICE... [flags]",
		Short: "Predict a service's latency under CPU quotas from a measurement without one",
		Long: `Quota measures a service without a CPU quota: its CPU time per request, its latencies,
and how its requests arrive. From that, a model of the kernel's bandwidth control
predicts mean, p99, p99.9 and stalled requests under each quota, and the smallest
quota that keeps a p99. --validate measures those quotas too and shows both.

SERVICE is a workload that tare loads itself, with parameters after a colon: as a
closed loop, and as an open one. By default it measures for a minute.`,
		Example: `  tare predict quota thrift --p99 5ms
  tare predict quota httpd --rate 3000 --p99 2ms --period 100ms --burst 20ms
  tare predict quota thrift --validate --quota 2ms,4ms,6ms,8ms`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError("which service? name a workload that tare loads: tare predict quota thrift --p99 5ms")
			}
			return nil
		},
		ValidArgsFunction: completeWorkloads,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&f.loops, "rate", []string{"closed", "2000"}, "requests per second (open loop, Poisson arrivals), or closed (closed loop); each is measured separately")
	flags.StringSliceVar(&f.quotas, "quota", nil, "CPU time in each period, 1ms or more, or max, which is always measured (default 10 % to all of the period, nine steps)")
	flags.StringSliceVar(&f.periods, "period", nil, "periods of the quotas, 1ms to 1s; --quota is for the first, the others get the same shares (default 10ms and 100ms; without --quota also 4ms)")
	flags.DurationVar(&f.burst, "burst", 0, "unused quota that may be saved up, at most the quota; each quota is predicted without and with it")
	flags.DurationVar(&f.wanted, "p99", 0, "find the smallest quota that keeps this p99")
	flags.BoolVar(&f.validate, "validate", false, "measure the quotas too, and show predicted and measured")
	flags.StringVar(&f.platform, "platform", "docker", "platform of the container")
	flags.DurationVar(&f.stall, "stall", service.DefaultStall, "latency above which a request counts as stalled")
	flags.DurationVar(&f.duration, "duration", 2*time.Second, "length of each load, 100ms to 1h")
	flags.Int64Var(&f.requests, "requests", 0, "of each load, in place of --duration, if the service has a parameter count")
	flags.StringArrayVar(&f.params, "param", nil, "NAME=VALUE: parameter of the services")
	flags.StringVar(&f.image, "image", "", "image of the Docker engine or a kubelet, in place of the service's own")
	f.register(cmd, "about a minute: loads of half a second", "a million requests each, ten blocks",
		[]string{"cpuset-cpus", "memory", "network", "seccomp", "lsm", "log-driver", "runtime"})
	return cmd, &subStudy{name: latency.Predict, flags: &f.studyFlags, design: f.design}
}

func (f *predictFlags) design(cmd *cobra.Command, args []string, host studyHost) (lab.Design, error) {
	f.rate, f.matrix = 1, cpu.MatrixSize // not used here, but checked
	o, err := f.options(cmd, args, host)
	if err != nil {
		return lab.Design{}, err
	}
	if !f.validate && !f.full && !f.quick && f.blocks == 0 && f.budget == 0 {
		o.Plan.Budget = time.Minute
	}
	if f.wanted < 0 || cmd.Flags().Changed("p99") && f.wanted < 10*time.Microsecond {
		return lab.Design{}, usageError("--p99 %v: want 10us or more", f.wanted)
	}
	services := o.Services
	o.Services = nil
	for i, loop := range f.loops {
		if slices.Contains(f.loops[:i], loop) {
			continue
		}
		if loop != "closed" {
			if rate, err := strconv.ParseFloat(loop, 64); err != nil || !(rate >= 1 && rate <= 1e6) {
				return lab.Design{}, usageError("--rate %s: want closed, or 1 to 1e6 requests per second", loop)
			}
		}
		for _, s := range services {
			s, ok := cpu.Looped(s, loop)
			if !ok {
				return lab.Design{}, usageError("--rate %s: %s does not support it: run `tare workloads` for its parameters", loop, s.Workload.Name())
			}
			o.Services = append(o.Services, s)
		}
	}
	asked := o.Bandwidths()
	if f.burst != 0 {
		saving := func(b cpu.Bandwidth) bool { return f.burst <= b.Quota }
		if f.burst < 0 {
			return lab.Design{}, usageError("--burst %v: want a time above 0", f.burst)
		}
		if !slices.ContainsFunc(asked, saving) {
			return lab.Design{}, usageError("--burst %v: want at most the largest --quota", f.burst)
		}
		for _, b := range o.Bandwidths() {
			if saving(b) {
				b.Burst = f.burst
				asked = append(asked, b)
			}
		}
		if !cmd.Flags().Changed("platform") && f.validate {
			o.Platform = firstWithBurst(host, o)
		}
	}
	d, err := cpu.Unlimited(o, asked, f.wanted, f.validate)
	return latency.Of(latency.Predict, d), err
}

// firstWithBurst is the platform on which a burst can be measured where the user
// names none: an engine may not support it.
func firstWithBurst(host studyHost, o cpu.Options) string {
	for _, name := range []string{o.Platform, "oci:runc", "cgroup"} {
		p, err := host.Platform(name)
		if err == nil && host.Check(p) == nil &&
			p.Supports(platform.Setting{CPUs: 0.5, CPUBurst: time.Millisecond}) == nil {
			return name
		}
	}
	return o.Platform
}
