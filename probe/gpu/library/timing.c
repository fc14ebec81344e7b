/*
 * How long the device worked on what it was given: an event is recorded in the stream
 * before a kernel or copy and one behind it, and when both have passed the driver tells
 * the time between them (cuEventElapsedTime; its resolution is about half a microsecond).
 * Where they lie in time is told by another event, whose moment on the host's clock is
 * taken when the context is first used: it is recorded in a stream of the library's own
 * and waited for.
 *
 * What this does to the program: two calls more in each stream for each kernel, some of
 * the host's time when it waits for the device anyway, and once a context a stream and
 * a wait. Of a kernel in an idle stream the time from the first event to its start
 * counts in: some microseconds of launching. Nothing is recorded in a stream of which a
 * graph is being made.
 *
 * Events of a context are a fixed number. One that has not passed is not waited for: where all are
 * under way, what comes is not timed, and counted.
 */
#define _GNU_SOURCE
#include "probe.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

enum { CONTEXTS = 32, SLOTS = 1024, NONE = -1, PATIENCE = 16, DEVICES = 64 };

/* After so long the moments of events are counted from a new one: a float of milliseconds has 24 bits. */
static const uint64_t REBASE = 4000000000u;

struct slot {
	cu_handle start, end; /* events */
	struct context *of;
	int next;
	struct work work;
	uint32_t thread, stream;
};

struct context {
	_Atomic uintptr_t handle; /* 0: a free place */
	pthread_mutex_t lock;     /* for the lists */
	uint32_t number, device;
	cu_handle own, base; /* a stream and an event of ours */
	uint64_t base_at;    /* ns: CLOCK_MONOTONIC */
	uint64_t based;      /* when the base was renewed */
	struct slot *slots;
	int unused, first, last; /* lists of slots: free ones, those that are under way in their order */
	int pending;
	_Atomic bool collecting;
	bool broken;
};

static struct context contexts[CONTEXTS];
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static uint32_t made;
static _Atomic int graphs; /* that are being made */
static uint32_t sample = 1;
static struct {
	_Atomic uintptr_t context;
	_Atomic int held;
} primaries[DEVICES];

static struct {
	cu_result (*create)(cu_handle *, unsigned);
	cu_result (*record)(cu_handle, cu_handle);
	cu_result (*destroy)(cu_handle);
	cu_result (*query)(cu_handle);
	cu_result (*wait)(cu_handle);
	cu_result (*elapsed)(float *, cu_handle, cu_handle);
	cu_result (*stream)(cu_handle *, unsigned);
	cu_result (*current)(cu_handle *);
	cu_result (*push)(cu_handle);
	cu_result (*pop)(cu_handle *);
	cu_result (*device)(cu_device *);
	cu_result (*is_capturing)(cu_handle, int *);
} driver;
static _Atomic int resolved; /* 1: all are there, 2: not */

static bool resolve(void)
{
	int r = atomic_load_explicit(&resolved, memory_order_acquire);

	if (r != 0)
		return r == 1;
	pthread_mutex_lock(&making);
	if (atomic_load(&resolved) == 0) {
		driver.create = (cu_result (*)(cu_handle *, unsigned))driver_symbol("cuEventCreate");
		driver.record = (cu_result (*)(cu_handle, cu_handle))driver_symbol("cuEventRecord");
		driver.destroy = (cu_result (*)(cu_handle))driver_symbol("cuEventDestroy_v2");
		driver.query = (cu_result (*)(cu_handle))driver_symbol("cuEventQuery");
		driver.wait = (cu_result (*)(cu_handle))driver_symbol("cuEventSynchronize");
		driver.elapsed = (cu_result (*)(float *, cu_handle, cu_handle))driver_symbol("cuEventElapsedTime");
		driver.stream = (cu_result (*)(cu_handle *, unsigned))driver_symbol("cuStreamCreate");
		driver.current = (cu_result (*)(cu_handle *))driver_symbol("cuCtxGetCurrent");
		driver.push = (cu_result (*)(cu_handle))driver_symbol("cuCtxPushCurrent_v2");
		driver.pop = (cu_result (*)(cu_handle *))driver_symbol("cuCtxPopCurrent_v2");
		driver.device = (cu_result (*)(cu_device *))driver_symbol("cuCtxGetDevice");
		driver.is_capturing = (cu_result (*)(cu_handle, int *))driver_symbol("cuStreamIsCapturing"); /* from CUDA 10 */
		r = driver.create && driver.record && driver.query && driver.wait && driver.elapsed && driver.stream &&
				    driver.current && driver.push && driver.pop && driver.device
			    ? 1
			    : 2;
		if (r == 2)
			complain("the driver lacks functions for events: kernels are not timed");
		atomic_store_explicit(&resolved, r, memory_order_release);
	}
	r = atomic_load(&resolved);
	pthread_mutex_unlock(&making);
	return r == 1;
}

