package nodes

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	kubetesting "k8s.io/client-go/testing"
)

var example = Study{
	ID: "weigh-20260102-150405-7f3a", Args: []string{"weigh", "--image", "app:1", "--", "/bin/app", "$(HOME)"},
	Selector: "pool=bench", Image: "tare@sha256:00", Nodes: []string{"a", "b.example"}, parent: "uid",
}

// Everything but the parent goes with it, and has no right but what is explained.
func TestObjects(t *testing.T) {
	client := fake.NewClientset()
	c := &Cluster{Client: client, Namespace: "bench"}
	if cause, err := c.start(t.Context(), example, 1, Node{Name: "b.example"}); cause != "" || err != nil {
		t.Fatal(cause, err)
	}
	job, err := client.BatchV1().Jobs("bench").Get(t.Context(), "tare-weigh-20260102-150405-7f3a-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := client.CoordinationV1().Leases("bench").Get(t.Context(), "tare-b.example", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, owners := range [][]metav1.OwnerReference{job.OwnerReferences, lease.OwnerReferences} {
		if len(owners) != 1 || owners[0].UID != "uid" || owners[0].Kind != "ConfigMap" || owners[0].Name != example.Parent() {
			t.Errorf("owned by %+v", owners)
		}
	}
	pod := job.Spec.Template.Spec
	term := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0]
	if term.Key != "metadata.name" || !slices.Equal(term.Values, []string{"b.example"}) {
		t.Errorf("placed by %+v", term)
	}
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Error("the pod has a token, which it does not need")
	}
	measure, keep := pod.InitContainers[0], pod.Containers[0]
	want := []string{"node", "run", "--study", example.ID, "--node", "b.example", "--", "weigh", "--image", "app:1", "--", "/bin/app", "$$(HOME)"}
	if !slices.Equal(measure.Args, want) {
		t.Errorf("arguments %q, want %q", measure.Args, want)
	}
	if p := measure.SecurityContext.Privileged; p != nil && *p || len(measure.VolumeMounts) > 0 {
		t.Error("what measures is privileged, or has a volume")
	}
	if added := measure.SecurityContext.Capabilities.Add; len(added) != len(Capabilities) || slices.Contains(added, "SYS_RESOURCE") {
		t.Errorf("capabilities %v", added)
	}
	if keep.SecurityContext.Capabilities.Add != nil || !slices.Equal(keep.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("what keeps results has capabilities: %+v", keep.SecurityContext.Capabilities)
	}
}

// The page that a cluster's administrator reads has each privilege with the reason that the code has.
func TestPrivilegesAreExplained(t *testing.T) {
	page, err := os.ReadFile("../docs/nodes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range slices.Concat(Shared, Capabilities, Unconfined, Withheld, Diagnosing) {
		if row := "| " + p.Name + " | " + p.Why + " |"; !strings.Contains(string(page), row) {
			t.Errorf("docs/nodes.md lacks the row\n%s", row)
		}
	}
	for _, r := range slices.Concat(rights, toServe, toDiagnose(Wanted{}), toDiagnose(Wanted{Node: "a"}), toDiagnose(Wanted{Kind: "pod"}),
		toDiagnose(Wanted{Kind: "deployment"}), toDiagnose(Wanted{Kind: "statefulset"}), toDiagnose(Wanted{Kind: "daemonset"})) {
		if row := "| " + r.name() + " | " + strings.Join(r.verbs, ", ") + " |"; !strings.Contains(string(page), row) {
			t.Errorf("docs/nodes.md lacks the row\n%s", row)
		}
	}
}

// A study is read from its parent as it was made.
func TestLoad(t *testing.T) {
	c := &Cluster{Client: fake.NewClientset(), Namespace: "bench"}
	made, err := c.Create(t.Context(), example)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := c.Load(t.Context(), example.ID)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(made)
	if got, _ := json.Marshal(loaded); string(got) != string(want) {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := c.Load(t.Context(), "weigh-none"); !errors.As(err, new(*NoStudy)) {
		t.Errorf("of no study: %v", err)
	}
	byArgs, byFile := example, example
	byArgs.Args, byFile.Files = []string{"weigh", "stream"}, map[string]string{"app.yaml": "another"}
	for _, other := range []Study{byArgs, byFile} {
		if _, found, err := c.Unfinished(t.Context(), other); found || err != nil {
			t.Errorf("%+v is taken for the same: %v", other, err)
		}
	}
}

func TestNodes(t *testing.T) {
	c := &Cluster{Client: fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"pool": "bench"}}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"pool": "bench"}}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "c"}},
	)}
	found, err := c.Nodes(t.Context(), "pool=bench")
	if err != nil || len(found) != 2 || found[0].Name != "a" {
		t.Errorf("%v, %v", found, err)
	}
	if _, err := c.Nodes(t.Context(), "pool=none"); !errors.As(err, new(*NoNode)) {
		t.Errorf("a selector that matches nothing: %v", err)
	}
	if _, err := c.Nodes(t.Context(), "pool=="+"=x"); !errors.As(err, new(*BadSelector)) {
		t.Errorf("a selector that cannot be read: %v", err)
	}
}

