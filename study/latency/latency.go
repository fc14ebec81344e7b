// Package latency puts together the studies of a service's latency in a container.
// They repeat S4 (The Impact of Docker Containers on Service Latency): CPU time
// (package cpu), the network path (package network), and the files of an image
// (package files). Each is a command and a run of its own. What their pages and
// claims share is here.
package latency

import (
	"slices"
	"strings"

	"tare/lab"
	"tare/record"
	"tare/study/kit"
	"tare/study/latency/cpu"
	"tare/study/latency/files"
	"tare/study/latency/network"
	"tare/study/latency/service"
	"tare/terminal"
)

// Name is the name of these studies in the store.
const Name = service.Study

// factorOf names the study of a run, in its conditions' factors.
const factorOf = "latency"

// The studies.
const (
	CPU     = "cpu"
	Network = "network"
	Files   = "files"
	Predict = "predict"
)

// Studies are the members.
var Studies = kit.Family{
	Of: kit.NamedBy(factorOf), Title: "tare latency", Next: "tare claims S4",
	Members: []kit.Member{
		{
			Name: CPU, Title: "tare latency cpu", Next: "tare latency network",
			Judge: cpu.Judge, Answer: cpu.Answer, Parts: cpu.Parts, More: predictedParts, Advice: cpu.Advice,
			Note: "S4 (published study of service latency) had the client on a second machine, Docker of 2016, and round trips of about 240 µs. Verdicts rest on ratios and shapes, not on microseconds.",
		},
		{
			Name: Network, Title: "tare latency network", Next: "tare latency files",
			Judge: network.Judge, Answer: network.Answer, Parts: network.Parts, Advice: network.Advice,
			Note: "S4 (published study of service latency) had the client on a second machine, and Docker of 2016. Verdicts rest on what a path adds, not on how long a request takes.",
		},
		{
			Name: Files, Title: "tare latency files", Next: "tare claims S4",
			Judge: files.Judge, Answer: files.Answer, Parts: files.Parts, Advice: files.Advice,
			Note: "S4 (published study of service latency) had AUFS and Docker of 2016. Times are of operations inside the container, on a warm page cache.",
		},
		{
			Name: Predict, Title: "tare predict quota", Next: "tare claims S4.2", NextOf: validated,
			Answer: cpu.Demanded, Parts: cpu.Demands, Page: predictedPage,
		},
	},
}

// Of marks a design as one of these studies'.
func Of(name string, d lab.Design) lab.Design {
	d.Study = Name
	for i := range d.Groups {
		for j := range d.Groups[i].Conditions {
			c := &d.Groups[i].Conditions[j]
			if c.Factors == nil {
				c.Factors = map[string]string{}
			}
			c.Factors[factorOf] = name
		}
	}
	return d
}

// validated is the command that also measures the quotas of a prediction; empty where the
// run did.
func validated(run record.Run) string {
	if len(run.Command) > 1 && !slices.Contains(run.Command, "--validate") {
		return "tare " + terminal.Shell(append(withoutHome(run.Command[1:]), "--validate")...)
	}
	return ""
}

// withoutHome leaves out the state directory, which the caller adds.
func withoutHome(args []string) []string {
	var rest []string
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--home":
			i++ // and its value
		case strings.HasPrefix(args[i], "--home="):
		default:
			rest = append(rest, args[i])
		}
	}
	return rest
}
