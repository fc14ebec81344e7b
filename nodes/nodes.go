// Package nodes has a study measured on nodes of a Kubernetes cluster, and brings the runs home. It has
// containers of pods diagnosed on their nodes, too.
//
// Each node measures by itself: a Job runs the study there as tare would on that machine, into a
// store of the node's own. Nothing goes over the network meanwhile. When a node's run has ended, it is
// fetched by one exec into the pod and entered into the local store. A second exec acknowledges
// that. Until then the node keeps it, whatever becomes of the network or of who started the study.
//
// The objects are one ConfigMap, which owns all others, and for each node a Lease, a Job, and Services of pods.
// Deleting the ConfigMap removes everything from the cluster.
//
// A diagnosis of pods needs none of that: a Job on each of their nodes looks at them for some seconds, and its
// pod's log has the result. The Jobs are deleted then. Where nobody does that, they go by themselves.
//
// The package schedules nothing, and analyses nothing (packages overhead and study/diagnose do).
package nodes

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"tare/platform"
	"tare/record"
)

// Cluster is where nodes are.
type Cluster struct {
	Client    kubernetes.Interface
	Namespace string
	Exec      Exec
	Log       Log
}

// Node is a machine of the cluster.
type Node struct {
	Name   string
	OS     string // "linux"
	Arch   string // "amd64", as Go names it
	CPUs   int
	Memory int64 // bytes
	// Address is the internal one of IPv4, at which the node's own programs reach it; empty where it has none.
	Address string
}

// Study is a study over nodes.
type Study struct {
	ID       string   // of the form of record.NewID; it joins the runs
	Args     []string // tare's command line, without the program's name
	Selector string   // by which the nodes were chosen
	Image    string   // of the pods, by digest
	Nodes    []string // by name; a node's index is in the name of its Job
	// Files are those of the command line: their texts, by their names there.
	Files    map[string]string
	Images   []string // of the programs that are measured: the nodes' kubelets pull them
	Services Services

	parent types.UID // of the ConfigMap
}

// Services are those that lead to pods of a node.
type Services struct {
	Pods  map[platform.Network]int `json:"pods,omitempty"` // how many at once, by the kind of Service
	Ports int                      `json:"ports,omitempty"`
}

// Part is the part of one node.
func (s Study) Part(node string) record.Part { return record.Part{Study: s.ID, Node: node} }

// Parent is the name of the ConfigMap that owns everything.
func (s Study) Parent() string { return parentName(s.ID) }

// NoNode says that no node has the labels that were asked for.
type NoNode struct{ Selector string }

func (n *NoNode) Error() string {
	return fmt.Sprintf("no node matches --nodes %s: kubectl get nodes --show-labels lists the labels", n.Selector)
}

// BadSelector says that a selector cannot be read.
type BadSelector struct {
	Selector string
	Err      error
}

func (b *BadSelector) Error() string {
	return fmt.Sprintf("--nodes %q: %v: want labels, such as pool=bench, or kubernetes.io/os=linux for all", b.Selector, b.Err)
}

// Nodes finds the nodes that a selector chooses, by name. The error may be *NoNode or *BadSelector.
func (c *Cluster) Nodes(ctx context.Context, selector string) ([]Node, error) {
	if _, err := labels.Parse(selector); err != nil {
		return nil, &BadSelector{selector, err}
	}
	list, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	var found []Node
	for _, n := range list.Items {
		found = append(found, Node{
			Name:   n.Name,
			OS:     n.Status.NodeInfo.OperatingSystem,
			Arch:   n.Status.NodeInfo.Architecture,
			CPUs:   int(n.Status.Capacity.Cpu().Value()),
			Memory: n.Status.Capacity.Memory().Value(),

			Address: internal(n.Status.Addresses),
		})
	}
	if len(found) == 0 {
		return nil, &NoNode{selector}
	}
	slices.SortFunc(found, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return found, nil
}

// internal is the first internal address of IPv4; empty where there is none.
func internal(all []corev1.NodeAddress) string {
	for _, a := range all {
		if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Is4() && a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// architectures are those that the image is made for.
var architectures = []string{"amd64", "arm64"}

// Unfit says why the image does not run on a node; empty where it does.
func (n Node) Unfit() string {
	if n.OS == "linux" && slices.Contains(architectures, n.Arch) {
		return ""
	}
	return fmt.Sprintf("it is %s/%s, and the image is made for linux on %s", n.OS, n.Arch, strings.Join(architectures, " and "))
}