static int64_t ns_of(float ms)
{
	const double ns = (double)ms * 1e6;

	return (int64_t)(ns < 0 ? ns - 0.5 : ns + 0.5);
}

void timing_sample(uint32_t every) { sample = every; }

void capturing(bool begun)
{
	if (begun)
		atomic_fetch_add(&graphs, 1);
	else if (atomic_fetch_sub(&graphs, 1) <= 0)
		atomic_store(&graphs, 0);
}

bool captures(void) { return atomic_load_explicit(&graphs, memory_order_relaxed) > 0; }

/* rebase takes the first base of a context, or moves it on by the device's own clock. */
static bool rebase(struct context *c)
{
	cu_handle event = NULL;
	struct clock_record r = { { RECORD_CLOCK, 0, sizeof(r), CLOCK_EVENTS }, c->number, 0, 0 };
	float ms = 0;

	if (driver.create(&event, 0) != CU_SUCCESS)
		return false;
	r.before = now();
	if (driver.record(event, c->own) != CU_SUCCESS || driver.wait(event) != CU_SUCCESS)
		return false;
	r.after = now();
	if (c->base == NULL)
		c->base_at = r.before + (r.after - r.before) / 2;
	else if (driver.elapsed(&ms, c->base, event) == CU_SUCCESS)
		c->base_at += (uint64_t)ns_of(ms);
	else
		return false;
	if (c->base != NULL && driver.destroy != NULL)
		(void)driver.destroy(c->base);
	c->base = event;
	c->based = r.after;
	r.other = c->base_at;
	trace_put(&r.head);
	return true;
}

