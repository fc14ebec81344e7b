package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"tare/record"
)

const (
	// startPatience is for how long a pod may not start before its node counts as missing.
	startPatience = 5 * time.Minute
	// pullPatience is that where images are pulled first.
	pullPatience = 30 * time.Minute
	// fetchAgain is the time between two tries to fetch what a node keeps, and fetchTries their number.
	fetchAgain = 30 * time.Second
	fetchTries = 20
	fetchLimit = 10 * time.Minute
	// acknowledgeLimit is for how long a node may take to remove a run.
	acknowledgeLimit = time.Minute
	// fetchesAtOnce bounds the memory and the network that fetching takes here.
	fetchesAtOnce = 8
	// seenAgain is how often each pod is looked at without a change: nothing rests on one event.
	seenAgain = 10 * time.Minute
	// clocksApart is the difference of two clocks that is reported.
	clocksApart = time.Second
)

// Event is a change of one node, for people.
type Event struct{ Node, Text string }

// Absence is a node without a result.
type Absence struct{ Node, Cause string }

// Outcome is what came of a study.
type Outcome struct {
	Fetched []string // nodes whose runs are in the store
	Missing []Absence
}

// Deleted says that somebody deleted a study while it was followed.
type Deleted struct{ ID string }

func (d *Deleted) Error() string {
	return fmt.Sprintf("study %s was deleted from the cluster: what was fetched before is kept", d.ID)
}

// Follow has the nodes of a study measure, and fetches their runs into the store as they end. A node
// whose run the store has is passed by. It ends when each node's run was fetched or is missing; with
// the context's cause, it leaves the nodes measuring.
func (c *Cluster) Follow(
	ctx context.Context,
	s Study,
	all []Node,
	store *record.Store,
	report func(Event),
) (Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var reporting sync.Mutex
	one := func(e Event) {
		reporting.Lock()
		defer reporting.Unlock()
		report(e)
	}
	f := &follower{
		cluster: c, study: s, store: store, report: one,
		pods: make(chan seen), fetched: make(chan fetch), slots: make(chan struct{}, fetchesAtOnce),
	}
	if err := f.begin(ctx, all); err != nil {
		return f.outcome(), err
	}
	if err := c.watch(ctx, s.ID, f.pods); err != nil {
		return f.outcome(), err
	}
	err := f.follow(ctx)
	if err != nil {
		cancel()
	}
	f.requests.Wait() // they use the store
	return f.outcome(), err
}

// follower is one invocation of Follow. Its parts are changed by one goroutine.
type follower struct {
	cluster *Cluster
	study   Study
	store   *record.Store
	report  func(Event)
	parts   []*part // by the index of the node
	pods    chan seen
	fetched chan fetch
	slots   chan struct{}
	// requests are the fetches and acknowledgements on their way. A node that hangs holds up its own alone.
	requests sync.WaitGroup
}

// part is one node's part of the study.
type part struct {
	node     string
	isStored bool // its run is in the store
	missing  string
	pod      *corev1.Pod          // the newest
	failures map[types.UID]string // causes, by pod that ended without results
	// acknowledged has the pods that know that the run is in the store.
	acknowledged map[types.UID]bool
	waitingFor   string    // what has not happened yet
	deadline     time.Time // of that; zero is none
	isFetching   bool
	tries        int // to fetch
	lastReported string
}

// seen is a pod as the API server reports it.
type seen struct {
	pod       *corev1.Pod
	isDeleted bool
}

// index is that of the pod's node, of as many as there are.
func (s seen) index(count int) (index int, ok bool) {
	index, err := strconv.Atoi(s.pod.Labels[indexLabel])
	return index, err == nil && index >= 0 && index < count
}

// fetch is what came of a try to fetch.
type fetch struct {
	index int
	apart time.Duration // the node's clock is ahead by
	err   error
}

func (s Study) startPatience() time.Duration {
	if len(s.Images) > 0 {
		return pullPatience
	}
	return startPatience
}

func (f *follower) begin(ctx context.Context, all []Node) error {
	f.parts = nil
	for _, node := range f.study.Nodes {
		p := &part{node: node, failures: map[types.UID]string{}, acknowledged: map[types.UID]bool{}}
		f.parts = append(f.parts, p)
	}
	for i, p := range f.parts {
		status, err := f.store.StatusOf(f.study.Part(p.node).ID())
		if unknown := new(record.NotFound); err != nil && !errors.As(err, &unknown) {
			return err
		}
		if err == nil && status != record.Running {
			p.isStored = true
			// The follower that stored it may have ended before it gave the node back.
			if err := f.cluster.release(ctx, f.study, p.node); err != nil {
				return err
			}
			continue
		}
		at := slices.IndexFunc(all, func(n Node) bool { return n.Name == p.node })
		if at < 0 {
			f.markMissing(p, "the cluster has no such node any more")
			continue
		}
		if why := all[at].Unfit(); why != "" {
			f.markMissing(p, why)
			continue
		}
		cause, err := f.cluster.start(ctx, f.study, i, all[at])
		if err != nil {
			return err
		}
		if cause != "" {
			f.markMissing(p, cause)
			continue
		}
		p.waitingFor, p.deadline = "no pod was made for its Job", time.Now().Add(f.study.startPatience())
	}
	return nil
}

