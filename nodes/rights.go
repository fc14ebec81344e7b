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
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"sigs.k8s.io/yaml"
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

// toServe are the rights that a study needs besides, whose pods are reached through a Service.
var toServe = []right{
	{resource: "services", verbs: []string{"create", "patch"}, why: "Services that lead to pods: network bridge:clusterip and bridge:nodeport"},
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

// path is the resource as a rule names it.
func (r right) path() string { return strings.TrimSuffix(r.resource+"/"+r.subresource, "/") }

// NotAllowed says which right the user lacks.
type NotAllowed struct {
	Verb, Resource, Namespace, Why string // the namespace is empty where the right is to the whole cluster
	Pods                           string // the namespace of the pods
	// Roles are the objects that grant all that a diagnosis needs, for kubectl apply. Those of a study are Rights.
	Roles string
}

func (n *NotAllowed) Error() string {
	where := "in namespace " + n.Namespace
	if n.Namespace == "" {
		where = "in the cluster"
	}
	grant := "an administrator grants all that is needed: kubectl tare rights -n " + n.Pods + " --user NAME | kubectl apply -f -"
	if n.Roles != "" {
		grant = "the Roles above grant all that is needed, once an administrator has applied them and bound them to you"
	}
	return fmt.Sprintf("you may not %s %s %s (%s): %s", n.Verb, n.Resource, where, n.Why, grant)
}

// CheckRights refuses, by a *NotAllowed, a user who lacks a right to measure, before anything is made.
func (c *Cluster) CheckRights(ctx context.Context) error { return c.check(ctx, rights) }

// CheckServiceRights is CheckRights for a study with Services.
func (c *Cluster) CheckServiceRights(ctx context.Context) error { return c.check(ctx, toServe) }

// check refuses a user who lacks a right.
func (c *Cluster) check(ctx context.Context, rights []right) error {
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
				return &NotAllowed{Verb: verb, Resource: r.name(), Namespace: namespace, Why: r.why, Pods: c.Namespace}
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

// rulesIn grant those of the rights that are asked for in a namespace, where others are asked for elsewhere.
func rulesIn(in, namespace string, rights []right) (rules []*rbacv1ac.PolicyRuleApplyConfiguration) {
	for _, r := range rights {
		if r.in(namespace) == in {
			rule := rbacv1ac.PolicyRule().WithAPIGroups(r.group).WithResources(r.path()).WithVerbs(r.verbs...)
			rules = append(rules, rule)
		}
	}
	return rules
}

// roles are the objects that grant rights: a ClusterRole, and a Role a namespace.
func roles(name, namespace string, rights []right) (string, error) {
	var namespaces []string
	for _, r := range rights {
		namespaces = append(namespaces, r.in(namespace))
	}
	slices.Sort(namespaces)
	var objects []any
	for _, in := range slices.Compact(namespaces) {
		rules := rulesIn(in, namespace, rights)
		if in == "" {
			objects = append(objects, rbacv1ac.ClusterRole(name).WithRules(rules...))
		} else {
			objects = append(objects, rbacv1ac.Role(name, in).WithRules(rules...))
		}
	}
	return documents(objects)
}

// documents are objects for kubectl apply.
func documents(objects []any) (string, error) {
	var all []string
	for _, object := range objects {
		document, err := yaml.Marshal(object)
		if err != nil {
			return "", err
		}
		all = append(all, string(document))
	}
	return strings.Join(all, "---\n"), nil
}

// Rights are the objects that grant users and groups what CheckRights asks for, as YAML for kubectl apply:
// a namespace that admits the pods, a Role, a ClusterRole, and what binds them.
func Rights(namespace string, users, groups []string) (string, error) {
	const name = "tare"
	var subjects []*rbacv1ac.SubjectApplyConfiguration
	subject := func(kind, name string) {
		subjects = append(subjects, rbacv1ac.Subject().WithAPIGroup(rbacv1.GroupName).WithKind(kind).WithName(name))
	}
	for _, user := range users {
		subject(rbacv1.UserKind, user)
	}
	for _, group := range groups {
		subject(rbacv1.GroupKind, group)
	}
	role := func(kind string) *rbacv1ac.RoleRefApplyConfiguration {
		return rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind(kind).WithName(name)
	}
	return documents([]any{
		corev1ac.Namespace(namespace).WithLabels(map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}),
		rbacv1ac.ClusterRole(name).WithRules(rulesIn("", namespace, rights)...),
		// Several namespaces have one ClusterRole, and each a binding of its own.
		rbacv1ac.ClusterRoleBinding(name + "-" + namespace).WithRoleRef(role("ClusterRole")).WithSubjects(subjects...),
		rbacv1ac.Role(name, namespace).WithRules(rulesIn(namespace, namespace, slices.Concat(rights, toServe))...),
		rbacv1ac.RoleBinding(name, namespace).WithRoleRef(role("Role")).WithSubjects(subjects...),
	})
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
	if err := s.Services.check(len(s.Nodes)); err != nil {
		return err
	}
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
		return err // the command was cancelled
	}
	if errors.As(err, &request) {
		return &NoCluster{request}
	}
	if errors.As(err, &timeout) && timeout.Timeout() || apierrors.IsUnauthorized(err) {
		return &NoCluster{err}
	}
	return err
}
