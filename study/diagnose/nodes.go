package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"tare/report"
)

// NodesSchema names the layout of what `kubectl tare diagnose --json` writes.
const NodesSchema = "tare-diagnose-nodes/1"

// NodesDocument is what nodes of a cluster found in containers of their pods, as JSON.
type NodesDocument struct {
	Schema  string         `json:"schema"`
	Answer  string         `json:"answer"`
	Nodes   []NodeDocument `json:"nodes"`
	Missing []Missing      `json:"missing"` // nodes that did not answer
	Notes   []string       `json:"notes,omitempty"`

	found []Finding // of all nodes, as a page has them
}

// NodeDocument is what one node found.
type NodeDocument struct {
	Node string `json:"node"`
	Document
}

// Missing is a node that did not answer.
type Missing struct {
	Node  string `json:"node"`
	Cause string `json:"cause"`
}

// OnNodes joins what nodes found, in an order of [Orders].
func OnNodes(nodes []NodeDocument, missing []Missing, notes []string, order string) *NodesDocument {
	all := &NodesDocument{
		Schema: NodesSchema, Notes: notes,
		Nodes: append([]NodeDocument{}, nodes...), Missing: append([]Missing{}, missing...),
	}
	containers := 0
	for _, n := range nodes {
		for i := range n.Findings {
			n.Findings[i].Node = n.Node
		}
		all.found = append(all.found, n.Findings...)
		containers += len(n.Containers)
	}
	Sort(all.found, order)
	if len(nodes) == 0 {
		all.Answer = "No node answered."
		return all
	}
	all.Answer = answer(all.found, containers, nodes[0].Span)
	return all
}

// Findings are those of all nodes.
func (d *NodesDocument) Findings() []Finding { return d.found }

// Sheet is the page of what nodes found.
func (d *NodesDocument) Sheet(isWhole bool) report.Sheet {
	s := report.Sheet{Title: "kubectl tare diagnose", Answer: d.Answer}
	for _, m := range d.Missing {
		s.Banners = append(s.Banners, fmt.Sprintf("missing: %s: %s", m.Node, m.Cause))
	}
	for _, n := range d.Notes {
		s.Banners = append(s.Banners, "note: "+n)
	}
	containers := 0
	for _, n := range d.Nodes {
		containers += len(n.Containers)
		for _, note := range n.Notes {
			s.Banners = append(s.Banners, fmt.Sprintf("note: %s: %s", n.Node, note))
		}
		if n.Lost > 0 {
			s.Banners = append(s.Banners, fmt.Sprintf("lost: %s: %d scheduler events found no room: waits are too low by as many", n.Node, n.Lost))
		}
	}
	s.Facts = []string{fmt.Sprintf("nodes: %d (%s)", len(d.Nodes), report.Counted(containers, "container"))}
	s.Parts = append(report.Filled(table(d.found, false), settingsOf(d.found...)), evidenceOf(d.found, isWhole)...)
	hasPatch := map[string]bool{}
	for _, f := range d.found {
		if slices.ContainsFunc(f.Set, func(to Remedy) bool { return to.Patch != "" }) {
			hasPatch[f.ID] = true
		}
	}
	for _, f := range d.found {
		if hasPatch[f.Within] {
			continue // one command for one cost: this finding's is an alternative
		}
		for _, to := range f.Set {
			if to.Patch != "" && !slices.Contains(s.Next, to.Patch) {
				s.Next = append(s.Next, to.Patch)
			}
		}
	}
	return s
}

// pod is a finding's pod in a cluster, NAMESPACE/POD, and its container's name there.
func (f Finding) pod() (pod, name string) {
	at := strings.LastIndexByte(f.Container, '/')
	return f.Container[:max(at, 0)], f.Container[at+1:]
}
