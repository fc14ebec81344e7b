package nodes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
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
}

func (n *NotAllowed) Error() string {
	where := "in namespace " + n.Namespace
	if n.Namespace == "" {
		where = "in the cluster"
	}
	return fmt.Sprintf("you may not %s %s %s (%s): the Role below grants all that is needed", n.Verb, n.Resource, where, n.Why)
}

// CheckRights refuses, by a *NotAllowed, a user who lacks a right, before anything is made.
func (c *Cluster) CheckRights(ctx context.Context) error {
	reviews := c.Client.AuthorizationV1().SelfSubjectAccessReviews()
	for _, r := range rights {
		namespace := c.Namespace
		if r.clusterWide {
			namespace = ""
		}
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
				return &NotAllowed{verb, r.name(), namespace, r.why}
			}
		}
	}
	return nil
}

// Roles are the objects that grant what CheckRights asks for, for kubectl apply.
func Roles(namespace string) string {
	var text strings.Builder
	for _, kind := range []string{"ClusterRole", "Role"} {
		fmt.Fprintf(&text, "apiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata:\n  name: tare\n", kind)
		if kind == "Role" {
			fmt.Fprintf(&text, "  namespace: %s\n", namespace)
		}
		text.WriteString("rules:\n")
		for _, r := range rights {
			if r.clusterWide != (kind == "ClusterRole") {
				continue
			}
			resource := r.resource
			if r.subresource != "" {
				resource += "/" + r.subresource
			}
			fmt.Fprintf(&text, "- apiGroups: [%q]\n  resources: [%q]\n  verbs: [%q]\n",
				r.group, resource, strings.Join(r.verbs, `", "`))
		}
		text.WriteString("---\n")
	}
	return strings.ReplaceAll(strings.TrimSuffix(text.String(), "---\n"), `\"`, `"`)
}

// Refused says that the namespace does not admit the pods.
type Refused struct{ Namespace, Why string }

func (r *Refused) Error() string {
	return fmt.Sprintf("namespace %s does not admit the pods that measure: %s", r.Namespace, r.Why)
}

// podSecurity matches the level that a namespace enforces, in the API server's message.
var podSecurity = regexp.MustCompile(`PodSecurity "([a-z]+)`)

// CheckAdmission asks the API server whether it would admit a pod of the study, and makes none. The
// error may be a *Refused. This finds Pod Security levels, whether a label or the cluster's default
// sets them, and other admission alike.
func (c *Cluster) CheckAdmission(ctx context.Context, s Study) error {
	pod := corev1ac.Pod(s.jobName(0)+"-check", c.Namespace).WithLabels(s.labels()).WithSpec(s.pod(0))
	asking := applying
	asking.DryRun = []string{metav1.DryRunAll}
	_, err := c.Client.CoreV1().Pods(c.Namespace).Apply(ctx, pod, asking)
	if err == nil {
		return nil
	}
	if level := podSecurity.FindStringSubmatch(err.Error()); level != nil {
		return &Refused{c.Namespace, fmt.Sprintf(
			"it enforces Pod Security level %s, and root on a node is privileged: --namespace OTHER, or kubectl label --overwrite namespace %s pod-security.kubernetes.io/enforce=privileged",
			level[1], c.Namespace)}
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