// watch reports the pods of a study, or of a diagnosis, until ctx ends.
func (c *Cluster) watch(ctx context.Context, id string, to chan<- seen) error {
	pods, ours := c.Client.CoreV1().Pods(c.Namespace), studyLabel+"="+id
	informer := cache.NewSharedInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = ours
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = ours
			return pods.Watch(ctx, o)
		},
	}, &corev1.Pod{}, seenAgain)
	send := func(object any, isDeleted bool) {
		if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = last.Obj
		}
		pod, ok := object.(*corev1.Pod)
		if !ok {
			return
		}
		select {
		case to <- seen{pod, isDeleted}:
		case <-ctx.Done():
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { send(object, false) },
		UpdateFunc: func(_, object any) { send(object, false) },
		DeleteFunc: func(object any) { send(object, true) },
	})
	if err != nil {
		return err
	}
	go informer.RunWithContext(ctx)
	return nil
}

func (f *follower) follow(ctx context.Context) error {
	for !f.settled() {
		timer := time.NewTimer(f.patience())
		var err error
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case s := <-f.pods:
			err = f.podChanged(ctx, s)
		case done := <-f.fetched:
			f.fetchEnded(ctx, done)
		case <-timer.C:
			err = f.deadlinePassed(ctx)
		}
		timer.Stop()
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) settled() bool {
	return !slices.ContainsFunc(f.parts, func(p *part) bool { return p.isFetching || !p.isStored && p.missing == "" })
}

// patience is the time until the first part has waited for too long.
func (f *follower) patience() time.Duration {
	least := time.Hour
	for _, p := range f.parts {
		if !p.deadline.IsZero() {
			least = min(least, time.Until(p.deadline))
		}
	}
	return least
}

// deadlinePassed counts parts as missing that have waited for too long, and tries again to fetch.
func (f *follower) deadlinePassed(ctx context.Context) error {
	for i, p := range f.parts {
		if p.deadline.IsZero() || time.Now().Before(p.deadline) {
			continue
		}
		p.deadline = time.Time{}
		if s, _ := f.standing(p); s == kept {
			f.fetch(ctx, i)
			continue
		}
		if err := f.deleted(ctx); err != nil {
			return err
		}
		f.markMissing(p, p.waitingFor)
	}
	return nil
}

func (f *follower) standing(p *part) (standing, string) {
	if p.pod == nil {
		return waiting, p.waitingFor
	}
	return standingOf(p.pod)
}

// podChanged takes note of a pod.
func (f *follower) podChanged(ctx context.Context, s seen) error {
	index, ok := s.index(len(f.parts))
	if !ok {
		return nil // nothing of ours
	}
	p := f.parts[index]
	at, why := standingOf(s.pod)
	if p.isStored {
		if at == kept && !s.isDeleted {
			f.acknowledge(ctx, p, s.pod)
		}
		return nil
	}
	if p.pod != nil && s.pod.UID != p.pod.UID && s.pod.CreationTimestamp.Before(&p.pod.CreationTimestamp) {
		if at == failed { // the pod of an earlier try, as a list may have it after its successor
			f.fail(p, s.pod.UID, why)
		}
		return nil
	}
	p.pod = s.pod
	if s.isDeleted {
		if err := f.deleted(ctx); err != nil {
			return err
		}
		if at != failed && at != finished {
			at, why = failed, "its pod was deleted"
		}
	}
	if at != waiting && at != failed {
		p.missing, p.deadline = "", time.Time{}
	}
	switch at {
	case waiting:
		if p.deadline.IsZero() {
			p.deadline = time.Now().Add(f.study.startPatience())
		}
		if p.waitingFor = why; p.waitingFor == "" {
			p.waitingFor = "its pod is not reported as started"
		}
		for _, before := range p.failures {
			p.waitingFor = before + "; then " + p.waitingFor
		}
	case running:
		f.reportOnce(p, "measures")
	case kept:
		f.fetch(ctx, index)
	case unanswering:
		f.markMissing(p, why+"; what it measures is kept there")
	case finished:
		f.markMissing(p, "its pod ended before its results were fetched; they are kept there")
	case failed:
		if err := f.deleted(ctx); err != nil {
			return err // it was ended for that
		}
		f.fail(p, s.pod.UID, why)
	}
	return nil
}

// fail takes note of a pod that ended without results: the Job makes another one, once.
func (f *follower) fail(p *part, pod types.UID, why string) {
	if p.failures[pod] != "" {
		return
	}
	p.failures[pod] = why
	switch {
	case len(p.failures) > retries:
		if at, newest := f.standing(p); at == failed {
			why = newest
		}
		f.markMissing(p, why)
	case pod == p.pod.UID:
		f.reportOnce(p, "failed, and is tried once more: "+why)
		p.missing, p.waitingFor, p.deadline = "", why, time.Now().Add(f.study.startPatience())
	}
}

