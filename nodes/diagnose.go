package nodes

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

const (
	// diagnosisStarts is for how long the pod of a node may not start before the node counts as missing.
	diagnosisStarts = 2 * time.Minute
	// loading is the time for programs of the kernel to be loaded, and for results to be computed, on a busy node.
	loading = 2 * time.Minute
	// jobKept is for how long a Job stays that has ended and that nobody deletes.
	jobKept = 5 * time.Minute
	// longestPause is that before a log is read for the last time; the first is of a second.
	longestPause = 4 * time.Second
	// logLimit is for how long reading a log may take, and deleting the Jobs.
	logLimit = time.Minute
)

// Diagnosis is one look at containers of pods, each on its node. It owns a Job a node, which ends and goes by itself
// where who made it does not delete it.
type Diagnosis struct {
	ID    string // of the form of record.NewID
	Image string // of its pods
	Pods  Pods
	Span  time.Duration // for which each node watches
	// IsNamed has all containers watched, and not only those that are busy.
	IsNamed bool
}

// Answer is what a node wrote, a document in JSON, or why it wrote none.
type Answer struct {
	Node    string
	Text    []byte
	Missing string
}

// CheckDiagnosis refuses, before anything is made, a user who lacks a right, and a namespace that does not admit the
// pods. The error may be a *NotAllowed or a *Refused.
func (c *Cluster) CheckDiagnosis(ctx context.Context, w Wanted, image string) error {
	rights := toDiagnose(w)
	err := c.check(ctx, rights)
	if lacking := new(NotAllowed); errors.As(err, &lacking) {
		if lacking.Roles, err = roles("tare-diagnose", c.Namespace, rights); err == nil {
			err = lacking
		}
	}
	if err != nil {
		return err
	}
	d := Diagnosis{ID: "diagnose-check", Image: image}
	pod := corev1ac.Pod(parentName(d.ID), c.Namespace).WithLabels(commonLabels(d.ID)).WithSpec(d.pod("none"))
	return c.admits(ctx, pod, "--job-namespace")
}

func (d Diagnosis) pod(node string) *corev1ac.PodSpecApplyConfiguration {
	args := []string{"node", "diagnose", "--for", d.Span.String()}
	if d.IsNamed {
		args = append(args, "--named")
	}
	args = append(append(args, "--"), d.Pods.running[node]...)
	return podOn(node).
		// Taints keep pods off a node. This one looks at those that are there all the same.
		WithTolerations(corev1ac.Toleration().WithOperator(corev1.TolerationOpExists)).
		WithContainers(container(measurer, d.Image, literal(args)).WithSecurityContext(measuring(Diagnosing)))
}

func (d Diagnosis) job(namespace string, index int, node string) *batchv1ac.JobApplyConfiguration {
	return batchv1ac.Job(jobName(d.ID, index), namespace).
		WithLabels(labelsOf(d.ID, index)).
		WithSpec(batchv1ac.JobSpec().
			WithBackoffLimit(0).
			WithActiveDeadlineSeconds(int64(d.limit().Seconds())).
			WithTTLSecondsAfterFinished(int32(jobKept.Seconds())).
			WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labelsOf(d.ID, index)).WithSpec(d.pod(node))))
}

// limit is the time within which all nodes have answered.
func (d Diagnosis) limit() time.Duration { return diagnosisStarts + d.Span + loading }

