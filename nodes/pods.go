package nodes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// standing is the state of a node's pod.
type standing int

const (
	waiting     standing = iota // nothing runs yet
	running                     // the study runs
	kept                        // it has ended, and its results can be fetched
	failed                      // the pod has ended without results
	unanswering                 // the node does not answer: whether the pod runs is unknown
	finished                    // the pod has ended, and its results were acknowledged or nobody came
)

// standingOf reads a pod's standing, and why it is no further.
func standingOf(pod *corev1.Pod) (s standing, why string) {
	switch disrupted := condition(pod, corev1.DisruptionTarget); {
	case pod.Status.Phase == corev1.PodFailed:
		return failed, failure(pod)
	case pod.Status.Phase == corev1.PodSucceeded:
		return finished, ""
	case pod.DeletionTimestamp != nil && disrupted != nil && disrupted.Reason == "DeletionByTaintManager":
		return unanswering, "the node does not answer"
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		switch {
		case c.Name == measurer && c.State.Running != nil:
			return running, ""
		case c.Name == keeper && c.State.Running != nil:
			return kept, ""
		}
	}
	return waiting, pending(pod)
}

// pending says why a pod does not run yet; empty where nobody says that.
func pending(pod *corev1.Pod) (why string) {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Message != "" {
			why = w.Reason + ": " + lastLine(w.Message)
		}
	}
	if scheduled := condition(pod, corev1.PodScheduled); scheduled != nil && scheduled.Status == corev1.ConditionFalse {
		why = "not scheduled: " + scheduled.Message
	}
	return why
}

// disruptions say why the cluster ended a pod.
var disruptions = map[string]string{
	"EvictionByEvictionAPI":  "the node was drained",
	"PreemptionByScheduler":  "a pod of a higher priority took its place",
	"DeletionByTaintManager": "the node did not answer, or was tainted",
	"DeletionByPodGC":        "the node is gone",
	"TerminationByKubelet":   "the node ended it",
}

// endings are reasons of a container's end that its own last words do not tell.
var endings = map[string]string{
	"OOMKilled": "memory ran out, the node's or under a limit of its namespace",
	"Unknown":   "the node or its container runtime was restarted",
}

// failure says why a pod has ended without results.
func failure(pod *corev1.Pod) string {
	var words []string
	if d := condition(pod, corev1.DisruptionTarget); d != nil {
		if text := disruptions[d.Reason]; text != "" {
			words = append(words, text)
		}
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		ended := c.State.Terminated
		if ended == nil || ended.ExitCode == 0 {
			continue
		}
		said := lastLine(ended.Message)
		switch ending := endings[ended.Reason]; {
		case ending != "":
			said = ending
		case strings.Contains(said, "exec format error"):
			said = "the image is made for another architecture"
		case said == "":
			said = fmt.Sprintf("%s, exit code %d", ended.Reason, ended.ExitCode)
		}
		words = append(words, said)
		break
	}
	if len(words) == 0 && pod.Status.Message != "" {
		words = append(words, pod.Status.Message)
	}
	if len(words) == 0 {
		return "its pod ended without a reason: kubectl describe pod " + pod.Name
	}
	return strings.Join(words, ": ")
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i, c := range pod.Status.Conditions {
		if c.Type == kind && (c.Status == corev1.ConditionTrue || kind == corev1.PodScheduled) {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
