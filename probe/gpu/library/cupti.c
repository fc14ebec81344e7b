/*
 * CUPTI's activity API, by functions that are looked up when the library is there. CUPTI
 * hands over buffers of records, whose layouts are declared here by what is needed of
 * them: of each kind the fields up to the last that is read, which lie at the same places
 * in all record versions of the CUPTI versions that are accepted (kernels 4 to 13, copies
 * 1 and 3 to 7, peer copies 1 to 4, sets 1 to 5, JIT 1 and 2, overheads 1 to 3). With a
 * version of CUPTI that is not among them nothing is recorded by it.
 *
 * CUPTI's time is its own: it is read together with the host's at the beginning, whenever
 * a buffer comes, and at the end, so that whoever reads the trace can convert it.
 *
 * Sources: CUPTI documentation, "CUPTI Activity API" and the structures' pages; for
 * which version came with which toolkit, the page of cuptiGetVersion.
 */
#define _GNU_SOURCE
#include "probe.h"
#include "oldest.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kinds of records. */
enum { MEMCPY = 1, MEMSET = 2, KERNEL = 3, DRIVER = 4, RUNTIME = 5, CONCURRENT_KERNEL = 10, OVERHEAD = 17, PEER_COPY = 22, JIT = 52 };

enum { BUFFER = 256 << 10, ALIGNMENT = 8, FLUSH_MS = 1000, SYSTEM_THREADS = 1, COMPLETE = 0, FORCED = 1, ASYNC = 1 };
enum { DRIVER_DOMAIN = 1, RUNTIME_DOMAIN = 2, SUCCESS = 0 };

/* Names of calls are numbered by domain and CUPTI's number; both are below 4096. */
enum { DOMAIN_STEP = 1 << 12, CALL_NAMES = 3 * DOMAIN_STEP, FIRST_NAME = 1 << 16 };

struct api {
	uint32_t kind, number;
	uint64_t start, end;
	uint32_t process, thread, correlation, result;
};

struct kernel {
	uint32_t kind;
	uint8_t cache, shared;
	uint16_t registers;
	uint32_t partitioned[2];
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	int32_t grid[3], block[3], memory[2];
	uint32_t local, local_total, correlation;
	int64_t id;
	const char *name;
};

struct copy {
	uint32_t kind;
	uint8_t direction, from, to, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
};

struct peer_copy {
	uint32_t kind;
	uint8_t direction, from, to, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, from_device, from_context, to_device, to_context, correlation;
};

struct set {
	uint32_t kind, value;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
	uint16_t flags, memory;
};

struct jit {
	uint32_t kind, entry, operation, device;
	uint64_t start, end;
	uint32_t correlation, padding;
	uint64_t operation_correlation, cache_bytes;
};

struct overhead {
	uint32_t kind, what, object_kind, object[3];
	uint64_t start, end;
};

_Static_assert(offsetof(struct api, correlation) == 32 && sizeof(struct api) == 40, "CUpti_ActivityAPI");
_Static_assert(offsetof(struct kernel, start) == 16 && offsetof(struct kernel, device) == 40, "CUpti_ActivityKernel");
_Static_assert(offsetof(struct kernel, correlation) == 92 && offsetof(struct kernel, name) == 104, "CUpti_ActivityKernel");
_Static_assert(offsetof(struct copy, bytes) == 8 && offsetof(struct copy, correlation) == 44, "CUpti_ActivityMemcpy");
_Static_assert(offsetof(struct peer_copy, device) == 32 && offsetof(struct peer_copy, correlation) == 60, "CUpti_ActivityMemcpyPtoP");
_Static_assert(offsetof(struct set, correlation) == 44 && offsetof(struct set, memory) == 50, "CUpti_ActivityMemset");
_Static_assert(offsetof(struct jit, start) == 16 && offsetof(struct jit, cache_bytes) == 48, "CUpti_ActivityJit");
_Static_assert(offsetof(struct overhead, start) == 24, "CUpti_ActivityOverhead");

