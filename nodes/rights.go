package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// right is what the user must be allowed to do.
type right struct {
	group, resource, subresource string
	verbs                        []string
	namespace                    string // empty is the cluster's
	clusterWide                  bool
	why                          string
}

var rights = []right{
	{resource: "nodes", verbs: []string{"list"}, clusterWide: true, why: "finding the nodes of --nodes"},
	{resource: "configmaps", verbs: []string{"get", "list", "create", "patch", "delete"}, why: "the study's object"},
	{group: "batch", resource: "jobs", verbs: []string{"get", "create", "patch", "delete"}, why: "a Job a node"},
	{group: "coordination.k8s.io", resource: "leases", verbs: []string{"get", "create", "delete"}, why: "one study at a time on a node"},
	{resource: "pods", verbs: []string{"list", "watch", "create", "patch"}, why: "how the Jobs proceed, and whether the namespace admits their pods"},
	// A WebSocket is asked for by GET, and what came before it by POST.
	{resource: "pods", subresource: "exec", verbs: []string{"get", "create"}, why: "fetching the results"},
}

// toDiagnose are the rights to diagnose what is wanted, and no more. A node's pods are of all namespaces. The
// cluster's namespace is that of the Jobs.
func toDiagnose(w Wanted) []right {
	pods := right{resource: "pods", verbs: []string{"list"}, namespace: w.Namespace, why: "finding the pods to diagnose"}
	var subjects []right
	switch {
	case w.Node != "":
		pods.clusterWide = true
	case w.Kind == "pod":
		pods.verbs = []string{"get"}
	case w.Kind != "":
		verbs := []string{"get"}
		subjects = []right{{group: "apps", resource: w.Kind + "s", verbs: verbs, namespace: w.Namespace, why: "finding its pods"}}
	}
	return append(subjects, pods,
		right{group: "batch", resource: "jobs", verbs: []string{"create", "patch", "delete"}, why: "a Job a node"},
		right{resource: "pods", verbs: []string{"list", "watch", "create", "patch"}, why: "how the Jobs proceed, and whether the namespace admits their pods"},
		right{resource: "pods", subresource: "log", verbs: []string{"get"}, why: "reading the results"},
	)
}

func (r right) name() string {
	name := r.resource
	if r.group != "" {
		name += "." + r.group
	}
	if r.subresource != "" {
		name += "/" + r.subresource
	}
	return name
}

// NotAllowed says which right the user lacks.
type NotAllowed struct {
	Verb, Resource, Namespace, Why string
	Roles                          string // the objects that grant all that is needed, for kubectl apply
}

func (n *NotAllowed) Error() string {
	where := "in namespace " + n.Namespace
	if n.Namespace == "" {
		where = "in the cluster"
	}
	return fmt.Sprintf("you may not %s %s %s (%s): the Role above grants all that is needed", n.Verb, n.Resource, where, n.Why)
}

// CheckRights refuses, by a *NotAllowed, a user who lacks a right to measure, before anything is made.
func (c *Cluster) CheckRights(ctx context.Context) error { return c.check(ctx, "tare", rights) }

// check refuses a user who lacks a right. The Role that grants all has a name.
func (c *Cluster) check(ctx context.Context, role string, rights []right) error {
	reviews := c.Client.AuthorizationV1().SelfSubjectAccessReviews()
	for _, r := range rights {
		namespace := r.in(c.Namespace)
		for _, verb := range r.verbs {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: namespace, Verb: verb, Group: r.group, Resource: r.resource, Subresource: r.subresource,
				},
			}}
			answer, err := reviews.Create(ctx, review, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("ask what you may do: %w", err)
			}
			if !answer.Status.Allowed {
				return &NotAllowed{verb, r.name(), namespace, r.why, roles(role, c.Namespace, rights)}
			}
		}
	}
	return nil
}

// in is the namespace that a right is asked for in; empty is the whole cluster.
func (r right) in(namespace string) string {
	if r.clusterWide {
		return ""
	}
	return cmp.Or(r.namespace, namespace)
}

