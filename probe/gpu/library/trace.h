/*
 * The trace of one process, as docs/gpu-trace.md has it: a file that is mapped while it
 * is written, so that what was written stays when the process is killed.
 */
#ifndef TARE_GPU_TRACE_H
#define TARE_GPU_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	FORMAT = 1,
	HEADER = 4096,   /* bytes of the file's head */
	CHUNK = 1 << 16, /* bytes of a part that one thread writes */
	CALLS_COUNTED = 224,
};

/* What did not get into the file is counted in its head. */
enum lost {
	LOST_CALLS,        /* for want of room */
	LOST_CALLS_NS,     /* and how long those took */
	LOST_WORK,         /* of the device, for want of room */
	LOST_WORK_NS,      /* and how long it took */
	LOST_OTHER,        /* other records for want of room */
	UNTIMED_SAMPLED,   /* work that was not timed as the sample left it out */
	UNTIMED_FULL,      /* as all events were under way */
	UNTIMED_CAPTURE,   /* as it went into a graph, or a graph was being made */
	UNTIMED_FAILED,    /* as the driver refused an event */
	UNTIMED_UNFINISHED,/* as it had not ended when the process or its context did */
	CUPTI_DROPPED,     /* records that CUPTI had no buffer for */
	CUPTI_UNKNOWN,     /* records of kinds that were not asked for */
	UNKNOWN_VERSIONS,  /* functions that were handed out in a version that is not known here */
	LOSSES = 16,
};

enum method { METHOD_NONE, METHOD_CUPTI, METHOD_INTERPOSITION };

struct header {
	char magic[7];
	uint8_t version;
	uint32_t header_bytes, chunk_bytes;
	uint32_t pid, parent;
	uint64_t began, began_real; /* ns: CLOCK_MONOTONIC, CLOCK_REALTIME */
	uint64_t most_chunks;
	_Atomic uint64_t chunks;
	_Atomic uint32_t closed;
	_Atomic uint32_t method;
	_Atomic uint64_t ended; /* ns: CLOCK_MONOTONIC */
	uint32_t sample;
	uint32_t reserved;
	_Atomic uint64_t losses[LOSSES];
	unsigned char unused[304];
	struct {
		_Atomic uint64_t count, ns;
	} lost_calls[CALLS_COUNTED];
};

struct chunk {
	uint32_t magic; /* CHUNK_MAGIC */
	uint32_t reserved;
	_Atomic uint64_t used; /* bytes, these 16 among them */
};

#define CHUNK_MAGIC 0x4b4e4843u

enum record_type { RECORD_CALL = 1, RECORD_NAME, RECORD_WORK, RECORD_JIT, RECORD_OVERHEAD, RECORD_MODULE, RECORD_CLOCK, RECORD_DEVICE };

struct record {
	uint8_t type, flags;
	uint16_t size; /* bytes, a multiple of 8 */
	uint32_t id;
};

/* Moments of a record with this flag are CUPTI's, and others CLOCK_MONOTONIC's. */
enum { CLOCK_IS_CUPTI = 0x80 };

enum { CALL_BYTES = 1, CALL_FIRST = 2 };

struct call_record {
	struct record head; /* id: which function */
	uint64_t start, duration, bytes;
	uint32_t correlation;
	int32_t status;
	uint32_t thread, context;
};

enum name_space { NAME_CALL = 1, NAME_FUNCTION, NAME_PROGRAM, NAME_ARGUMENTS, NAME_COMPLAINT, NAME_FACT, NAME_DEVICE };

struct name_record {
	struct record head; /* id: what is named */
	uint32_t space, length;
	/* the text, with zeros to the next 8 bytes */
};

enum { WORK_KERNEL = 1, WORK_COPY, WORK_SET, WORK_GRAPH };
enum { WORK_BY_EVENTS = 1, WORK_BY_CALL = 2, WORK_ASYNC = 4 };

