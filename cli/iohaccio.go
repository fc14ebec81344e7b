package cli

import (
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tare/lab"
	"tare/study/io/checkpoint"
	"tare/study/io/place"
)

// haccioFlags are what the user asked for of `tare io haccio`.
type haccioFlags struct {
	studyFlags
	storages  []string
	particles []string
	ranks     []int
	apis      []string
	layouts   []string
	caches    []string
	syncs     []string
	cross     bool
}

func ioHaccio() (*cobra.Command, *subStudy) {
	f := &haccioFlags{studyFlags: studyFlags{whole: true}}
	byDefault := checkpoint.Default()
	cmd := &cobra.Command{
		Use:   "haccio [flags]",
		Short: "Checkpoints written and read back, for each place of a container's data",
		Long: `Haccio has MPI ranks write checkpoints of particles of 38 bytes, and read them back:
on bare metal, in a container's layer, on a bind mount, a volume, and in memory. Fio
does the same in every block, and shows what the disk gives.

The first value of a flag is the base. The others are tried one at a time, or with
--cross in all combinations.

Before each trial, everything that waits to be written on these file systems is
flushed to their disks. That includes the writes of other programs.`,
		Example: `  tare io haccio --quick
  tare io haccio --particles 1e6 --ranks 1,2 --cache dropped
  tare io haccio --storage bind,volume --particles 1e6,1e7 --layout shared,file-per-rank`,
		Args: noArguments(""),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.platform, "platform", byDefault.Platform, "platform of the containers")
	flags.StringSliceVar(&f.storages, "storage", nil, "places of their data: layer, bind, volume, tmpfs (default all)")
	flags.StringSliceVar(&f.particles, "particles", nil, "particles of each rank, such as 2.5e6 (default "+joinNumbers(byDefault.Particles)+")")
	flags.IntSliceVar(&f.ranks, "ranks", nil, "MPI processes (default "+joinNumbers(byDefault.Ranks)+")")
	flags.StringSliceVar(&f.apis, "api", nil, "calls: "+strings.Join(checkpoint.APIs, ", ")+" (default all)")
	flags.StringSliceVar(&f.layouts, "layout", nil, "files: "+strings.Join(checkpoint.Layouts, ", ")+" (default all)")
	flags.StringSliceVar(&f.caches, "cache", nil, "page cache between write and read: "+strings.Join(checkpoint.Caches, ", ")+" (default all)")
	flags.StringSliceVar(&f.syncs, "sync", nil, "end of a write: "+strings.Join(checkpoint.Syncs, ", ")+" (default all)")
	flags.BoolVar(&f.cross, "cross", false, "all combinations, instead of one factor at a time around the base")
	f.register(cmd, "about a minute: the smallest published checkpoint, page cache kept and dropped",
		"the published grid (S5): 1 to 8 ranks, 1 to 50 million particles, page cache kept and dropped, ten blocks; sizes that do not fit are left out", nil)
	return cmd, &subStudy{name: place.Haccio, flags: &f.studyFlags, design: f.design}
}

func (f *haccioFlags) design(cmd *cobra.Command, _ []string, host studyHost) (lab.Design, error) {
	changed := cmd.Flags().Changed
	o, plan, err := begin(&f.studyFlags, changed, checkpoint.Default, checkpoint.Quick, checkpoint.Full)
	if err != nil {
		return lab.Design{}, err
	}
	o.Plan, o.Seed = plan, f.seed
	if o.Platform, err = lab.CanonicalPlatform(f.platform); err != nil {
		return lab.Design{}, err
	}
	o.Storages = levelsOf(changed("storage"), f.storages, o.Storages)
	if changed("particles") {
		if o.Particles, err = readParticles(f.particles); err != nil {
			return lab.Design{}, err
		}
	}
	given(changed, "ranks", f.ranks, &o.Ranks)
	given(changed, "api", f.apis, &o.APIs)
	given(changed, "layout", f.layouts, &o.Layouts)
	given(changed, "cache", f.caches, &o.Caches)
	given(changed, "sync", f.syncs, &o.Syncs)
	given(changed, "cross", f.cross, &o.Cross)
	// Named sizes that do not fit are refused, not left out.
	if changed("particles") || changed("ranks") {
		o.Fitting = false
	}
	o.Host = checkpoint.Host{Host: ioHost(host)}
	return checkpoint.Design(o)
}

// readParticles reads numbers as people write large ones: 2500000, 2.5e6.
func readParticles(texts []string) ([]int64, error) {
	var counts []int64
	for _, text := range texts {
		v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || v != math.Trunc(v) || v < 1 || v > 1<<53 {
			return nil, usageError("--particles %s: want a whole number, such as 2500000 or 2.5e6", text)
		}
		counts = append(counts, int64(v))
	}
	return counts, nil
}

// joinNumbers writes numbers as a flag takes them.
func joinNumbers[N int | int64](numbers []N) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.FormatInt(int64(n), 10)
	}
	return strings.Join(texts, ",")
}
