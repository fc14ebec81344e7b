package nodes

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"tare/record"
)

// bench is a study on a cluster whose nodes do what a test says.
type bench struct {
	t       *testing.T
	cluster *Cluster
	study   Study
	store   *record.Store // of who started the study
	there   *record.Store // of all nodes
	nodes   []Node
	pods    int
	ahead   time.Duration // clocks of the nodes
	refuse  error         // what exec fails by
	hangs   string        // the node whose exec of a command does not end: "a acknowledge"
	events  []Event
}

func newBench(t *testing.T, names ...string) *bench {
	t.Helper()
	b := &bench{t: t, study: Study{ID: "weigh-20260102-150405-7f3a", Args: []string{"weigh", "redis"}, Selector: "pool=bench", Image: "tare@sha256:00", Nodes: names}}
	for _, name := range names {
		b.nodes = append(b.nodes, Node{Name: name, OS: "linux", Arch: "amd64"})
	}
	b.store, b.there = open(t), open(t)
	b.cluster = &Cluster{Client: fake.NewClientset(), Namespace: "bench", Exec: b.exec}
	var err error
	if b.study, err = b.cluster.Create(t.Context(), b.study); err != nil {
		t.Fatal(err)
	}
	return b
}

func open(t *testing.T) *record.Store {
	t.Helper()
	store, err := record.Open(filepath.Join(t.TempDir(), "tare.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// exec answers as the container does that keeps the results.
func (b *bench) exec(ctx context.Context, _, container string, command []string, out io.Writer) error {
	if b.refuse != nil {
		return b.refuse
	}
	of := record.Part{Study: command[slices.Index(command, "--study")+1], Node: command[slices.Index(command, "--node")+1]}
	switch {
	case b.hangs == of.Node+" "+command[2]:
		<-ctx.Done()
		return ctx.Err()
	case container != keeper:
		return errors.New("exec into " + container)
	case command[2] == "acknowledge":
		return Acknowledge(b.there, of)
	}
	var text bytes.Buffer
	if err := Export(ctx, b.there, of, &text); err != nil {
		return err
	}
	line, rest, _ := bytes.Cut(text.Bytes(), []byte("\n"))
	clock, err := time.Parse(time.RFC3339Nano, string(line))
	if err != nil {
		return err
	}
	_, err = out.Write(append([]byte(clock.Add(b.ahead).Format(time.RFC3339Nano)+"\n"), rest...))
	return err
}

// measured is a run that a node has made.
func (b *bench) measured(node string) {
	b.t.Helper()
	part := b.study.Part(node)
	run := record.Run{
		ID: part.ID(), Study: "weigh", Started: time.Now(), Status: record.Complete, Plan: record.Plan{Part: &part},
		Conditions: []record.Condition{{ID: "redis@bare", Workload: "redis", Platform: "bare"}},
	}
	if err := b.there.Begin(run); err != nil {
		b.t.Fatal(err)
	}
	trial := record.Trial{
		Condition: "redis@bare", Block: 1, Attempt: 1, Started: time.Now(),
		Samples:     []record.Sample{{Metric: "get", Value: 70_000}},
		Attachments: []record.Attachment{{Name: "cpu.pprof", MediaType: "application/octet-stream", Data: []byte("profile")}},
	}
	if _, err := b.there.AddTrial(run.ID, trial); err != nil {
		b.t.Fatal(err)
	}
}

// pod makes a node's next pod, or changes the one of that name.
func (b *bench) pod(name, node string, change func(*corev1.Pod)) {
	b.t.Helper()
	pods := b.cluster.Client.CoreV1().Pods("bench")
	labels := b.study.labels()
	labels[indexLabel] = string(rune('0' + slices.Index(b.study.Nodes, node)))
	pod, err := pods.Get(b.t.Context(), name, metav1.GetOptions{})
	isNew := err != nil
	if isNew {
		b.pods++
		pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "bench", UID: types.UID(name), Labels: labels,
			CreationTimestamp: metav1.NewTime(time.Unix(int64(b.pods), 0)),
		}}
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	change(pod)
	if isNew {
		_, err = pods.Create(b.t.Context(), pod, metav1.CreateOptions{})
	} else {
		_, err = pods.Update(b.t.Context(), pod, metav1.UpdateOptions{})
	}
	if err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait()
}

func measures(pod *corev1.Pod) {
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: measurer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

func isKept(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: keeper, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

func failsBy(message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodFailed
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: measurer, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: message},
		}}}
	}
}

