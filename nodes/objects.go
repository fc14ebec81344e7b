package nodes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"tare/platform"
	"tare/platform/k8s"
)

// manager is the field manager of server-side apply.
const manager = "kubectl-tare"

// Labels of all objects.
const (
	nameLabel    = "app.kubernetes.io/name"
	studyLabel   = "app.kubernetes.io/instance"
	managerLabel = "app.kubernetes.io/managed-by"
	indexLabel   = "tare/node-index" // in Study.Nodes: a node's name can be too long for a label
)

// Toleration is the key of taints that the pods tolerate, with any effect: it keeps others off.
const Toleration = "tare"

// FilesVariable names the variable of what measures on a node that has Study.Files, as JSON.
const FilesVariable = "TARE_FILES"

const (
	filesKey  = "files"   // of the ConfigMap
	mostFiles = 100 << 10 // a variable has 128 KiB at most (MAX_ARG_STRLEN, execve(2))
)

const (
	program      = "/kubectl-tare" // in the image
	measurer     = "measure"       // the container that measures, and ends
	keeper       = "keep"          // the one that keeps the results until they are acknowledged
	retries      = 1
	unreachable  = 10 * time.Minute // a partition that is shorter costs nothing
	ending       = time.Minute      // for tare to remove what it made on the node
	deletingJob  = time.Minute
	lookingAgain = time.Second
)

func parentName(study string) string { return "tare-" + study }

func jobName(id string, index int) string { return parentName(id) + "-" + strconv.Itoa(index) }

func (s Study) jobName(index int) string { return jobName(s.ID, index) }

func leaseName(node string) string { return "tare-" + node }

func commonLabels(id string) map[string]string {
	return map[string]string{nameLabel: "tare", studyLabel: id, managerLabel: manager}
}

func (s Study) labels() map[string]string { return commonLabels(s.ID) }

// labelsOf are those of one node's Job and of its pod.
func labelsOf(id string, index int) map[string]string {
	all := commonLabels(id)
	all[indexLabel] = strconv.Itoa(index)
	return all
}

// NoStudy says that the cluster has no such study.
type NoStudy struct{ ID, Namespace string }

func (n *NoStudy) Error() string {
	return fmt.Sprintf("namespace %s has no study %s: kubectl get configmaps -A -l %s=%s lists them", n.Namespace, n.ID, managerLabel, manager)
}

// Create makes the parent of a study.
func (c *Cluster) Create(ctx context.Context, s Study) (Study, error) {
	args, err := json.Marshal(s.Args)
	if err != nil {
		return s, err
	}
	files, err := json.Marshal(s.Files)
	if err != nil {
		return s, err
	}
	if len(files) > mostFiles {
		return s, fmt.Errorf("the workloads' files have %d bytes as JSON, and nodes are sent %d at most: measure fewer at once", len(files), mostFiles)
	}
	services, err := json.Marshal(s.Services)
	if err != nil {
		return s, err
	}
	parent := corev1ac.ConfigMap(s.Parent(), c.Namespace).
		WithLabels(s.labels()).
		WithImmutable(true).
		WithData(map[string]string{
			"arguments": string(args), "selector": s.Selector, "image": s.Image, "nodes": strings.Join(s.Nodes, "\n"),
			filesKey: string(files), "services": string(services), "images": strings.Join(s.Images, "\n"),
		})
	made, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Apply(ctx, parent, applying)
	if err != nil {
		return s, fmt.Errorf("make the study's object: %w", err)
	}
	s.parent = made.UID
	return s, nil
}

var applying = metav1.ApplyOptions{FieldManager: manager}

// Load reads a study from its parent. The error may be a *NoStudy.
func (c *Cluster) Load(ctx context.Context, id string) (Study, error) {
	parent, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, parentName(id), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Study{}, &NoStudy{id, c.Namespace}
	}
	if err != nil {
		return Study{}, fmt.Errorf("read the study's object: %w", err)
	}
	return studyOf(parent)
}

