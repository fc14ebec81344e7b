package nodes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// Wanted says whose containers are to be diagnosed: those of all pods of a namespace, of one of its objects, or
// of a node.
type Wanted struct {
	Namespace string
	Kind      string // of [Kinds]; empty where no object is named
	Name      string
	Node      string // its pods are of all namespaces
}

// Kinds are the objects whose pods can be diagnosed, with the names that kubectl has for them.
var Kinds = map[string][]string{
	"pod":         {"pods", "po"},
	"deployment":  {"deployments", "deploy"},
	"statefulset": {"statefulsets", "sts"},
	"daemonset":   {"daemonsets", "ds"},
}

// KindOf finds a kind by any of its names.
func KindOf(name string) (kind string, ok bool) {
	for kind, others := range Kinds {
		if name == kind || slices.Contains(others, name) {
			return kind, true
		}
	}
	return "", false
}

// NoPod says that what was asked for has no pod.
type NoPod struct{ What, Mend string }

func (n *NoPod) Error() string { return n.What + ": " + n.Mend }

// Pods are those whose containers are diagnosed.
type Pods struct {
	running map[string][]string   // by node: NAMESPACE/POD/CONTAINER
	of      map[string]corev1.Pod // by NAMESPACE/POD/CONTAINER
	out     []leftOut
}

// leftOut are pods of which no container runs, for one reason.
type leftOut struct {
	phase, why string
	pods       []string
}

// mostNamed is how many pods are named that are left out for one reason.
const mostNamed = 3

// Notes say which pods are left out, and why.
func (p Pods) Notes() (notes []string) {
	for _, o := range p.out {
		subject := "pod " + o.pods[0] + " is"
		if count := len(o.pods); count > 1 {
			named := min(count, mostNamed)
			subject = fmt.Sprintf("%d pods (%s", count, strings.Join(o.pods[:named], ", "))
			if count > named {
				subject += ", ..."
			}
			subject += ") are"
		}
		notes = append(notes, fmt.Sprintf("%s %s, and left out: %s", subject, o.phase, o.why))
	}
	return notes
}

// Nodes are those on which the pods are, by name.
func (p Pods) Nodes() (names []string) {
	for node := range p.running {
		names = append(names, node)
	}
	slices.Sort(names)
	return names
}

// Has reports whether a container is one of a node's.
func (p Pods) Has(node, container string) bool { return slices.Contains(p.running[node], container) }

// Count is how many containers run.
func (p Pods) Count() int { return len(p.of) }

// Pods finds what is to be diagnosed. The error may be a *NoPod.
func (c *Cluster) Pods(ctx context.Context, w Wanted) (Pods, error) {
	found, err := c.find(ctx, w)
	if err != nil {
		return Pods{}, err
	}
	p := Pods{running: map[string][]string{}, of: map[string]corev1.Pod{}}
	for _, pod := range found {
		if pod.Labels[managerLabel] != manager {
			p.add(pod)
		}
	}
	if len(p.of) > 0 {
		return p, nil
	}
	if notes := p.Notes(); notes != nil {
		return p, fmt.Errorf("no container runs: %s", strings.Join(notes, "; "))
	}
	switch {
	case w.Node != "":
		return p, &NoPod{"no pod is on node " + w.Node, "kubectl get nodes lists the nodes"}
	case w.Kind != "":
		return p, &NoPod{fmt.Sprintf("%s %s of namespace %s has no pod", w.Kind, w.Name, w.Namespace),
			fmt.Sprintf("kubectl get -n %s %s %s says how many it wants", w.Namespace, w.Kind, w.Name)}
	}
	return p, &NoPod{fmt.Sprintf("namespace %s has no pod", w.Namespace), "kubectl get pods -A lists all; -n names another namespace"}
}

// find gives all pods, whether they run or not.
func (c *Cluster) find(ctx context.Context, w Wanted) ([]corev1.Pod, error) {
	var selector *metav1.LabelSelector
	var err error
	in, options := w.Namespace, metav1.ListOptions{}
	switch get := (metav1.GetOptions{}); w.Kind {
	case "pod":
		pod, err := c.Client.CoreV1().Pods(w.Namespace).Get(ctx, w.Name, get)
		if err != nil {
			return nil, w.unknown(err)
		}
		return []corev1.Pod{*pod}, nil
	case "deployment":
		var is *appsv1.Deployment
		if is, err = c.Client.AppsV1().Deployments(w.Namespace).Get(ctx, w.Name, get); err == nil {
			selector = is.Spec.Selector
		}
	case "statefulset":
		var is *appsv1.StatefulSet
		if is, err = c.Client.AppsV1().StatefulSets(w.Namespace).Get(ctx, w.Name, get); err == nil {
			selector = is.Spec.Selector
		}
	case "daemonset":
		var is *appsv1.DaemonSet
		if is, err = c.Client.AppsV1().DaemonSets(w.Namespace).Get(ctx, w.Name, get); err == nil {
			selector = is.Spec.Selector
		}
	}
	if err != nil {
		return nil, w.unknown(err)
	}
	if selector != nil {
		options.LabelSelector = metav1.FormatLabelSelector(selector)
	}
	if w.Node != "" {
		in, options.FieldSelector = metav1.NamespaceAll, fields.OneTermEqualSelector("spec.nodeName", w.Node).String()
	}
	list, err := c.Client.CoreV1().Pods(in).List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("list the pods: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list.Items, nil
}

func (w Wanted) unknown(err error) error {
	if apierrors.IsNotFound(err) {
		return &NoPod{fmt.Sprintf("namespace %s has no %s %s", w.Namespace, w.Kind, w.Name),
			fmt.Sprintf("kubectl get -n %s %s lists them", w.Namespace, w.Kind)}
	}
	return fmt.Errorf("read %s %s: %w", w.Kind, w.Name, err)
}

// add takes in the containers of a pod that run. One that has ended well is not missed.
func (p *Pods) add(pod corev1.Pod) {
	name := pod.Namespace + "/" + pod.Name
	isRunning, endedWell := false, pod.Status.Phase == corev1.PodSucceeded
	of := pod.Status
	for _, s := range slices.Concat(of.InitContainerStatuses, of.ContainerStatuses, of.EphemeralContainerStatuses) {
		if s.State.Running == nil {
			continue
		}
		isRunning = true
		full := name + "/" + s.Name
		p.running[pod.Spec.NodeName] = append(p.running[pod.Spec.NodeName], full)
		p.of[full] = pod
	}
	if isRunning || endedWell {
		return
	}
	why := cmp.Or(pending(&pod), "none of its containers runs")
	if pod.Status.Phase == corev1.PodFailed {
		why = failure(&pod)
	}
	phase := strings.ToLower(string(pod.Status.Phase))
	i := slices.IndexFunc(p.out, func(o leftOut) bool { return o.phase == phase && o.why == why })
	if i < 0 {
		i = len(p.out)
		p.out = append(p.out, leftOut{phase: phase, why: why})
	}
	p.out[i].pods = append(p.out[i].pods, name)
}
