package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"tare/study/latency"
	"tare/workload"
)

func (a *app) latency() *cobra.Command {
	cmd := grouped(&cobra.Command{
		Use:   "latency",
		Short: "Find why a service answers later in a container, and which setting causes it",
		Long: `Latency compares a service in a container with the same service without one. It
measures the effect of CPU quotas, shares and neighbours on the tail (cpu), of the
network path (network), and of the layers of the image (files).`,
		Example: `  tare latency cpu --quick
  tare latency network
  tare latency files`,
	}, "study", "cpu, network or files")
	for _, study := range latencyStudies[:3] {
		cmd.AddCommand(a.study(latency.Name, study))
	}
	return cmd
}

// latencyStudies make the commands and their flags. resume reads a stored command
// line with new ones. The last is a command of `tare predict`.
var latencyStudies = []subStudied{latencyCPU, latencyNetwork, latencyFiles, predictQuota}

// S4 repeated its first experiment ten times, with a million requests each.
const (
	fullBlocks   = 10
	fullRequests = 1_000_000
)

// servicesOf reads services, each with its own parameters:
// "thrift:server=go,client=go".
func servicesOf(args, params []string, image string) ([]workload.Subject, error) {
	var all []workload.Subject
	for _, arg := range args {
		name, own, _ := strings.Cut(arg, ":")
		var list []string
		if own != "" {
			list = strings.Split(own, ",")
		}
		subjects, err := readSubjects([]string{name}, list, image)
		if err != nil {
			return nil, err
		}
		all = append(all, subjects...)
	}
	if len(params) == 0 {
		return all, nil
	}
	return setSubjects(all, params, image)
}