func studyOf(parent *corev1.ConfigMap) (Study, error) {
	s := Study{
		ID: parent.Labels[studyLabel], Selector: parent.Data["selector"], Image: parent.Data["image"],
		Nodes: strings.Split(parent.Data["nodes"], "\n"), parent: parent.UID,
	}
	if images := parent.Data["images"]; images != "" {
		s.Images = strings.Split(images, "\n")
	}
	var err error
	for key, to := range map[string]any{"arguments": &s.Args, filesKey: &s.Files, "services": &s.Services} {
		err = cmp.Or(err, json.Unmarshal([]byte(cmp.Or(parent.Data[key], "null")), to))
	}
	if err == nil && parent.Name != s.Parent() {
		err = errors.New("its label and its name differ")
	}
	if err != nil {
		return s, fmt.Errorf("ConfigMap %s is not a study's: %w", parent.Name, err)
	}
	return s, nil
}

// Unfinished finds the newest study of the same command line that the cluster still has. found is
// false where there is none.
func (c *Cluster) Unfinished(ctx context.Context, wanted Study) (s Study, found bool, err error) {
	list, err := c.Client.CoreV1().ConfigMaps(c.Namespace).
		List(ctx, metav1.ListOptions{LabelSelector: managerLabel + "=" + manager})
	if err != nil {
		return s, false, fmt.Errorf("look for the same study: %w", err)
	}
	for _, parent := range list.Items {
		other, err := studyOf(&parent)
		same := err == nil && parent.DeletionTimestamp.IsZero() && slices.Equal(other.Args, wanted.Args) &&
			other.Selector == wanted.Selector && other.Image == wanted.Image && maps.Equal(other.Files, wanted.Files)
		if same && other.ID > s.ID {
			s, found = other, true
		}
	}
	return s, found, nil
}

// Delete deletes a study's parent, and with it everything of it.
func (c *Cluster) Delete(ctx context.Context, s Study) error {
	background := metav1.DeletePropagationBackground
	err := c.Client.CoreV1().ConfigMaps(c.Namespace).
		Delete(ctx, s.Parent(), metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the study's object: %w", err)
	}
	return nil
}

// owned says to the API server that an object goes when the study does.
func (s Study) owned() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: s.Parent(), UID: s.parent}
}

// acquire makes the node's Lease for a study, and gives who holds it. It is made, not applied: an object
// that is there already means that another study has the node. A lease is renewed by nobody: it is the
// study's until its node's results are there, or its parent is deleted, however long nobody looks after it.
func (c *Cluster) acquire(ctx context.Context, s Study, node string) (holder string, err error) {
	if holder, err = c.tryAcquire(ctx, s, node); err != nil || holder == s.ID {
		return holder, err
	}
	// The lease of a study that was deleted stays until it is collected.
	_, err = c.Client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, parentName(holder), metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return holder, err
	}
	if err := c.release(ctx, Study{ID: holder}, node); err != nil {
		return "", err
	}
	return c.tryAcquire(ctx, s, node)
}

func (c *Cluster) tryAcquire(ctx context.Context, s Study, node string) (holder string, err error) {
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: leaseName(node), Labels: s.labels(), OwnerReferences: []metav1.OwnerReference{s.owned()},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &s.ID, AcquireTime: &now},
	}
	leases := c.Client.CoordinationV1().Leases(c.Namespace)
	_, err = leases.Create(ctx, lease, metav1.CreateOptions{FieldManager: manager})
	if !apierrors.IsAlreadyExists(err) {
		return s.ID, err
	}
	there, err := leases.Get(ctx, lease.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if there.Spec.HolderIdentity == nil {
		return "", fmt.Errorf("lease %s has no holder", lease.Name)
	}
	return *there.Spec.HolderIdentity, nil
}