// Diagnose has each node diagnose the containers of its pods, and gives the nodes' answers by name of the node. It
// deletes the Jobs, whatever the error. An error beside answers says that some could not be deleted.
func (c *Cluster) Diagnose(ctx context.Context, d Diagnosis) (answers []Answer, err error) {
	names := d.Pods.Nodes()
	defer func() { err = cmp.Or(err, c.deleteJobs(context.WithoutCancel(ctx), d.ID, len(names))) }()
	for i, node := range names {
		_, err := c.Client.BatchV1().Jobs(c.Namespace).Apply(ctx, d.job(c.Namespace, i, node), applying)
		if err != nil {
			return nil, fmt.Errorf("make the Job of node %s: %w", node, err)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	pods, read := make(chan seen), make(chan Answer)
	if err := c.watch(ctx, d.ID, pods); err != nil {
		return nil, err
	}
	slots := make(chan struct{}, fetchesAtOnce)
	start, end := time.NewTimer(diagnosisStarts), time.NewTimer(d.limit())
	defer start.Stop()
	defer end.Stop()
	open := make([]*awaited, len(names))
	for i := range names {
		open[i] = &awaited{cause: fmt.Sprintf("its pod did not start within %v", diagnosisStarts)}
	}
	for len(answers) < len(names) {
		answer := func(i int, a Answer) {
			if !open[i].hasAnswered {
				open[i].hasAnswered = true
				answers = append(answers, a)
			}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case s := <-pods:
			i, ok := s.index(len(names))
			if !ok || open[i].isRead {
				continue
			}
			switch at, why := standingOf(s.pod); {
			case at == finished:
				open[i].isRead = true
				reading.Go(func() {
					select {
					case slots <- struct{}{}:
						defer func() { <-slots }()
					case <-ctx.Done():
						return
					}
					select {
					case read <- c.answer(ctx, names[i], s.pod.Name):
					case <-ctx.Done():
					}
				})
			case at == failed:
				answer(i, Answer{Node: names[i], Missing: why})
			case s.isDeleted:
				answer(i, Answer{Node: names[i], Missing: "its pod was deleted"})
			case at == running:
				open[i].cause = ""
			case why != "":
				open[i].cause = why
			}
		case a := <-read:
			answer(slices.Index(names, a.Node), a)
		case <-start.C:
			for i, p := range open {
				if !p.isRead && p.cause != "" {
					answer(i, Answer{Node: names[i], Missing: p.cause})
				}
			}
		case <-end.C:
			for i := range open {
				answer(i, Answer{Node: names[i], Missing: fmt.Sprintf("it did not answer within %v", d.limit())})
			}
		}
	}
	slices.SortFunc(answers, func(a, b Answer) int { return cmp.Compare(a.Node, b.Node) })
	return answers, nil
}

// awaited is a node whose answer is awaited.
type awaited struct {
	cause               string // why its pod does not run; empty where it does
	isRead, hasAnswered bool
}

// answer reads the document from the log of a pod, again where that fails. The log may have warnings beside it.
func (c *Cluster) answer(ctx context.Context, node, pod string) Answer {
	ctx, cancel := context.WithTimeout(ctx, logLimit)
	defer cancel()
	log, err := c.Log(ctx, c.Namespace, pod, measurer)
	for wait := time.Second; err != nil && wait <= longestPause; wait *= 2 {
		select {
		case <-ctx.Done():
		case <-time.After(wait):
			log, err = c.Log(ctx, c.Namespace, pod, measurer)
		}
	}
	if err != nil {
		return Answer{Node: node, Missing: fmt.Sprintf("reading its log: %v", err)}
	}
	for line := range bytes.Lines(log) {
		if bytes.HasPrefix(line, []byte("{")) {
			return Answer{Node: node, Text: line}
		}
	}
	return Answer{Node: node, Missing: "its log has no result"}
}

// deleteJobs deletes the Jobs, and their pods with them. Where that fails, they go by themselves.
func (c *Cluster) deleteJobs(ctx context.Context, id string, count int) (err error) {
	ctx, cancel := context.WithTimeout(ctx, logLimit)
	defer cancel()
	background := metav1.DeletePropagationBackground
	for i := range count {
		deleting := c.Client.BatchV1().Jobs(c.Namespace).
			Delete(ctx, jobName(id, i), metav1.DeleteOptions{PropagationPolicy: &background})
		if deleting != nil && !apierrors.IsNotFound(deleting) {
			err = fmt.Errorf("delete the Jobs, which go by themselves: %w", deleting)
		}
	}
	return err
}
