package cli

import (
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tare/lab"
	"tare/study/io/bandwidth"
	"tare/study/io/place"
)

// streamFlags are what the user asked for of `tare io stream`.
type streamFlags struct {
	studyFlags
	platforms   []string
	storages    []string
	elements    []string
	processes   []int
	repetitions int
	cross       bool
	peer        bool
}

func ioStream() (*cobra.Command, *subStudy) {
	f := &streamFlags{studyFlags: studyFlags{whole: true}}
	byDefault := bandwidth.Default(0)
	cmd := &cobra.Command{
		Use:   "stream [flags]",
		Short: "Memory bandwidth by MPI processes: copy, scale, add and triad",
		Long: `Stream has MPI processes move arrays by the four kernels of the STREAM benchmark, on
bare metal and in containers. It touches no storage: a difference between a volume
and a bind mount comes from the method, or from chance. Arrays that fit into the
caches are marked, and decide nothing.

Elements are of each whole array, over all processes. The first value of a flag is
the base. The others are tried one at a time, or with --cross in all combinations.`,
		Example: `  tare io stream --quick
  tare io stream --elements 50e6,1e6 --processes 1,2
  tare io stream --quick --peer`,
		Args: noArguments(""),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&f.platforms, "platform", byDefault.Platforms, "platforms of the containers, compared with bare metal; --full adds docker:rootless and docker:swarm")
	flags.StringSliceVar(&f.storages, "storage", nil, "places of their data: layer, volume, bind, tmpfs (default layer,volume,bind)")
	flags.StringSliceVar(&f.elements, "elements", nil, "elements of each array, such as 50e6 (default "+joinNumbers(byDefault.Elements)+"; the first is larger where it is less than four times the caches)")
	flags.IntSliceVar(&f.processes, "processes", nil, "MPI processes (default 1, and one for each CPU)")
	flags.IntVar(&f.repetitions, "repetitions", byDefault.Repetitions, "runs of each kernel in a trial; the first does not count")
	flags.BoolVar(&f.cross, "cross", false, "all combinations, instead of one factor at a time around the base")
	flags.BoolVar(&f.peer, "peer", false, "measure the same with likwid-bench too")
	f.register(cmd, "a minute or two: the first of the default sizes, volume and bind mount",
		"the published grid (S5): 1 to 8 processes, 1 to 500 million elements, ten blocks; sizes that exceed memory are left out",
		[]string{"cpuset-cpus"})
	return cmd, &subStudy{name: place.Stream, flags: &f.studyFlags, design: f.design}
}

func (f *streamFlags) design(cmd *cobra.Command, _ []string, host studyHost) (lab.Design, error) {
	changed := cmd.Flags().Changed
	o, plan, err := begin(&f.studyFlags, changed,
		func() bandwidth.Options { return bandwidth.Default(host.Caches) },
		func() bandwidth.Options { return bandwidth.Quick(host.Caches) }, bandwidth.Full)
	if err != nil {
		return lab.Design{}, err
	}
	o.Plan, o.Seed = plan, f.seed
	given(changed, "platform", f.platforms, &o.Platforms)
	if o.Platforms, err = fullNames(o.Platforms, lab.CanonicalPlatform); err != nil {
		return lab.Design{}, err
	}
	o.Storages = levelsOf(changed("storage"), f.storages, o.Storages)
	if changed("elements") {
		if o.Elements, err = readElements(f.elements); err != nil {
			return lab.Design{}, err
		}
		o.Fitting = false // named sizes are refused, not left out
	}
	given(changed, "processes", f.processes, &o.Processes)
	given(changed, "repetitions", f.repetitions, &o.Repetitions)
	given(changed, "cross", f.cross, &o.Cross)
	o.Peer = f.peer
	if o.Base, err = readSettings(f.settings); err != nil {
		return lab.Design{}, err
	}
	if why := o.Base.Contradiction(host.CPUs); why != "" {
		return lab.Design{}, usageError("%s", why)
	}
	o.Host = ioHost(host)
	return bandwidth.Design(o)
}

// readElements reads numbers of elements as people write them: 50e6, 50000000.
func readElements(texts []string) ([]int64, error) {
	var all []int64
	for _, text := range texts {
		n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || n != math.Trunc(n) || n < 1 || n > bandwidth.MostElements {
			return nil, usageError("--elements %s: want a whole number from 1 to 10^12, such as 50e6", text)
		}
		all = append(all, int64(n))
	}
	return all, nil
}