/* Directions and kinds of memory are numbered as CUPTI does. */
enum { HTOD = 1, DTOH, HTOA, ATOH, ATOA, ATOD, DTOA, DTOD, HTOH, PTOP };
enum { MEMORY_UNKNOWN, MEMORY_PAGEABLE, MEMORY_PINNED, MEMORY_DEVICE, MEMORY_ARRAY, MEMORY_MANAGED };

struct work_record {
	struct record head; /* id: the function's name */
	uint64_t start, duration, bytes;
	uint32_t correlation, device, context, stream;
	uint8_t kind, direction, from, to;
	uint32_t thread;
};

struct jit_record {
	struct record head; /* id: the operation, as CUPTI numbers it */
	uint64_t start, duration, cache_bytes;
	uint32_t correlation, device, entry, thread;
};

struct overhead_record {
	struct record head; /* id: its kind, as CUPTI numbers it */
	uint64_t start, duration;
	uint32_t thread, reserved;
};

enum { FORM_UNKNOWN, FORM_CUBIN, FORM_PTX, FORM_FAT, FORM_OTHER };
enum { COMPILES_UNKNOWN, COMPILES_NOT, COMPILES };

struct module_record {
	struct record head; /* id: the call's correlation */
	uint64_t start, duration, bytes;
	uint8_t form, compiles;
	uint16_t cubins, ptx, arch; /* arch: 10 * major + minor of the device, 0 where it is not known */
	uint32_t thread;
	int32_t status;
};

enum { CLOCK_CUPTI = 1, CLOCK_EVENTS };

struct clock_record {
	struct record head; /* id: which clock */
	uint64_t other, before, after;
};

struct device_record {
	struct record head; /* id: its ordinal */
	uint32_t major, minor, multiprocessors, compute_mode;
	unsigned char uuid[16];
	uint64_t memory; /* bytes */
};

_Static_assert(sizeof(struct header) == HEADER, "the head is a page");
_Static_assert(offsetof(struct header, losses) == 80 && offsetof(struct header, lost_calls) == 512, "as documented");
_Static_assert(sizeof(struct chunk) == 16 && sizeof(struct record) == 8, "as documented");
_Static_assert(sizeof(struct call_record) == 48 && sizeof(struct name_record) == 16, "as documented");
_Static_assert(sizeof(struct work_record) == 56 && sizeof(struct jit_record) == 48, "as documented");
_Static_assert(sizeof(struct overhead_record) == 32 && sizeof(struct module_record) == 48, "as documented");
_Static_assert(sizeof(struct clock_record) == 32 && sizeof(struct device_record) == 48, "as documented");

/* now is CLOCK_MONOTONIC, ns. */
uint64_t now(void);

/*
 * trace_open makes the trace of this process in a directory; false, with the reason on
 * standard error, where it cannot. Once it is open, sample is noted in it.
 */
bool trace_open(const char *dir, uint64_t most_bytes, uint32_t sample);

/*
 * trace_close notes that nothing comes any more, and whether it ended at once, with nothing
 * collected. What comes all the same is thrown away.
 */
void trace_close(bool at_once);

/* trace_forget lets go of a trace that is the parent's, in a child. */
void trace_forget(void);

/* trace_is_ours tells whether one is open that this process opened, and not its parent by vfork. */
bool trace_is_ours(void);

void trace_method(enum method method);

/* trace_put appends a record; what finds no room is counted. */
void trace_put(const struct record *record);

/* trace_text appends a name, at most 3 KiB of it. */
void trace_text(enum name_space space, uint32_t id, const char *text, size_t length);

/* complain notes why something is not as it was asked for. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* fact notes what is so: "driver=12040". */
void fact(const char *format, ...) __attribute__((format(printf, 1, 2)));

void count_lost(enum lost what, uint64_t n);

/* function_name numbers the name of a kernel, from 1, and notes it once; 0 is that there is no place for more. */
uint32_t function_name(const char *name);

uint32_t thread_id(void);

/* next_correlation numbers calls within the process, from 1. */
uint32_t next_correlation(void);

#endif