static struct {
	int (*version)(uint32_t *);
	int (*register_callbacks)(void (*)(uint8_t **, size_t *, size_t *), void (*)(void *, uint32_t, uint8_t *, size_t, size_t));
	int (*enable)(int);
	int (*next)(uint8_t *, size_t, void **);
	int (*flush)(uint32_t);
	int (*timestamp)(uint64_t *);
	int (*callback_name)(int, uint32_t, const char **);
	int (*dropped)(void *, uint32_t, size_t *);
	int (*flush_period)(uint32_t);      /* from CUDA 11.1 */
	int (*thread_type)(int);            /* from CUDA 11.4 */
	int (*result)(int, const char **);
} cupti;

static _Atomic bool on;        /* and its time can be asked for */
static _Atomic bool recording; /* what it hands over is taken */
static _Atomic uint8_t call_named[CALL_NAMES];

static void tell_time(void)
{
	struct clock_record r = { { RECORD_CLOCK, CLOCK_IS_CUPTI, sizeof(r), CLOCK_CUPTI }, 0, 0, 0 };

	r.before = now();
	if (cupti.timestamp(&r.other) != SUCCESS)
		return;
	r.after = now();
	trace_put(&r.head);
}

static void take_call(const struct api *a, int domain)
{
	const uint32_t at = (uint32_t)domain * DOMAIN_STEP + a->number, id = FIRST_NAME + at;
	struct call_record r = { { RECORD_CALL, CLOCK_IS_CUPTI, sizeof(r), id }, a->start, a->end - a->start, 0, a->correlation, (int32_t)a->result, a->thread, 0 };
	const char *name = NULL;

	if (a->end < a->start || a->number >= DOMAIN_STEP) {
		count_lost(CUPTI_UNKNOWN, 1);
		return;
	}
	if (!atomic_exchange(&call_named[at], 1) && cupti.callback_name(domain, a->number, &name) == SUCCESS && name != NULL)
		trace_text(NAME_CALL, id, name, strlen(name));
	trace_put(&r.head);
}

/* take_work leaves out what CUPTI has no times for. */
static void take_work(struct work_record r, uint64_t start, uint64_t end)
{
	if (start == 0 || end < start) {
		count_lost(UNTIMED_FAILED, 1);
		return;
	}
	r.head.type = RECORD_WORK;
	r.head.flags |= CLOCK_IS_CUPTI;
	r.head.size = sizeof(r);
	r.start = start;
	r.duration = end - start;
	trace_put(&r.head);
}

static void take_kernel(const struct kernel *k)
{
	take_work((struct work_record){ .head.id = k->name == NULL ? 0 : function_name(k->name), .kind = WORK_KERNEL, .correlation = k->correlation,
					.device = k->device, .context = k->context, .stream = k->stream },
		  k->start, k->end);
}

static void take_copy(const struct copy *c)
{
	take_work((struct work_record){ .head.flags = c->flags & ASYNC ? WORK_ASYNC : 0, .kind = WORK_COPY, .bytes = c->bytes, .correlation = c->correlation,
					.device = c->device, .context = c->context, .stream = c->stream, .direction = c->direction, .from = c->from, .to = c->to },
		  c->start, c->end);
}

static void take_peer_copy(const struct peer_copy *c)
{
	take_work((struct work_record){ .head.flags = c->flags & ASYNC ? WORK_ASYNC : 0, .kind = WORK_COPY, .bytes = c->bytes, .correlation = c->correlation,
					.device = c->device, .context = c->context, .stream = c->stream, .direction = c->direction, .from = c->from, .to = c->to },
		  c->start, c->end);
}

static void take_set(const struct set *s)
{
	take_work((struct work_record){ .head.flags = s->flags & ASYNC ? WORK_ASYNC : 0, .kind = WORK_SET, .bytes = s->bytes, .correlation = s->correlation,
					.device = s->device, .context = s->context, .stream = s->stream, .to = (uint8_t)s->memory },
		  s->start, s->end);
}