// A right that is lacking is named before anything is made.
func TestCheckRights(t *testing.T) {
	client := fake.NewClientset()
	lacking := ""
	client.PrependReactor("create", "selfsubjectaccessreviews", func(action kubetesting.Action) (bool, runtime.Object, error) {
		review := action.(kubetesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		asked := review.Spec.ResourceAttributes
		review.Status.Allowed = asked.Verb+" "+asked.Resource+asked.Subresource != lacking
		return true, review, nil
	})
	c := &Cluster{Client: client, Namespace: "bench"}
	if err := c.CheckRights(t.Context()); err != nil {
		t.Errorf("with all rights: %v", err)
	}
	for lacks, want := range map[string]string{
		"create jobs":     "create jobs.batch in namespace bench",
		"create podsexec": "create pods/exec in namespace bench",
		"list nodes":      "list nodes in the cluster",
	} {
		lacking = lacks
		err := c.CheckRights(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "rights -n bench ") {
			t.Errorf("without %s: %v", lacks, err)
		}
	}
	// Pods may be looked for in another namespace than that of the Jobs.
	var lacks *NotAllowed
	lacking = "get podslog"
	err := c.CheckDiagnosis(t.Context(), Wanted{Namespace: "shop", Kind: "deployment"}, "tare@sha256:00")
	if !errors.As(err, &lacks) || !strings.Contains(err.Error(), "get pods/log in namespace bench") {
		t.Fatal(err)
	}
	for _, want := range []string{"namespace: bench\n", "namespace: shop\n", "- deployments\n"} {
		if strings.Count(lacks.Roles, want) != 1 || strings.Contains(lacks.Roles, "ClusterRole") {
			t.Errorf("the roles lack %s:\n%s", want, lacks.Roles)
		}
	}
	if strings.Contains(lacks.Roles, "daemonsets") {
		t.Errorf("a Deployment takes a right to DaemonSets:\n%s", lacks.Roles)
	}
}

// What an administrator applies grants each right, and the API knows all its fields.
func TestRights(t *testing.T) {
	text, err := Rights("bench", []string{"alice@example.com"}, []string{"ops"})
	if err != nil {
		t.Fatal(err)
	}
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var kinds []string
	var rules []rbacv1.PolicyRule
	for document := range strings.SplitSeq(text, "---\n") {
		object, kind, err := strict.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		kinds = append(kinds, kind.Kind)
		var bound []rbacv1.Subject
		switch o := object.(type) {
		case *corev1.Namespace:
			if o.Name != "bench" || o.Labels["pod-security.kubernetes.io/enforce"] != "privileged" {
				t.Errorf("namespace %+v", o)
			}
			continue
		case *rbacv1.ClusterRole:
			rules = append(rules, o.Rules...)
			continue
		case *rbacv1.Role:
			rules = append(rules, o.Rules...)
			continue
		case *rbacv1.ClusterRoleBinding:
			bound = o.Subjects
		case *rbacv1.RoleBinding:
			bound = o.Subjects
		}
		if len(bound) != 2 || bound[0].Name != "alice@example.com" || bound[1].Kind != "Group" {
			t.Errorf("%s binds %+v", kind.Kind, bound)
		}
	}
	if want := []string{"Namespace", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}; !slices.Equal(kinds, want) {
		t.Errorf("%q, want %q", kinds, want)
	}
	for _, r := range rights {
		if !slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
			return rule.Resources[0] == r.path() && rule.APIGroups[0] == r.group && slices.Equal(rule.Verbs, r.verbs)
		}) {
			t.Errorf("no rule grants %s: %+v", r.name(), rules)
		}
	}
}

func TestCheckAdmission(t *testing.T) {
	client := fake.NewClientset()
	var answer error
	client.PrependReactor("patch", "pods", func(action kubetesting.Action) (bool, runtime.Object, error) {
		if dry := action.(kubetesting.PatchActionImpl).PatchOptions.DryRun; !slices.Equal(dry, []string{metav1.DryRunAll}) {
			t.Errorf("a pod is made, not tried: %v", dry)
		}
		return true, &corev1.Pod{}, answer
	})
	c := &Cluster{Client: client, Namespace: "bench"}
	if err := c.CheckAdmission(t.Context(), example); err != nil {
		t.Errorf("admitted: %v", err)
	}
	answer = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New(`violates PodSecurity "baseline:latest": host namespaces (hostPID=true)`))
	err := c.CheckAdmission(t.Context(), example)
	if !errors.As(err, new(*Refused)) || !strings.Contains(err.Error(), "Pod Security level baseline") || strings.Contains(err.Error(), "\n") {
		t.Errorf("refused: %v", err)
	}
}