// follow follows the study while do changes the cluster.
func (b *bench) follow(do func()) (Outcome, error) {
	b.t.Helper()
	ctx, cancel := context.WithCancelCause(b.t.Context())
	defer cancel(nil)
	var outcome Outcome
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		outcome, err = b.cluster.Follow(ctx, b.study, b.nodes, b.store, func(e Event) { b.events = append(b.events, e) })
	}()
	synctest.Wait()
	do()
	<-ended
	synctest.Wait()
	return outcome, err
}

func (b *bench) said(words string) bool {
	return slices.ContainsFunc(b.events, func(e Event) bool { return strings.Contains(e.Text, words) })
}

func (b *bench) wantMissing(o Outcome, node, cause string) {
	b.t.Helper()
	if !slices.ContainsFunc(o.Missing, func(m Absence) bool { return m.Node == node && strings.Contains(m.Cause, cause) }) {
		b.t.Errorf("missing %+v, want %s by %q", o.Missing, node, cause)
	}
}

// Runs come home as the nodes end, are acknowledged, and are joined by the study's id.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "a", "b")
		b.ahead = 5 * time.Second
		outcome, err := b.follow(func() {
			for _, node := range b.study.Nodes {
				b.pod("pod-"+node, node, measures)
				b.measured(node)
				b.pod("pod-"+node, node, isKept)
			}
		})
		if err != nil || !slices.Equal(outcome.Fetched, b.study.Nodes) || len(outcome.Missing) > 0 {
			t.Fatalf("%+v, %v", outcome, err)
		}
		run, err := b.store.Run(b.study.Part("b").ID())
		if err != nil {
			t.Fatal(err)
		}
		if run.Status != record.Complete || *run.Plan.Part != b.study.Part("b") || len(run.Trials) != 1 || run.Trials[0].Samples[0].Value != 70_000 {
			t.Errorf("fetched %+v", run)
		}
		if a, err := b.store.Attachment(run.Trials[0].ID, "cpu.pprof"); err != nil || string(a.Data) != "profile" {
			t.Errorf("its attachment: %q, %v", a.Data, err)
		}
		if left, err := b.there.Runs(); err != nil || len(left) > 0 {
			t.Errorf("the nodes keep %v, %v: not acknowledged", left, err)
		}
		if leases, err := b.cluster.Client.CoordinationV1().Leases("bench").List(t.Context(), metav1.ListOptions{}); err != nil || len(leases.Items) > 0 {
			t.Errorf("leases are left: %v, %v", leases, err)
		}
		if !b.said("5s ahead") {
			t.Errorf("clocks that differ were not reported: %v", b.events)
		}
	})
}

// A pod that fails is replaced once, and the cause of the second failure is given.
func TestANodeThatFailsIsTriedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "a", "b")
		outcome, err := b.follow(func() {
			b.pod("a-1", "a", failsBy("starting\ntare: the engine went away"))
			b.measured("a")
			b.pod("a-2", "a", isKept)
			b.pod("b-1", "b", failsBy("tare: no runc"))
			b.pod("b-2", "b", measures)
			b.pod("b-1", "b", failsBy("tare: no runc"))
			b.pod("b-2", "b", failsBy("tare: still no runc\n"))
		})
		if err != nil || !slices.Equal(outcome.Fetched, []string{"a"}) {
			t.Errorf("%+v, %v", outcome, err)
		}
		b.wantMissing(outcome, "b", "tare: still no runc")
		if !b.said("the engine went away") {
			t.Errorf("the first failure was not reported: %v", b.events)
		}
	})
}

