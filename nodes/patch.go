package nodes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"tare/study/diagnose"
	"tare/terminal"
)

// fragment is a part of a container's specification, as a finding proposes it.
type fragment struct {
	Resources map[string]map[string]any `json:"resources"` // limits, requests; a resource that is nil has none
}

// fragmentOf reads a remedy; false where it is no such part.
func fragmentOf(to diagnose.Remedy) (f fragment, ok bool) {
	if !strings.HasPrefix(to.Command, "resources: ") || yaml.Unmarshal([]byte(to.Command), &f) != nil {
		return f, false
	}
	for section, of := range f.Resources {
		if section != "limits" && section != "requests" {
			return f, false
		}
		for name, amount := range of {
			if _, err := quantity(amount); err != nil || name != "cpu" && name != "memory" {
				return f, false
			}
		}
	}
	return f, true
}

// amounts are those that findings propose. A node could write others: 1e-2000000000 takes minutes to parse.
var amounts = regexp.MustCompile(`^[0-9]{1,12}(m|Mi)?$`)

// quantity is that of a resource; zero where there is none.
func quantity(amount any) (resource.Quantity, error) {
	if amount == nil {
		return resource.Quantity{}, nil
	}
	text := fmt.Sprint(amount)
	if !amounts.MatchString(text) {
		return resource.Quantity{}, fmt.Errorf("%q is no amount of a finding", text)
	}
	return resource.ParseQuantity(text)
}

// isLess compares the limits of two fragments of one finding.
func (f fragment) isLess(than fragment) bool {
	for name, amount := range f.Resources["limits"] {
		own, _ := quantity(amount)
		other, _ := quantity(than.Resources["limits"][name])
		return own.Cmp(other) < 0
	}
	return false
}

// template is what pods are made from.
type template struct{ namespace, kind, name string }

// templateOf is a pod's; false where no command can change it.
func templateOf(pod corev1.Pod) (t template, ok bool) {
	by := metav1.GetControllerOf(&pod)
	if by == nil || by.APIVersion != appsv1.SchemeGroupVersion.String() {
		return t, false
	}
	t = template{pod.Namespace, strings.ToLower(by.Kind), by.Name}
	if by.Kind == "ReplicaSet" { // a Deployment's has its name, and the hash that its pods have
		t.kind = "deployment"
		t.name, ok = strings.CutSuffix(by.Name, "-"+pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey])
		return t, ok
	}
	return t, by.Kind == "StatefulSet" || by.Kind == "DaemonSet"
}

// revision is which of its template's revisions a pod was made from.
func revision(pod corev1.Pod) string {
	return cmp.Or(pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey], pod.Labels[appsv1.ControllerRevisionHashLabelKey])
}

// youngest gives the youngest pod of each template. In a rollout, pods of another revision are about to be replaced.
func (p Pods) youngest() map[template]corev1.Pod {
	all := map[template]corev1.Pod{}
	for _, pod := range p.of {
		t, ok := templateOf(pod)
		if !ok {
			continue
		}
		other, isKnown := all[t]
		later := cmp.Or(pod.CreationTimestamp.Compare(other.CreationTimestamp.Time), cmp.Compare(pod.Name, other.Name))
		if !isKnown || later > 0 {
			all[t] = pod
		}
	}
	return all
}

// Patch adds to remedies the commands of kubectl that make them, for pods that are made from a template. One template
// has one command for one finding: what suffices for each pod of its newest revision. Where that is more than a pod
// needs itself, the pod's remedy has it, too. A patch or a command that a node wrote is removed: nodes are not trusted.
// CPUs of its own have no patch: without the node's static CPU manager, the limit would only be a quota. A command goes
// to the cluster of a file of configuration; empty is kubectl's own.
func (p Pods) Patch(found []diagnose.Finding, kubeconfig string) {
	kubectl := []string{"kubectl"}
	if kubeconfig != "" {
		kubectl = append(kubectl, "--kubeconfig", kubeconfig)
	}
	type place struct {
		template
		container string
		finding   diagnose.Kind
	}
	youngest := p.youngest()
	placeOf := func(f diagnose.Finding) (at place, ok bool) {
		pod, isKnown := p.of[f.Container]
		if !isKnown {
			return at, false
		}
		at.template, ok = templateOf(pod)
		ok = ok && revision(pod) == revision(youngest[at.template])
		at.container, at.finding = f.Container[strings.LastIndexByte(f.Container, '/')+1:], f.Kind
		return at, ok
	}
	greatest := map[place]diagnose.Remedy{}
	for _, f := range found {
		at, ok := placeOf(f)
		for _, to := range f.Set {
			own, isFragment := fragmentOf(to)
			if !ok || !isFragment {
				continue
			}
			if most, isKnown := fragmentOf(greatest[at]); !isKnown || most.isLess(own) {
				greatest[at] = to
			}
		}
	}
	for _, f := range found {
		at, ok := placeOf(f)
		for i := range f.Set {
			to := &f.Set[i]
			to.Patch = ""
			_, isFragment := fragmentOf(*to)
			if !isFragment {
				to.Command = "" // a shell's, for the node: it would be run here
			}
			if !ok || !isFragment || f.Kind == diagnose.Unpinned {
				continue
			}
			most := greatest[at]
			to.Says, to.Command, to.Change = most.Says, most.Command, most.Change
			if words := patch(at.template, p.of[f.Container], at.container, most); words != nil {
				to.Patch = terminal.Shell(slices.Concat(kubectl, words)...)
			}
		}
	}
}

// patch is the command of kubectl that gives a container of a template what a remedy says; nil where there is none.
func patch(t template, pod corev1.Pod, container string, to diagnose.Remedy) []string {
	of, _ := fragmentOf(to)
	list, all := "containers", pod.Spec.Containers
	if slices.ContainsFunc(pod.Spec.InitContainers, named(container)) {
		list, all = "initContainers", pod.Spec.InitContainers
	}
	at := slices.IndexFunc(all, named(container))
	if at < 0 {
		return nil // an ephemeral container, which no template has
	}
	// A request that is not written is as great as the limit: without the limit there were none.
	if limit, isLimited := of.Resources["limits"]["cpu"]; isLimited && limit == nil {
		if request := all[at].Resources.Requests.Cpu(); !request.IsZero() {
			of.Resources["requests"] = map[string]any{"cpu": request.String()}
		}
	}
	type object = map[string]any
	containers := object{list: []object{{"name": container, "resources": of.Resources}}}
	text, err := json.Marshal(object{"spec": object{"template": object{"spec": containers}}})
	if err != nil {
		return nil // maps of words and numbers
	}
	return []string{"patch", "-n", t.namespace, t.kind, t.name, "--patch", string(text)}
}

func named(name string) func(corev1.Container) bool {
	return func(c corev1.Container) bool { return c.Name == name }
}