// roles are the objects that grant rights: a ClusterRole, and a Role a namespace.
func roles(name, namespace string, rights []right) string {
	var namespaces []string
	for _, r := range rights {
		namespaces = append(namespaces, r.in(namespace))
	}
	slices.Sort(namespaces)
	var objects []string
	for _, in := range slices.Compact(namespaces) {
		var text strings.Builder
		kind, where := "ClusterRole", ""
		if in != "" {
			kind, where = "Role", "  namespace: "+in+"\n"
		}
		fmt.Fprintf(&text, "apiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata:\n  name: %s\n%srules:\n", kind, name, where)
		for _, r := range rights {
			if r.in(namespace) != in {
				continue
			}
			resource := r.resource
			if r.subresource != "" {
				resource += "/" + r.subresource
			}
			fmt.Fprintf(&text, "- apiGroups: [%q]\n  resources: [%q]\n  verbs: [\"%s\"]\n",
				r.group, resource, strings.Join(r.verbs, `", "`))
		}
		objects = append(objects, text.String())
	}
	return strings.Join(objects, "---\n")
}

// Refused says that the namespace does not admit the pods.
type Refused struct{ Namespace, Why string }

func (r *Refused) Error() string {
	return fmt.Sprintf("namespace %s does not admit tare's pods: %s", r.Namespace, r.Why)
}

// podSecurity matches the level that a namespace enforces, in the API server's message.
var podSecurity = regexp.MustCompile(`PodSecurity "([a-z]+)`)

// CheckAdmission asks the API server whether it would admit a pod of the study, and makes none. The
// error may be a *Refused. This finds Pod Security levels, whether a label or the cluster's default
// sets them, and other admission alike.
func (c *Cluster) CheckAdmission(ctx context.Context, s Study) error {
	pod := corev1ac.Pod(s.jobName(0)+"-check", c.Namespace).WithLabels(s.labels()).WithSpec(s.pod(0))
	return c.admits(ctx, pod, "--namespace")
}

// admits is CheckAdmission of a pod. Another namespace for it is named by a flag.
func (c *Cluster) admits(ctx context.Context, pod *corev1ac.PodApplyConfiguration, flag string) error {
	asking := applying
	asking.DryRun = []string{metav1.DryRunAll}
	_, err := c.Client.CoreV1().Pods(c.Namespace).Apply(ctx, pod, asking)
	if err == nil {
		return nil
	}
	if level := podSecurity.FindStringSubmatch(err.Error()); level != nil {
		return &Refused{c.Namespace, fmt.Sprintf(
			"it enforces Pod Security level %s, and root on a node is privileged: %s OTHER, or kubectl label --overwrite namespace %s pod-security.kubernetes.io/enforce=privileged",
			level[1], flag, c.Namespace)}
	}
	if apierrors.IsNotFound(err) {
		return &Refused{c.Namespace, "it does not exist: kubectl create namespace " + c.Namespace}
	}
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return &Refused{c.Namespace, err.Error()}
	}
	return fmt.Errorf("ask whether the pods are admitted: %w", err)
}

// NoCluster says that no cluster answers.
type NoCluster struct{ Err error }

func (n *NoCluster) Error() string {
	return fmt.Sprintf("no cluster answers: %v: kubectl cluster-info says whether one does; --kubeconfig names another", n.Err)
}
func (n *NoCluster) Unwrap() error { return n.Err }

// Reached makes the error of a request that no API server answered a *NoCluster.
func Reached(err error) error {
	request, timeout := new(url.Error), net.Error(nil)
	if errors.Is(err, context.Canceled) {
		return err // whoever asked gave up
	}
	if errors.As(err, &request) {
		return &NoCluster{request}
	}
	if errors.As(err, &timeout) && timeout.Timeout() || apierrors.IsUnauthorized(err) {
		return &NoCluster{err}
	}
	return err
}