func TestMissingNodes(t *testing.T) {
	for _, c := range []struct {
		name, cause string
		do          func(b *bench)
	}{
		{"never scheduled", "not scheduled: 0/3 nodes are available", func(b *bench) {
			b.pod("a-1", "a", func(pod *corev1.Pod) {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"}}
			})
		}},
		{"no image", "ErrImagePull: not found", func(b *bench) {
			b.pod("a-1", "a", func(pod *corev1.Pod) {
				pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: measurer, State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}}}
			})
		}},
		{"drained", "the node was drained; then not scheduled: unschedulable", func(b *bench) {
			b.pod("a-1", "a", measures)
			b.pod("a-1", "a", func(pod *corev1.Pod) {
				failsBy("")(pod)
				pod.Status.InitContainerStatuses = nil
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"}}
			})
			b.pod("a-2", "a", func(pod *corev1.Pod) {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "unschedulable"}}
			})
		}},
		{"partitioned", "the node does not answer", func(b *bench) {
			b.pod("a-1", "a", measures)
			b.pod("a-1", "a", func(pod *corev1.Pod) {
				measures(pod)
				pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager"}}
			})
		}},
		{"no pod", "no pod was made for its Job", func(*bench) {}},
		{"another architecture", "another architecture", func(b *bench) {
			b.pod("a-1", "a", failsBy("exec /kubectl-tare: exec format error"))
			b.pod("a-2", "a", failsBy("exec /kubectl-tare: exec format error"))
		}},
		{"no exec", "no route; the results are kept there", func(b *bench) {
			b.refuse = errors.New("no route")
			b.pod("a-1", "a", isKept)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, "a")
				outcome, err := b.follow(func() { c.do(b) })
				if err != nil || len(outcome.Fetched) > 0 {
					t.Errorf("%+v, %v", outcome, err)
				}
				b.wantMissing(outcome, "a", c.cause)
			})
		})
	}
}

// What cannot run the image, or is another study's, is not begun.
func TestNodesThatAreNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "a", "b", "gone")
		b.nodes = b.nodes[:2]
		b.nodes[0].Arch = "s390x"
		other := b.study
		other.ID = "weigh-20260101-000000-0000"
		other, err := b.cluster.Create(t.Context(), other)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.cluster.acquire(t.Context(), other, "b"); err != nil {
			t.Fatal(err)
		}
		outcome, err := b.follow(func() {})
		if err != nil {
			t.Fatal(err)
		}
		b.wantMissing(outcome, "a", "linux/s390x")
		b.wantMissing(outcome, "b", "study "+other.ID+" has it")
		b.wantMissing(outcome, "gone", "no such node")
		if jobs, err := b.cluster.Client.BatchV1().Jobs("bench").List(t.Context(), metav1.ListOptions{}); err != nil || len(jobs.Items) > 0 {
			t.Errorf("%v, %v: no Job is wanted", jobs, err)
		}
	})
}

// Who follows a study may end, and another goes on: what is there is not fetched again, a Job that
// goes on is left alone, and one that has ended is made again.
func TestFollowGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "a", "b", "c")
		ctx, cancel := context.WithCancelCause(t.Context())
		left := errors.New("left")
		go func() { b.pod("pod-a", "a", measures); b.measured("a"); b.pod("pod-a", "a", isKept); cancel(left) }()
		if _, err := b.cluster.Follow(ctx, b.study, b.nodes, b.store, func(Event) {}); !errors.Is(err, left) {
			t.Fatalf("%v, want %v", err, left)
		}
		synctest.Wait()
		jobs := b.cluster.Client.BatchV1().Jobs("bench")
		ended, err := jobs.Get(t.Context(), b.study.jobName(2), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ended.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
		if _, err := jobs.UpdateStatus(t.Context(), ended, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		loaded, found, err := b.cluster.Unfinished(t.Context(), b.study)
		if err != nil || !found || loaded.ID != b.study.ID {
			t.Fatalf("the same command finds %+v, %t, %v", loaded, found, err)
		}
		b.study = loaded
		outcome, err := b.follow(func() {
			for _, node := range []string{"b", "c"} {
				b.measured(node)
				b.pod("pod-"+node, node, isKept)
			}
		})
		if err != nil || len(outcome.Fetched) != 3 {
			t.Errorf("%+v, %v", outcome, err)
		}
		again, err := jobs.Get(t.Context(), b.study.jobName(2), metav1.GetOptions{})
		if err != nil || hasEnded(again) {
			t.Errorf("the Job that had ended: %+v, %v", again, err)
		}
		if err := b.cluster.Delete(t.Context(), b.study); err != nil {
			t.Error(err)
		}
		if _, err := b.cluster.Load(t.Context(), b.study.ID); !errors.As(err, new(*NoStudy)) {
			t.Errorf("deleted: %v", err)
		}
	})
}