static void take_jit(const struct jit *j)
{
	struct jit_record r = { { RECORD_JIT, CLOCK_IS_CUPTI, sizeof(r), j->operation }, j->start, j->end - j->start, j->cache_bytes, j->correlation, j->device, j->entry, 0 };

	if (j->start == 0 || j->end < j->start)
		count_lost(UNTIMED_FAILED, 1);
	else
		trace_put(&r.head);
}

static void take_overhead(const struct overhead *o)
{
	struct overhead_record r = { { RECORD_OVERHEAD, CLOCK_IS_CUPTI, sizeof(r), o->what }, o->start, o->end - o->start, o->object[1], 0 };

	if (o->end >= o->start)
		trace_put(&r.head);
}

/* Buffers that came back, to be given out again. */
enum { KEPT = 16 };
static uint8_t *_Atomic kept[KEPT];

static void requested(uint8_t **buffer, size_t *size, size_t *most)
{
	void *p = NULL;

	*most = 0; /* as many as there is room for */
	*size = BUFFER;
	for (int i = 0; i < KEPT && p == NULL; i++)
		if (atomic_load_explicit(&kept[i], memory_order_relaxed) != NULL)
			p = atomic_exchange(&kept[i], NULL);
	if (p == NULL && posix_memalign(&p, ALIGNMENT, BUFFER) != 0) {
		p = NULL;
		*size = 0;
	}
	*buffer = p;
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	size_t dropped = 0;
	void *record = NULL;

	(void)size;
	while (buffer != NULL && valid > 0 && atomic_load(&recording) && cupti.next(buffer, valid, &record) == SUCCESS) {
		uint32_t kind;

		memcpy(&kind, record, sizeof(kind));
		switch (kind) {
		case DRIVER:
			take_call(record, DRIVER_DOMAIN);
			break;
		case RUNTIME:
			take_call(record, RUNTIME_DOMAIN);
			break;
		case KERNEL:
		case CONCURRENT_KERNEL:
			take_kernel(record);
			break;
		case MEMCPY:
			take_copy(record);
			break;
		case PEER_COPY:
			take_peer_copy(record);
			break;
		case MEMSET:
			take_set(record);
			break;
		case JIT:
			take_jit(record);
			break;
		case OVERHEAD:
			take_overhead(record);
			break;
		default:
			count_lost(CUPTI_UNKNOWN, 1);
		}
	}
	if (cupti.dropped(context, stream, &dropped) == SUCCESS && dropped > 0)
		count_lost(CUPTI_DROPPED, dropped);
	if (atomic_load(&on))
		tell_time();
	for (int i = 0; i < KEPT && buffer != NULL; i++) {
		uint8_t *none = NULL;

		if (atomic_compare_exchange_strong(&kept[i], &none, buffer))
			buffer = NULL;
	}
	free(buffer);
}

static const char *reason(int result)
{
	const char *text = NULL;

	return cupti.result != NULL && cupti.result(result, &text) == SUCCESS && text != NULL ? text : "unknown error";
}

static bool accepted(uint32_t version)
{
	return (version >= 12 && version <= 28) || (version >= 130000 && version <= 130599);
}

/* open_library looks where the variable says, and nowhere else; without it for CUPTI's names since CUDA 10. */
static void *open_library(char *why, size_t room)
{
	static const char *const names[] = { "libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so.11.7", "libcupti.so.11.6", "libcupti.so.11.5",
					     "libcupti.so.11.4", "libcupti.so.11.3", "libcupti.so.11.2", "libcupti.so.11.1", "libcupti.so.11.0", "libcupti.so.10.2",
					     "libcupti.so", "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so", "/usr/local/cuda/lib64/libcupti.so" };
	const char *told = getenv("TARE_GPU_CUPTI");
	void *handle = NULL;

	if (told != NULL && *told != '\0') {
		handle = dlopen(told, RTLD_NOW | RTLD_LOCAL);
		if (handle == NULL)
			snprintf(why, room, "%s cannot be opened: %s", told, dlerror());
		return handle;
	}
	for (size_t i = 0; handle == NULL && i < sizeof(names) / sizeof(names[0]); i++)
		handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (handle == NULL)
		snprintf(why, room, "libcupti.so is not found: TARE_GPU_CUPTI names it, or LD_LIBRARY_PATH its directory");
	return handle;
}