// release gives a node back, if the study has it still.
func (c *Cluster) release(ctx context.Context, s Study, node string) error {
	leases := c.Client.CoordinationV1().Leases(c.Namespace)
	there, err := leases.Get(ctx, leaseName(node), metav1.GetOptions{})
	if err == nil && (there.Spec.HolderIdentity == nil || *there.Spec.HolderIdentity != s.ID) {
		return nil // another study's by now
	}
	if err == nil {
		unchanged := metav1.NewUIDPreconditions(string(there.UID))
		err = leases.Delete(ctx, there.Name, metav1.DeleteOptions{Preconditions: unchanged})
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// start has a node measure, unless it does. cause says why it cannot.
func (c *Cluster) start(ctx context.Context, s Study, index int, node Node) (cause string, err error) {
	if s.Services.Pods[platform.NetworkNodePort] > 0 && node.Address == "" {
		return "it has no internal IPv4 address, at which its NodePorts are reached", nil
	}
	holder, err := c.acquire(ctx, s, node.Name)
	if err != nil {
		return "", fmt.Errorf("take node %s: %w", node.Name, err)
	}
	if holder != s.ID {
		return fmt.Sprintf("study %s has it: wait for it, or kubectl delete -n %s configmap %s", holder, c.Namespace, parentName(holder)), nil
	}
	there, err := c.clear(ctx, s.jobName(index))
	if errors.Is(err, errNotDeleted) {
		return err.Error(), nil
	}
	if err != nil || there {
		return "", err
	}
	services, cause, err := c.serve(ctx, s, index, node)
	if cause != "" || err != nil {
		return cause, err
	}
	job, err := s.job(c.Namespace, index, services)
	if err != nil {
		return "", err
	}
	if _, err = c.Client.BatchV1().Jobs(c.Namespace).Apply(ctx, job, applying); err != nil {
		err = fmt.Errorf("make the Job of node %s: %w", node.Name, err)
	}
	return "", err
}

// errNotDeleted is the cause where a Job stays: the pod of a node that does not answer is not deleted.
var errNotDeleted = fmt.Errorf("its earlier Job is not deleted within %v: wait until the node answers", deletingJob)

// clear deletes a Job that has ended, and waits until it is gone, and its pods, which could be taken
// for those of the next. there reports one that goes on.
func (c *Cluster) clear(ctx context.Context, name string) (there bool, err error) {
	jobs, withPods := c.Client.BatchV1().Jobs(c.Namespace), metav1.DeletePropagationForeground
	for deadline := time.Now().Add(deletingJob); ; {
		job, err := jobs.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read Job %s: %w", name, err)
		}
		if job.DeletionTimestamp.IsZero() && !hasEnded(job) {
			return true, nil
		}
		if time.Now().After(deadline) {
			return false, errNotDeleted
		}
		if job.DeletionTimestamp.IsZero() {
			err := jobs.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &withPods})
			if err != nil && !apierrors.IsNotFound(err) {
				return false, fmt.Errorf("delete Job %s: %w", name, err)
			}
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(lookingAgain):
		}
	}
}

func hasEnded(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}

// job is the Job of one node. A pod that fails is replaced once, when it has ended: the second goes
// on with what the first kept on the node.
func (s Study) job(namespace string, index int, services []k8s.Service) (*batchv1ac.JobApplyConfiguration, error) {
	labels := labelsOf(s.ID, index)
	args, err := serviceArgs(services)
	return batchv1ac.Job(s.jobName(index), namespace).
		WithLabels(labels).
		WithOwnerReferences(s.ownerReference()).
		WithSpec(batchv1ac.JobSpec().
			WithBackoffLimit(retries).
			WithPodReplacementPolicy(batchv1.Failed).
			WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).WithSpec(s.pod(index, args...)))), err
}

// ownerReference is owned, for server-side apply.
func (s Study) ownerReference() *metav1ac.OwnerReferenceApplyConfiguration {
	owner := s.owned()
	return metav1ac.OwnerReference().
		WithAPIVersion(owner.APIVersion).WithKind(owner.Kind).WithName(owner.Name).WithUID(owner.UID)
}

