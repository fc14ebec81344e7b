// Package latency puts together the studies of a service's latency in a
// container, S4's (The Impact of Docker Containers on Service Latency): what CPU
// time it is granted (package cpu), the path of its network (package network),
// and the files of its image (package files). Each is a command and a run of its
// own; what they share of a page and of the claims is here.
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
)

// Name is the studies', in the store.
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

// Studies are these.
var Studies = kit.Family{
	Of: kit.NamedBy(factorOf), Title: "tare latency", Next: "tare claims S4",
	Members: []kit.Member{
		{
			Name: CPU, Title: "tare latency cpu", Judge: cpu.Judge, Answer: cpu.Answer, Parts: cpu.Parts, More: predictedParts, Advice: cpu.Advice, Next: "tare latency network",
			Note: "S4 had the client on a second machine, Docker of 2016 and a service of some 240 us a round trip: what is judged is ratios and shapes, not microseconds.",
		},
		{
			Name: Network, Title: "tare latency network", Judge: network.Judge, Answer: network.Answer, Parts: network.Parts, Advice: network.Advice, Next: "tare latency files",
			Note: "S4 had the client on a second machine, behind a wire, and Docker of 2016; what a way adds is judged, not how long a trip takes.",
		},
		{
			Name: Files, Title: "tare latency files", Judge: files.Judge, Answer: files.Answer, Parts: files.Parts, Advice: files.Advice, Next: "tare claims S4",
			Note: "S4 had AUFS and Docker of 2016; times are of operations inside the container, on a warm page cache.",
		},
		{
			Name: Predict, Title: "tare predict quota", Answer: cpu.Demanded, Parts: cpu.Demands, Page: predictedPage, NextOf: validated, Next: "tare claims S4.2",
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

// validated is the command of a prediction with the quotas measured, where they were not.
func validated(run record.Run) string {
	if len(run.Command) > 1 && !slices.Contains(run.Command, "--validate") {
		return "tare " + strings.Join(append(withoutHome(run.Command[1:]), "--validate"), " ")
	}
	return ""
}

// withoutHome leaves out the state directory, which whoever shows the command adds.
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
