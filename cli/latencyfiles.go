package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tare/lab"
	"tare/platform"
	"tare/study/latency"
	"tare/study/latency/files"
)

// filesFlags are what the user asked for of `tare latency files`.
type filesFlags struct {
	studyFlags
	experiments []string
	sizes       []string
	layers      []int
	writes      int
	syncs       int
	opens       int
	creates     int
	walks       int
	flatten     bool
}

func latencyFiles() (*cobra.Command, *subStudy) {
	f := &filesFlags{}
	byDefault := files.Default()
	cmd := &cobra.Command{
		Use:   "files [flags]",
		Short: "Measure what layers, copy-up and mounts add to file operations",
		Long: `Files times operations on files by a program inside the container: writes without and
with fsync, openings in the container's layer and in a mounted directory, the first
opening of a file of the image for writing (which copies it up), and walks over a
directory tree in several layers, before and after the image is flattened.`,
		Example: `  tare latency files --quick
  tare latency files --experiment walk --layers 1,8,64
  tare latency files --experiment write --size 4k,1m`,
		Args: noArguments(""),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&f.experiments, "experiment", nil, "some of "+strings.Join(files.Experiments, ", ")+" (default all)")
	flags.StringVar(&f.platform, "platform", byDefault.Platform, "platform of the containers")
	flags.StringSliceVar(&f.sizes, "size", nil, "sizes of one write, such as 4k (k is 1024 bytes; default 1k to 100k, as published)")
	flags.IntSliceVar(&f.layers, "layers", nil, "numbers of layers with the tree (default 1,2,4,8,16,32, as published)")
	flags.IntVar(&f.writes, "writes", byDefault.Writes, "writes of each size without fsync")
	flags.IntVar(&f.syncs, "syncs", byDefault.Syncs, "writes of each size with fsync")
	flags.IntVar(&f.opens, "opens", byDefault.Opens, "openings of a file in each trial")
	flags.IntVar(&f.creates, "creates", byDefault.Creates, "new files in each trial")
	flags.IntVar(&f.walks, "walks", byDefault.Walks, "walks over one layer in each trial; fewer over more layers")
	flags.BoolVar(&f.flatten, "flatten", true, "also flatten the image with the most layers, and walk it")
	f.register(cmd, "about a minute: three sizes, at most 8 layers", "the published size (S4): 10,000 writes of each size, a million openings, ten blocks", nil)
	return cmd, &subStudy{name: latency.Files, flags: &f.studyFlags, design: f.design, preparing: files.Preparing}
}

func (f *filesFlags) design(cmd *cobra.Command, _ []string, host studyHost) (lab.Design, error) {
	changed := cmd.Flags().Changed
	o, plan, err := begin(&f.studyFlags, changed, files.Default, files.Quick, files.Full)
	if err != nil {
		return lab.Design{}, err
	}
	o.Plan, o.Seed = plan, f.seed
	if _, err = f.places(&host); err != nil {
		return lab.Design{}, err
	}
	if o.Platform, err = lab.OwnPlatform(f.platform); err != nil {
		return lab.Design{}, err
	}
	if len(f.experiments) > 0 {
		o.Experiments = f.experiments
	}
	if len(f.sizes) > 0 {
		o.Sizes = nil
		for _, text := range f.sizes {
			size, err := readBytes(text)
			if err != nil {
				return lab.Design{}, usageError("--size %s: want a number of bytes, such as 4k", text)
			}
			o.Sizes = append(o.Sizes, size)
		}
	}
	if len(f.layers) > 0 {
		o.Layers = f.layers
	}
	given(changed, "writes", f.writes, &o.Writes)
	given(changed, "syncs", f.syncs, &o.Syncs)
	given(changed, "opens", f.opens, &o.Opens)
	given(changed, "creates", f.creates, &o.Creates)
	given(changed, "walks", f.walks, &o.Walks)
	o.Flatten = f.flatten
	o.Host = host.Host
	d, err := files.Design(o)
	return latency.Of(latency.Files, d), err
}

// readBytes reads a size as the settings have it.
func readBytes(text string) (int64, error) {
	if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
		return n, nil
	}
	var s platform.Setting
	err := s.Set("memory", text)
	return s.Memory, err
}