// pod is the pod of one node: a container that measures, and then one that keeps the results. That
// the first has ended is what the API server reports: nothing has to ask the node meanwhile.
func (s Study) pod(index int, args ...string) *corev1ac.PodSpecApplyConfiguration {
	node := s.Nodes[index]
	part := func(command string) []string {
		return []string{"node", command, "--study", s.ID, "--node", node}
	}
	container := func(name string, args []string) *corev1ac.ContainerApplyConfiguration {
		return container(name, s.Image, args).WithEnv(corev1ac.EnvVar().WithName("TARE_HOME").WithValue(StateDir))
	}
	run := slices.Concat(part("run"), s.withFiles(), literal(args), []string{"--"}, literal(s.Args))
	measuring := container(measurer, run).WithSecurityContext(measuring(Capabilities))
	tolerations := []*corev1ac.TolerationApplyConfiguration{
		corev1ac.Toleration().WithKey(Toleration).WithOperator(corev1.TolerationOpExists),
	}
	for _, key := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
		tolerations = append(tolerations, corev1ac.Toleration().WithKey(key).WithOperator(corev1.TolerationOpExists).
			WithEffect(corev1.TaintEffectNoExecute).WithTolerationSeconds(int64(unreachable.Seconds())))
	}
	if len(s.Files) > 0 { // a volume would be left behind with the pod's mount namespace
		from := corev1ac.ConfigMapKeySelector().WithName(s.Parent()).WithKey(filesKey)
		measuring.WithEnv(corev1ac.EnvVar().WithName(FilesVariable).
			WithValueFrom(corev1ac.EnvVarSource().WithConfigMapKeyRef(from)))
	}
	pulling, shared := s.pulling()
	return podOn(node).
		WithHostNetwork(true).
		WithTolerations(tolerations...).
		WithInitContainers(pulling...).
		WithInitContainers(measuring).
		WithVolumes(shared...).
		WithContainers(container(keeper, part("keep")).
			WithSecurityContext(keeping()).
			WithVolumeMounts(corev1ac.VolumeMount().WithName("state").WithMountPath(StateDir))).
		WithVolumes(corev1ac.Volume().WithName("state").WithHostPath(corev1ac.HostPathVolumeSource().
			WithPath(StateDir).WithType(corev1.HostPathDirectoryOrCreate)))
}

// withFiles has an older program refuse what it would look for on the node.
func (s Study) withFiles() []string {
	if len(s.Files) == 0 {
		return nil
	}
	return []string{"--files"}
}

// pulling are containers that have the kubelet pull the images of a study, with the namespace's own secrets. Each runs
// this program, which ends at once: an image may have none of its own that does.
func (s Study) pulling() (all []*corev1ac.ContainerApplyConfiguration, shared []*corev1ac.VolumeApplyConfiguration) {
	if len(s.Images) == 0 {
		return nil, nil
	}
	const volume, at = "program", "/tare"
	add := func(c *corev1ac.ContainerApplyConfiguration, isWritten bool) {
		all = append(all, c.WithSecurityContext(keeping()).
			WithVolumeMounts(corev1ac.VolumeMount().WithName(volume).WithMountPath(at).WithReadOnly(!isWritten)))
	}
	add(container("program", s.Image, []string{"node", "copy", at + program}), true)
	for i, image := range s.Images {
		pulled := container("image-"+strconv.Itoa(i), image, []string{"node", "pulled"})
		pulled.Command = []string{at + program}
		add(pulled, false)
	}
	return all, append(shared, corev1ac.Volume().WithName(volume).WithEmptyDir(corev1ac.EmptyDirVolumeSource()))
}

// podOn is what all pods have in common: one runs on a node, once, in the node's process namespace.
func podOn(node string) *corev1ac.PodSpecApplyConfiguration {
	here := corev1ac.NodeSelectorRequirement().
		WithKey(metav1.ObjectNameField).WithOperator(corev1.NodeSelectorOpIn).WithValues(node)
	return corev1ac.PodSpec().
		WithRestartPolicy(corev1.RestartPolicyNever).
		WithHostPID(true).
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithTerminationGracePeriodSeconds(int64(ending.Seconds())).
		// By its name, as a DaemonSet does: the label of a host name need not be unique.
		WithAffinity(corev1ac.Affinity().WithNodeAffinity(corev1ac.NodeAffinity().
			WithRequiredDuringSchedulingIgnoredDuringExecution(corev1ac.NodeSelector().
				WithNodeSelectorTerms(corev1ac.NodeSelectorTerm().WithMatchFields(here)))))
}

// container runs the image's program. Where it fails, the API server reports its last lines.
func container(name, image string, args []string) *corev1ac.ContainerApplyConfiguration {
	return corev1ac.Container().WithName(name).WithImage(image).WithImagePullPolicy(corev1.PullIfNotPresent).
		WithCommand(program).WithArgs(args...).
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError)
}

// literal keeps the kubelet from replacing $(NAME) in arguments.
func literal(args []string) []string {
	escaped := make([]string, len(args))
	for i, arg := range args {
		escaped[i] = strings.ReplaceAll(arg, "$", "$$")
	}
	return escaped
}