// A study that somebody deletes is not waited for.
func TestFollowADeletedStudy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "a")
		_, err := b.follow(func() {
			b.pod("a-1", "a", measures)
			if err := b.cluster.Delete(t.Context(), b.study); err != nil {
				t.Error(err)
			}
			if err := b.cluster.Client.CoreV1().Pods("bench").Delete(t.Context(), "a-1", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
		if !errors.As(err, new(*Deleted)) {
			t.Errorf("%v", err)
		}
	})
}

// A node that hangs while it is told that its run was fetched holds up no other.
func TestAnAcknowledgementThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "a", "b")
		b.hangs = "a acknowledge"
		outcome, err := b.follow(func() {
			began := time.Now()
			for _, node := range b.study.Nodes {
				b.measured(node)
				b.pod("pod-"+node, node, isKept)
			}
			if !b.said("fetched") || time.Since(began) > 0 {
				t.Errorf("after %v: %v", time.Since(began), b.events)
			}
			if status, err := b.store.StatusOf(b.study.Part("b").ID()); err != nil || status != record.Complete {
				t.Errorf("b's run: %s, %v", status, err)
			}
		})
		if err != nil || len(outcome.Fetched) != 2 {
			t.Errorf("%+v, %v", outcome, err)
		}
		if !b.said("the acknowledgement failed") {
			t.Errorf("it was not said: %v", b.events)
		}
	})
}

// What became of a pod while a fetch failed is not forgotten over that.
func TestAFetchThatFailsBecauseItsNodeWent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "a")
		b.hangs = "a export"
		outcome, err := b.follow(func() {
			b.pod("a-1", "a", isKept)
			b.pod("a-1", "a", func(pod *corev1.Pod) {
				isKept(pod)
				pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager"}}
			})
		})
		if err != nil {
			t.Error(err)
		}
		b.wantMissing(outcome, "a", "the node does not answer")
	})
}

// A node is given back by the study that has it, and by no other.
func TestReleaseSparesOthers(t *testing.T) {
	b := newBench(t, "a")
	other := b.study
	other.ID = "weigh-20260101-000000-0000"
	other, err := b.cluster.Create(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.cluster.acquire(t.Context(), other, "a"); err != nil {
		t.Fatal(err)
	}
	if err := b.cluster.release(t.Context(), b.study, "a"); err != nil {
		t.Error(err)
	}
	if holder, err := b.cluster.acquire(t.Context(), b.study, "a"); err != nil || holder != other.ID {
		t.Errorf("%s has the node, %v; want %s", holder, err, other.ID)
	}
	// A deleted study has no node, whether its lease was collected or not.
	if err := b.cluster.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if holder, err := b.cluster.acquire(t.Context(), b.study, "a"); err != nil || holder != b.study.ID {
		t.Errorf("%s has the node of a deleted study, %v", holder, err)
	}
}

// A container that was ended from outside has that for a cause, in place of its last words.
func TestFailureFromOutside(t *testing.T) {
	for reason, want := range map[string]string{"Unknown": "was restarted", "OOMKilled": "memory ran out", "Error": "copying the root"} {
		var pod corev1.Pod
		failsBy("copying the root")(&pod)
		pod.Status.InitContainerStatuses[0].State.Terminated.Reason = reason
		if got := failure(&pod); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
}