func (f *follower) markMissing(p *part, cause string) {
	p.missing, p.deadline = cause, time.Time{}
	f.reportOnce(p, "missing: "+cause)
}

func (f *follower) reportOnce(p *part, text string) {
	if p.lastReported != text {
		p.lastReported = text
		f.report(Event{p.node, text})
	}
}

// deleted is a *Deleted where the study's parent is gone.
func (f *follower) deleted(ctx context.Context) error {
	parents := f.cluster.Client.CoreV1().ConfigMaps(f.cluster.Namespace)
	there, err := parents.Get(ctx, f.study.Parent(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !there.DeletionTimestamp.IsZero() {
		return &Deleted{f.study.ID}
	}
	return nil // a server that does not answer is asked again when the next pod changes
}

// fetch begins to fetch what a node keeps.
func (f *follower) fetch(ctx context.Context, index int) {
	p := f.parts[index]
	if p.isFetching {
		return
	}
	p.isFetching = true
	f.reportOnce(p, "has measured")
	pod, of := p.pod.Name, f.study.Part(p.node)
	f.requests.Go(func() {
		select {
		case f.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		apart, err := f.cluster.fetch(ctx, pod, of, f.store)
		<-f.slots
		select {
		case f.fetched <- fetch{index, apart, err}:
		case <-ctx.Done():
		}
	})
}

// fetchEnded takes note of what came of a try to fetch.
func (f *follower) fetchEnded(ctx context.Context, done fetch) {
	p := f.parts[done.index]
	p.isFetching = false
	if done.err != nil {
		if at, _ := f.standing(p); at != kept {
			return // what became of the pod meanwhile says how it goes on
		}
		if p.tries++; p.tries >= fetchTries {
			f.markMissing(p, fmt.Sprintf("fetching failed: %v; the results are kept there", done.err))
			return
		}
		f.reportOnce(p, fmt.Sprintf("fetching failed, and is tried again: %v", done.err))
		p.deadline = time.Now().Add(fetchAgain)
		return
	}
	p.isStored, p.missing, p.deadline = true, "", time.Time{}
	text := "fetched"
	if done.apart.Abs() > clocksApart {
		direction := "ahead of"
		if done.apart < 0 {
			direction = "behind"
		}
		text += fmt.Sprintf("; its clock is %v %s this machine's: times of its run are its own",
			done.apart.Abs().Round(100*time.Millisecond), direction)
	}
	f.reportOnce(p, text)
	f.acknowledge(ctx, p, p.pod)
}

// acknowledge has a pod remove the run that was fetched, and gives the node back. A pod without an
// acknowledgement ends when the study's parent is deleted.
func (f *follower) acknowledge(ctx context.Context, p *part, pod *corev1.Pod) {
	if p.acknowledged[pod.UID] {
		return
	}
	p.acknowledged[pod.UID] = true
	f.requests.Go(func() {
		if err := f.cluster.acknowledge(ctx, pod.Name, f.study.Part(p.node)); err != nil {
			f.report(Event{p.node, fmt.Sprintf("the acknowledgement failed, and the node keeps its run: %v", err)})
		}
		if err := f.cluster.release(ctx, f.study, p.node); err != nil {
			f.report(Event{p.node, fmt.Sprintf("its lease is left: %v", err)})
		}
	})
}

func (f *follower) outcome() (o Outcome) {
	for _, p := range f.parts {
		switch {
		case p.isStored:
			o.Fetched = append(o.Fetched, p.node)
		case p.missing != "":
			o.Missing = append(o.Missing, Absence{p.node, p.missing})
		}
	}
	return o
}

// fetch enters a node's run into the store, and gives by how much the node's clock is ahead, beyond
// what the way of its answer may have taken.
func (c *Cluster) fetch(ctx context.Context, pod string, of record.Part, store *record.Store) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	from, to := io.Pipe()
	asked := time.Now()
	go func() { to.CloseWithError(c.Exec(ctx, pod, keeper, nodeCommand("export", of), to)) }()
	clock, heard, err := receive(ctx, from, store, of)
	// What is not read must not hold up who writes it.
	err = errors.Join(err, from.CloseWithError(errors.New("not read to the end")))
	if err != nil {
		return 0, err
	}
	switch {
	case clock.After(heard):
		return clock.Sub(heard), nil
	case clock.Before(asked):
		return clock.Sub(asked), nil
	}
	return 0, nil
}

func (c *Cluster) acknowledge(ctx context.Context, pod string, of record.Part) error {
	ctx, cancel := context.WithTimeout(ctx, acknowledgeLimit)
	defer cancel()
	return c.Exec(ctx, pod, keeper, nodeCommand("acknowledge", of), io.Discard)
}

func nodeCommand(command string, of record.Part) []string {
	return []string{program, "node", command, "--study", of.Study, "--node", of.Node}
}