bool cupti_begin(char *why, size_t room)
{
	static const struct {
		int kind;
		bool needed;
		const char *what;
	} kinds[] = { { CONCURRENT_KERNEL, true, "kernels" }, { DRIVER, true, "calls of the driver" }, { RUNTIME, true, "calls of the runtime" },
		      { MEMCPY, true, "copies" }, { MEMSET, false, "sets of memory" }, { PEER_COPY, false, "copies between devices" },
		      { JIT, false, "compilation (from CUDA 11.8)" }, { OVERHEAD, false, "overheads" } };
	void *handle = open_library(why, room);
	uint32_t version = 0;
	void *p;
	int r;

	if (handle == NULL)
		return false;
#define FIND(field, name) ((p = dlsym(handle, name)) != NULL && memcpy(&cupti.field, &p, sizeof(p)) != NULL)
	if (!(FIND(version, "cuptiGetVersion") && FIND(register_callbacks, "cuptiActivityRegisterCallbacks") && FIND(enable, "cuptiActivityEnable") &&
	      FIND(next, "cuptiActivityGetNextRecord") && FIND(flush, "cuptiActivityFlushAll") && FIND(timestamp, "cuptiGetTimestamp") &&
	      FIND(callback_name, "cuptiGetCallbackName") && FIND(dropped, "cuptiActivityGetNumDroppedRecords"))) {
		snprintf(why, room, "libcupti.so lacks functions of the activity API");
		return false;
	}
	(void)FIND(flush_period, "cuptiActivityFlushPeriod");
	(void)FIND(thread_type, "cuptiSetThreadIdType");
	(void)FIND(result, "cuptiGetResultString");
#undef FIND
	r = cupti.version(&version);
	if (r != SUCCESS) {
		snprintf(why, room, "it does not tell its version: %s", reason(r));
		return false;
	}
	if (!accepted(version)) {
		snprintf(why, room, "its version %u is not among those whose records are known here (12 to 28, 130000 to 130599)", version);
		return false;
	}
	fact("cupti=%u", version);
	if (cupti.thread_type != NULL)
		(void)cupti.thread_type(SYSTEM_THREADS);
	atomic_store(&recording, true);
	r = cupti.register_callbacks(requested, completed);
	if (r != SUCCESS) {
		snprintf(why, room, "it takes no callbacks: %s", reason(r));
		atomic_store(&recording, false);
		return false;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		r = cupti.enable(kinds[i].kind);
		if (r == SUCCESS)
			continue;
		if (kinds[i].needed) {
			snprintf(why, room, "it does not record %s: %s", kinds[i].what, reason(r));
			atomic_store(&recording, false);
			return false;
		}
		complain("CUPTI does not record %s: %s", kinds[i].what, reason(r));
	}
	if (cupti.flush_period == NULL || cupti.flush_period(FLUSH_MS) != SUCCESS)
		complain("CUPTI has no period of flushing: what a program that is killed did last is lost");
	atomic_store(&on, true);
	tell_time();
	return true;
}

/* Whether CUPTI hands over by itself what it has of a context that is destroyed its documentation does not say. */
void cupti_flush(void)
{
	if (atomic_load(&on))
		(void)cupti.flush(COMPLETE);
}

void cupti_end(void)
{
	if (!atomic_exchange(&on, false))
		return;
	(void)cupti.flush(FORCED);
	tell_time();
}

void cupti_forget(void)
{
	atomic_store(&recording, false);
	atomic_store(&on, false);
	for (int i = 0; i < CALL_NAMES; i++)
		atomic_store_explicit(&call_named[i], 0, memory_order_relaxed);
}