static bool make(struct context *c, cu_handle handle)
{
	cu_device device = 0;

	c->slots = mmap(NULL, SLOTS * sizeof(struct slot), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (c->slots == MAP_FAILED)
		return false;
	pthread_mutex_init(&c->lock, NULL);
	for (int i = 0; i < SLOTS; i++) {
		c->slots[i].of = c;
		c->slots[i].next = i + 1 < SLOTS ? i + 1 : NONE;
	}
	c->unused = 0;
	c->first = c->last = NONE;
	c->pending = 0;
	c->number = ++made;
	c->base = c->own = NULL;
	c->broken = driver.device(&device) != CU_SUCCESS || driver.stream(&c->own, CU_STREAM_NON_BLOCKING) != CU_SUCCESS || !rebase(c);
	c->device = (uint32_t)device;
	if (c->broken)
		complain("the driver refuses events in context %u: its kernels are not timed", c->number);
	atomic_store_explicit(&c->handle, (uintptr_t)handle, memory_order_release);
	return true;
}

/* known finds a context that was used before; NULL where it was not. */
static struct context *known(cu_handle handle)
{
	for (int i = 0; i < CONTEXTS; i++)
		if (atomic_load_explicit(&contexts[i].handle, memory_order_acquire) == (uintptr_t)handle)
			return &contexts[i];
	return NULL;
}

static struct context *current(bool make_it)
{
	struct context *c;
	cu_handle handle = NULL;

	if (!resolve() || driver.current(&handle) != CU_SUCCESS || handle == NULL)
		return NULL;
	c = known(handle);
	if (c != NULL || !make_it)
		return c;
	pthread_mutex_lock(&making);
	c = known(handle);
	for (int i = 0; c == NULL && i < CONTEXTS; i++)
		if (atomic_load(&contexts[i].handle) == 0 && make(&contexts[i], handle))
			c = &contexts[i];
	pthread_mutex_unlock(&making);
	return c;
}

static void give_back(struct context *c, struct slot *s)
{
	pthread_mutex_lock(&c->lock);
	s->next = c->unused;
	c->unused = (int)(s - c->slots);
	pthread_mutex_unlock(&c->lock);
}

/* take_down makes a record of what has ended; false where it has not. */
static bool take_down(struct context *c, struct slot *s)
{
	struct work_record r = { { RECORD_WORK, WORK_BY_EVENTS, sizeof(r), s->work.label }, 0, 0, s->work.bytes, s->work.correlation,
				 c->device, c->number, s->stream, s->work.kind, s->work.direction, s->work.from, s->work.to, s->thread };
	cu_result q = driver.query(s->end);
	float from_base = 0, took = 0;

	if (q == CU_NOT_READY)
		return false;
	if (q != CU_SUCCESS || driver.elapsed(&took, s->start, s->end) != CU_SUCCESS ||
	    driver.elapsed(&from_base, c->base, s->start) != CU_SUCCESS) {
		count_lost(UNTIMED_FAILED, 1);
		return true;
	}
	if (s->work.async)
		r.head.flags |= WORK_ASYNC;
	r.start = (uint64_t)((int64_t)c->base_at + ns_of(from_base));
	r.duration = took > 0 ? (uint64_t)ns_of(took) : 0;
	trace_put(&r.head);
	return true;
}

/* collect goes through what is under way, oldest first, until some in a row have not ended. */
static void collect(struct context *c)
{
	int at, first, last = NONE, waiting = 0;

	if (c->broken || atomic_exchange(&c->collecting, true))
		return;
	pthread_mutex_lock(&c->lock);
	first = c->first;
	at = first;
	c->first = c->last = NONE;
	pthread_mutex_unlock(&c->lock);

	/* Those that stay become the list from first to last. */
	first = NONE;
	while (at != NONE) {
		struct slot *s = &c->slots[at];
		const int next = s->next;

		if (waiting < PATIENCE && take_down(c, s)) {
			pthread_mutex_lock(&c->lock);
			c->pending--;
			s->next = c->unused;
			c->unused = at;
			pthread_mutex_unlock(&c->lock);
		} else {
			waiting++;
			if (last == NONE)
				first = at;
			else
				c->slots[last].next = at;
			last = at;
			s->next = NONE;
		}
		at = next;
	}
	if (last != NONE) {
		pthread_mutex_lock(&c->lock);
		c->slots[last].next = c->first;
		if (c->first == NONE)
			c->last = last;
		c->first = first;
		pthread_mutex_unlock(&c->lock);
	}
	if (now() - c->based > REBASE && !captures() && !rebase(c))
		c->based = now();
	atomic_store(&c->collecting, false);
}

struct slot *timing_begin(cu_handle stream)
{
	static _Thread_local uint32_t turn __attribute__((tls_model("initial-exec")));
	struct context *c;
	struct slot *s = NULL;
	int capture = 0;

	if (sample == 0 || turn++ % sample != 0) {
		count_lost(UNTIMED_SAMPLED, 1);
		return NULL;
	}
	if (captures()) {
		count_lost(UNTIMED_CAPTURE, 1);
		return NULL;
	}
	c = current(true);
	if (c == NULL || c->broken) {
		count_lost(UNTIMED_FAILED, 1);
		return NULL;
	}
	if (driver.is_capturing != NULL && (driver.is_capturing(stream, &capture) != CU_SUCCESS || capture != 0)) {
		count_lost(UNTIMED_CAPTURE, 1);
		return NULL;
	}
	for (int try = 0; s == NULL && try < 2; try++) {
		if (try > 0)
			collect(c);
		pthread_mutex_lock(&c->lock);
		if (c->unused != NONE) {
			s = &c->slots[c->unused];
			c->unused = s->next;
		}
		pthread_mutex_unlock(&c->lock);
	}
	if (s == NULL) {
		count_lost(UNTIMED_FULL, 1);
		return NULL;
	}
	if ((s->start == NULL && driver.create(&s->start, 0) != CU_SUCCESS) || (s->end == NULL && driver.create(&s->end, 0) != CU_SUCCESS) ||
	    driver.record(s->start, stream) != CU_SUCCESS) {
		give_back(c, s);
		count_lost(UNTIMED_FAILED, 1);
		return NULL;
	}
	return s;
}

void timing_end(struct slot *s, cu_handle stream, bool failed, const struct work *work)
{
	struct context *c;

	if (s == NULL)
		return;
	c = s->of;
	if (failed || driver.record(s->end, stream) != CU_SUCCESS) {
		if (!failed)
			count_lost(UNTIMED_FAILED, 1);
		give_back(c, s);
		return;
	}
	s->work = *work;
	s->thread = thread_id();
	s->stream = (uint32_t)((uintptr_t)stream >> 4 ^ (uintptr_t)stream >> 36 ^ ((uintptr_t)stream & 15));
	s->next = NONE;
	pthread_mutex_lock(&c->lock);
	if (c->last == NONE)
		c->first = (int)(s - c->slots);
	else
		c->slots[c->last].next = (int)(s - c->slots);
	c->last = (int)(s - c->slots);
	c->pending++;
	pthread_mutex_unlock(&c->lock);
}

void timing_collect(void)
{
	struct context *c;

	if (sample == 0 || captures())
		return;
	c = current(false);
	if (c != NULL)
		collect(c);
}

/* finish takes down what has ended of a context that is current, and counts the rest. */
static void finish(struct context *c)
{
	int before = -1;

	while (c->pending > 0 && c->pending != before) {
		before = c->pending;
		collect(c);
	}
	if (c->pending > 0)
		count_lost(UNTIMED_UNFINISHED, (uint64_t)c->pending);
	c->pending = 0;
}

void timing_drop(cu_handle context)
{
	struct context *c = known(context);
	cu_handle was = NULL;

	if (c == NULL || context == NULL)
		return;
	if (driver.current(&was) == CU_SUCCESS && was == context) {
		finish(c);
	} else if (driver.push(context) == CU_SUCCESS) {
		finish(c);
		(void)driver.pop(&was);
	}
	if (c->pending > 0)
		count_lost(UNTIMED_UNFINISHED, (uint64_t)c->pending);
	c->pending = 0;
	/* The events go with it. Threads that still work with it do so at their own risk, as with the driver. */
	pthread_mutex_lock(&making);
	munmap(c->slots, SLOTS * sizeof(struct slot));
	c->slots = NULL;
	atomic_store(&c->handle, 0);
	pthread_mutex_unlock(&making);
}

void timing_primary(cu_handle context, cu_device device)
{
	if (device < 0 || device >= DEVICES)
		return;
	atomic_store(&primaries[device].context, (uintptr_t)context);
	atomic_fetch_add(&primaries[device].held, 1);
}

void timing_drop_primary(cu_device device, bool reset)
{
	if (device < 0 || device >= DEVICES || atomic_load(&primaries[device].context) == 0)
		return;
	if (atomic_fetch_sub(&primaries[device].held, 1) > 1 && !reset)
		return;
	atomic_store(&primaries[device].held, 0);
	timing_drop((cu_handle)atomic_exchange(&primaries[device].context, 0));
}

void timing_finish(void)
{
	cu_handle was = NULL, here = NULL;

	if (atomic_load(&resolved) != 1)
		return;
	if (driver.current(&here) != CU_SUCCESS)
		here = NULL;
	for (int i = 0; i < CONTEXTS; i++) {
		struct context *c = &contexts[i];
		cu_handle handle = (cu_handle)atomic_load(&c->handle);

		if (handle == NULL || c->broken || c->pending == 0)
			continue;
		if (handle == here) {
			finish(c);
		} else if (driver.push(handle) == CU_SUCCESS) {
			finish(c);
			(void)driver.pop(&was);
		} else {
			count_lost(UNTIMED_UNFINISHED, (uint64_t)c->pending);
		}
	}
}

void timing_abandon(void)
{
	for (int i = 0; i < CONTEXTS; i++)
		if (atomic_load(&contexts[i].handle) != 0 && contexts[i].pending > 0)
			count_lost(UNTIMED_UNFINISHED, (uint64_t)contexts[i].pending);
}

void timing_forget(void)
{
	memset(contexts, 0, sizeof(contexts));
	memset(primaries, 0, sizeof(primaries));
	pthread_mutex_init(&making, NULL);
	made = 0;
	atomic_store(&graphs, 0);
}
