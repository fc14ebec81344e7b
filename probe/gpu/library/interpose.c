/*
 * The functions that stand before the driver's. A program comes by the driver's functions
 * in three ways, and gets these in each: it is linked with the library, and the dynamic
 * linker finds what was preloaded first; it asks dlsym, for which the one below stands;
 * or it asks cuGetProcAddress, as the CUDA runtime does, whether that is linked
 * statically or not. What is handed out through cuGetExportTable is not seen.
 */
#define _GNU_SOURCE
#include "probe.h"
#include "oldest.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define NO_BYTES UINT64_MAX
#define SYNCHRONOUS ((cu_handle)UINTPTR_MAX)

/* ONE has no second function; of two, LEGACY's stream 0 is the context's, and THREAD's the thread's own. */
enum { ONE, LEGACY, THREAD };

enum {
#define DEFINE_CALL(name, ...) NUMBER_##name,
#define DEFINE_SYNC(name, ...) NUMBER_##name,
#define DEFINE_COPY(name, ...) NUMBER_##name,
#define DEFINE_LAUNCH(name, ...) NUMBER_##name,
#define DEFINE_LOAD(name, ...) NUMBER_##name,
#define DEFINE_SPECIAL(name, ...) NUMBER_##name,
#include "calls.def"
	NUMBERS
};

_Static_assert((int)NUMBERS < (int)CALLS_COUNTED, "each has a place among those that are counted");

struct function {
	const char *name, *base;
	int since, until, twin;
	void *stand_in;
	void *_Atomic real;
	_Atomic bool named;
};

static struct function functions[NUMBERS];

/* Those of a name, or a base, follow each other from where its hash leads. */
enum { PLACES = 1024 };
static uint16_t by_name[PLACES], by_base[PLACES]; /* number + 1 */
static pthread_once_t indexed = PTHREAD_ONCE_INIT;

static _Thread_local bool within __attribute__((tls_model("initial-exec"))); /* a call is under way */
static void *_Atomic library; /* the driver's handle */

/* The C library's dlsym, and where the one below begins. */
void *(*tare_gpu_dlsym)(void *, const char *) __attribute__((visibility("hidden")));
extern const char tare_gpu_own_dlsym[] __attribute__((visibility("hidden")));

static void find_dlsym(void)
{
	static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5" };
	void *p = NULL;

	for (size_t i = 0; p == NULL && i < sizeof(versions) / sizeof(versions[0]); i++)
		p = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	if (p == NULL)
		abort(); /* no program could find a function any more */
	tare_gpu_dlsym = (void *(*)(void *, const char *))p;
}

static void *next_symbol(void *handle, const char *name)
{
	if (tare_gpu_dlsym == NULL)
		find_dlsym();
	return tare_gpu_dlsym(handle, name);
}

/* The library is linked with -Bsymbolic-functions, and not -Bsymbolic, with which this would find it first in any case. */
bool standing(void) { return next_symbol(RTLD_DEFAULT, "dlsym") == (void *)tare_gpu_own_dlsym; }

static uint32_t place_of(const char *name)
{
	uint32_t h = 2166136261u;

	for (; *name != '\0'; name++)
		h = (h ^ (unsigned char)*name) * 16777619u;
	return h % PLACES;
}

static void put_in(uint16_t places[PLACES], const char *name, int number)
{
	uint32_t at = place_of(name);

	while (places[at] != 0)
		at = (at + 1) % PLACES;
	places[at] = (uint16_t)(number + 1);
}

static void make_index(void)
{
	for (int i = 0; i < NUMBERS; i++) {
		put_in(by_name, functions[i].name, i);
		put_in(by_base, functions[i].base, i);
	}
}

static struct function *named(const char *name)
{
	pthread_once(&indexed, make_index);
	for (uint32_t at = place_of(name); by_name[at] != 0; at = (at + 1) % PLACES)
		if (strcmp(functions[by_name[at] - 1].name, name) == 0)
			return &functions[by_name[at] - 1];
	return NULL;
}

void *driver_symbol(const char *name)
{
	void *handle = atomic_load(&library), *p;
	struct function *f = named(name);

	if (f != NULL && (p = atomic_load(&f->real)) != NULL)
		return p;
	if (handle == NULL) {
		handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
		if (handle == NULL)
			return NULL;
		atomic_store(&library, handle);
	}
	return next_symbol(handle, name);
}

static void *find_real(struct function *f)
{
	void *p = next_symbol(RTLD_NEXT, f->name);

	if (p == NULL)
		p = driver_symbol(f->name);
	if (p != NULL)
		atomic_store_explicit(&f->real, p, memory_order_release);
	return p;
}

static inline void *real_of(int number)
{
	void *p = atomic_load_explicit(&functions[number].real, memory_order_acquire);

	return p != NULL ? p : find_real(&functions[number]);
}

/* remember keeps the first address that a function was found at. */
static void *remember(struct function *f, void *p)
{
	void *none = NULL;

	atomic_compare_exchange_strong(&f->real, &none, p);
	return f->stand_in;
}

static bool wanted(void)
{
	static _Atomic int known;
	int k = atomic_load_explicit(&known, memory_order_relaxed);

	if (k == 0) {
		const char *dir = getenv("TARE_GPU_TRACE");

		k = dir != NULL && *dir != '\0' ? 1 : 2;
		atomic_store(&known, k);
	}
	return k == 1;
}

/* tare_gpu_stand_in is asked by the dlsym below, and gives NULL where the C library's is to be asked. */
__attribute__((used, visibility("hidden"))) void *tare_gpu_stand_in(void *handle, const char *name)
{
	struct function *f;
	void *p;

	if (tare_gpu_dlsym == NULL)
		find_dlsym();
	if (name == NULL || name[0] != 'c' || name[1] != 'u' || handle == RTLD_NEXT || handle == RTLD_DEFAULT || !wanted())
		return NULL;
	f = named(name);
	if (f == NULL)
		return NULL;
	p = tare_gpu_dlsym(handle, name);
	if (p == NULL || p == f->stand_in)
		return NULL;
	if (atomic_load(&library) == NULL)
		atomic_store(&library, handle);
	return remember(f, p);
}

/*
 * dlsym asks the function above and, where that has nothing, goes on to the C library's
 * by a jump: what RTLD_NEXT leads to depends on who calls, and that is who called this.
 */
#if defined(__x86_64__)
__asm__(".text\n"
	".p2align 4\n"
	".globl dlsym\n"
	".type dlsym, @function\n"
	".globl tare_gpu_own_dlsym\n"
	".hidden tare_gpu_own_dlsym\n"
	".hidden tare_gpu_dlsym\n"
	"dlsym:\n"
	"tare_gpu_own_dlsym:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	pushq %rdi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	pushq %rsi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	subq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	call tare_gpu_stand_in\n"
	"	addq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %rsi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %rdi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	testq %rax, %rax\n"
	"	jne 1f\n"
	"	jmpq *tare_gpu_dlsym(%rip)\n"
	"1:	ret\n"
	"	.cfi_endproc\n"
	".size dlsym, .-dlsym\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".p2align 4\n"
	".globl dlsym\n"
	".type dlsym, %function\n"
	".globl tare_gpu_own_dlsym\n"
	".hidden tare_gpu_own_dlsym\n"
	".hidden tare_gpu_dlsym\n"
	"dlsym:\n"
	"tare_gpu_own_dlsym:\n"
	"	.cfi_startproc\n"
	"	hint #34\n"
	"	stp x29, x30, [sp, #-32]!\n"
	"	.cfi_def_cfa_offset 32\n"
	"	.cfi_offset 29, -32\n"
	"	.cfi_offset 30, -24\n"
	"	mov x29, sp\n"
	"	stp x0, x1, [sp, #16]\n"
	"	bl tare_gpu_stand_in\n"
	"	mov x16, x0\n"
	"	ldp x0, x1, [sp, #16]\n"
	"	ldp x29, x30, [sp], #32\n"
	"	.cfi_def_cfa_offset 0\n"
	"	cbnz x16, 1f\n"
	"	adrp x17, tare_gpu_dlsym\n"
	"	ldr x17, [x17, #:lo12:tare_gpu_dlsym]\n"
	"	br x17\n"
	"1:	mov x0, x16\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size dlsym, .-dlsym\n");
#else
#error "CUDA is for x86-64 and arm64"
#endif

/*
 * substitute gives what stands before a function that cuGetProcAddress has handed out,
 * or the function itself where it is none of those known. What has the address of one that is
 * exported is that one; else the version tells which.
 */
static void *substitute(const char *symbol, void *p, int version, uint64_t flags)
{
	const int twin = flags & CU_PER_THREAD_STREAMS ? THREAD : LEGACY;
	void *handle = atomic_load(&library);
	struct function *ranged = NULL;
	bool newer = false;

	pthread_once(&indexed, make_index);
	for (uint32_t at = place_of(symbol); by_base[at] != 0; at = (at + 1) % PLACES) {
		struct function *f = &functions[by_base[at] - 1];

		if (strcmp(f->base, symbol) != 0)
			continue;
		if (p == f->stand_in)
			return p; /* the driver looked its own up, and found this */
		if (handle != NULL && next_symbol(handle, f->name) == p)
			return remember(f, p);
		if (f->twin != ONE && f->twin != twin)
			continue;
		if (version >= f->since && version <= f->until)
			ranged = f;
		newer |= version > NEWEST;
	}
	if (ranged != NULL) {
		/* Where the same is exported, that is called: what was handed out may itself call what is exported. */
		void *exported = handle == NULL ? NULL : next_symbol(handle, ranged->name);

		return remember(ranged, exported != NULL && exported != ranged->stand_in ? exported : p);
	}
	if (newer) {
		count_lost(UNKNOWN_VERSIONS, 1);
		complain("%s was asked for as of version %d, which is not known here: its calls are not seen", symbol, version);
	}
	return p;
}

/* --- Calls ---------------------------------------------------------------------------- */

struct span {
	uint64_t start, end;
	uint32_t correlation;
};

/* enter tells whether a call is to be recorded: not one that the driver makes itself within another. */
static inline bool enter(struct span *s)
{
	const int st = atomic_load_explicit(&state, memory_order_acquire);

	if (st != RECORDING && (st == PASSING || !begin()))
		return false;
	if (within)
		return false;
	within = true;
	s->correlation = next_correlation();
	return true;
}

static void leave(const struct span *s, int number, cu_result r, uint64_t bytes, uint8_t flags)
{
	struct call_record c = { { RECORD_CALL, flags, sizeof(c), (uint32_t)number }, s->start, s->end - s->start, 0, s->correlation, r, thread_id(), 0 };

	if (bytes != NO_BYTES) {
		c.head.flags |= CALL_BYTES;
		c.bytes = bytes;
	}
	if (!atomic_load_explicit(&functions[number].named, memory_order_relaxed) && !atomic_exchange(&functions[number].named, true))
		trace_text(NAME_CALL, (uint32_t)number, functions[number].name, strlen(functions[number].name));
	trace_put(&c.head);
	within = false;
}

void interpose_forget(void)
{
	within = false;
	for (int i = 0; i < NUMBERS; i++)
		atomic_store_explicit(&functions[i].named, false, memory_order_relaxed);
}

static inline cu_handle stream_of(cu_handle s, int twin) { return s == NULL && twin == THREAD ? CU_STREAM_PER_THREAD : s; }

static uint64_t sum_of(const size_t *sizes, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += sizes[i];
	return sum;
}

/* --- Copies --------------------------------------------------------------------------- */

/* memory_at asks the driver what an address is of; what it does not know is pageable memory of the host. */
static uint8_t memory_at(uintptr_t at, int type)
{
	static _Atomic uintptr_t known; /* the function, 1 where there is none */
	uintptr_t p = atomic_load_explicit(&known, memory_order_relaxed);
	unsigned is = 0, managed = 0;

	if (type == CU_MEMORY_ARRAY)
		return MEMORY_ARRAY;
	if (type == CU_MEMORY_DEVICE)
		return MEMORY_DEVICE;
	if (p == 0) {
		p = (uintptr_t)driver_symbol("cuPointerGetAttribute");
		if (p == 0)
			p = 1;
		atomic_store(&known, p);
	}
	if (p == 1 || captures())
		return MEMORY_UNKNOWN;
	if (((cu_result (*)(void *, int, cu_address))p)(&is, CU_POINTER_MEMORY_TYPE, at) != CU_SUCCESS)
		return MEMORY_PAGEABLE;
	if (((cu_result (*)(void *, int, cu_address))p)(&managed, CU_POINTER_IS_MANAGED, at) == CU_SUCCESS && (managed & 0xff) != 0)
		return MEMORY_MANAGED;
	return is == CU_MEMORY_HOST ? MEMORY_PINNED : is == CU_MEMORY_DEVICE ? MEMORY_DEVICE : MEMORY_UNKNOWN;
}

static uint8_t direction_of(uint8_t from, uint8_t to)
{
	static const uint8_t directions[3][3] = { { HTOH, HTOD, HTOA }, { DTOH, DTOD, DTOA }, { ATOH, ATOD, ATOA } };
	const uint8_t kinds[6] = { 3, 0, 0, 1, 2, 1 }; /* of memory: host, device, array; 3 is not known */

	return kinds[from] == 3 || kinds[to] == 3 ? 0 : directions[kinds[from]][kinds[to]];
}

/* copied describes a copy; a type of 0 is that the address tells. */
static struct work copied(size_t bytes, uintptr_t from, int from_type, uintptr_t to, int to_type)
{
	struct work w = { .kind = WORK_COPY, .bytes = bytes };

	w.from = memory_at(from, from_type == CU_MEMORY_UNIFIED ? 0 : from_type);
	w.to = memory_at(to, to_type == CU_MEMORY_UNIFIED ? 0 : to_type);
	w.direction = direction_of(w.from, w.to);
	if (w.direction == 0 && from_type == CU_MEMORY_HOST && to_type != 0)
		w.direction = to_type == CU_MEMORY_ARRAY ? HTOA : to_type == CU_MEMORY_DEVICE ? HTOD : 0;
	if (w.direction == 0 && to_type == CU_MEMORY_HOST && from_type != 0)
		w.direction = from_type == CU_MEMORY_ARRAY ? ATOH : from_type == CU_MEMORY_DEVICE ? DTOH : 0;
	return w;
}

static struct work copied_peer(size_t bytes)
{
	return (struct work){ .kind = WORK_COPY, .direction = PTOP, .from = MEMORY_DEVICE, .to = MEMORY_DEVICE, .bytes = bytes };
}

static uintptr_t address(int type, const void *host, cu_address device) { return type == CU_MEMORY_HOST ? (uintptr_t)host : (uintptr_t)device; }

static struct work copied_2d(const struct cu_copy2d *c)
{
	if (c == NULL)
		return (struct work){ .kind = WORK_COPY };
	return copied(c->width * c->height, address(c->from_type, c->from_host, c->from_device), c->from_type,
		      address(c->to_type, c->to_host, c->to_device), c->to_type);
}

static struct work copied_3d(const struct cu_copy3d *c)
{
	if (c == NULL)
		return (struct work){ .kind = WORK_COPY };
	return copied(c->width * c->height * c->depth, address(c->from_type, c->from_host, c->from_device), c->from_type,
		      address(c->to_type, c->to_host, c->to_device), c->to_type);
}

/* leave_copy records a copy that was made, by its call where it is not timed by events. */
static void leave_copy(const struct span *s, int number, cu_result r, const struct work *w, struct slot *slot, bool async)
{
	if (r == CU_SUCCESS && slot == NULL) {
		struct work_record c = { { RECORD_WORK, (uint8_t)(WORK_BY_CALL | (async ? WORK_ASYNC : 0)), sizeof(c), 0 }, s->start, s->end - s->start, w->bytes,
					 s->correlation, UINT32_MAX, 0, 0, w->kind, w->direction, w->from, w->to, thread_id() };

		trace_put(&c.head);
	}
	leave(s, number, r, w->bytes, 0);
}

/* --- Modules -------------------------------------------------------------------------- */

/* arch is 10 * major + minor of the current context's device; 0 where there is none. */
static uint32_t arch(void)
{
	cu_result (*current)(cu_device *) = (cu_result (*)(cu_device *))driver_symbol("cuCtxGetDevice");
	cu_result (*attribute)(int *, int, cu_device) = (cu_result (*)(int *, int, cu_device))driver_symbol("cuDeviceGetAttribute");
	cu_device d = 0;
	int major = 0, minor = 0;

	/* A library is loaded before there is a context: then the first device stands for all. */
	if (attribute == NULL || current == NULL)
		return 0;
	if (current(&d) != CU_SUCCESS)
		d = 0;
	if (attribute(&major, CU_ATTRIBUTE_MAJOR, d) != CU_SUCCESS || attribute(&minor, CU_ATTRIBUTE_MINOR, d) != CU_SUCCESS)
		return 0;
	return (uint32_t)(10 * major + minor);
}

static void leave_load(const struct span *s, int number, cu_result r, struct image image)
{
	struct module_record m = { { RECORD_MODULE, 0, sizeof(m), s->correlation }, s->start, s->end - s->start, image.bytes, image.form, 0, image.cubins, image.ptx, 0, thread_id(), r };

	m.arch = (uint16_t)arch();
	m.compiles = image_compiles(&image, m.arch);
	trace_put(&m.head);
	leave(s, number, r, image.bytes > 0 ? image.bytes : NO_BYTES, 0);
}

/* --- The functions -------------------------------------------------------------------- */

#define DEFINE_CALL(name, base, since, until, twin, params, args, bytes)                        \
	EXPORT cu_result name params                                                            \
	{                                                                                       \
		cu_result(*real_) params = (cu_result(*) params)real_of(NUMBER_##name);         \
		struct span span_;                                                              \
		cu_result r;                                                                    \
		if (real_ == NULL)                                                              \
			return CU_NOT_FOUND;                                                    \
		if (!enter(&span_))                                                             \
			return real_ args;                                                      \
		span_.start = now();                                                            \
		r = real_ args;                                                                 \
		span_.end = now();                                                              \
		leave(&span_, NUMBER_##name, r, bytes, 0);                                      \
		return r;                                                                       \
	}

#define DEFINE_SYNC(name, base, since, until, twin, params, args)                               \
	EXPORT cu_result name params                                                            \
	{                                                                                       \
		cu_result(*real_) params = (cu_result(*) params)real_of(NUMBER_##name);         \
		struct span span_;                                                              \
		cu_result r;                                                                    \
		if (real_ == NULL)                                                              \
			return CU_NOT_FOUND;                                                    \
		if (!enter(&span_))                                                             \
			return real_ args;                                                      \
		span_.start = now();                                                            \
		r = real_ args;                                                                 \
		span_.end = now();                                                              \
		timing_collect();                                                               \
		leave(&span_, NUMBER_##name, r, NO_BYTES, 0);                                   \
		return r;                                                                       \
	}

#define DEFINE_COPY(name, base, since, until, twin, params, args, copied, stream)               \
	EXPORT cu_result name params                                                            \
	{                                                                                       \
		cu_result(*real_) params = (cu_result(*) params)real_of(NUMBER_##name);         \
		const bool async_ = (stream) != SYNCHRONOUS;                                    \
		struct slot *slot_;                                                             \
		struct work work_;                                                              \
		struct span span_;                                                              \
		cu_result r;                                                                    \
		if (real_ == NULL)                                                              \
			return CU_NOT_FOUND;                                                    \
		if (!enter(&span_))                                                             \
			return real_ args;                                                      \
		slot_ = async_ ? timing_begin(stream_of(stream, twin)) : NULL;                  \
		span_.start = now();                                                            \
		r = real_ args;                                                                 \
		span_.end = now();                                                              \
		work_ = copied;                                                                 \
		work_.correlation = span_.correlation;                                          \
		work_.async = async_;                                                           \
		timing_end(slot_, stream_of(stream, twin), r != CU_SUCCESS, &work_);            \
		if (!async_)                                                                    \
			timing_collect();                                                       \
		leave_copy(&span_, NUMBER_##name, r, &work_, slot_, async_);                    \
		return r;                                                                       \
	}

#define DEFINE_LAUNCH(name, base, since, until, twin, params, args, function, stream)           \
	EXPORT cu_result name params                                                            \
	{                                                                                       \
		cu_result(*real_) params = (cu_result(*) params)real_of(NUMBER_##name);         \
		struct work work_ = { .kind = WORK_KERNEL };                                    \
		struct slot *slot_;                                                             \
		struct span span_;                                                              \
		bool first_;                                                                    \
		cu_result r;                                                                    \
		if (real_ == NULL)                                                              \
			return CU_NOT_FOUND;                                                    \
		if (!enter(&span_))                                                             \
			return real_ args;                                                      \
		slot_ = timing_begin(stream_of(stream, twin));                                  \
		span_.start = now();                                                            \
		r = real_ args;                                                                 \
		span_.end = now();                                                              \
		work_.label = function_of(function, &first_);                                    \
		work_.correlation = span_.correlation;                                          \
		timing_end(slot_, stream_of(stream, twin), r != CU_SUCCESS, &work_);            \
		leave(&span_, NUMBER_##name, r, NO_BYTES, first_ ? CALL_FIRST : 0);             \
		return r;                                                                       \
	}

#define DEFINE_LOAD(name, base, since, until, twin, params, args, image)                        \
	EXPORT cu_result name params                                                            \
	{                                                                                       \
		cu_result(*real_) params = (cu_result(*) params)real_of(NUMBER_##name);         \
		struct span span_;                                                              \
		cu_result r;                                                                    \
		if (real_ == NULL)                                                              \
			return CU_NOT_FOUND;                                                    \
		if (!enter(&span_))                                                             \
			return real_ args;                                                      \
		span_.start = now();                                                            \
		r = real_ args;                                                                 \
		span_.end = now();                                                              \
		leave_load(&span_, NUMBER_##name, r, image);                                    \
		return r;                                                                       \
	}

#define DEFINE_SPECIAL(name, base, since, until, twin)

#include "calls.def"

/* The function that the macros above would begin with, for those that are written out. */
#define REAL(name, params) cu_result(*real_) params = (cu_result(*) params)real_of(NUMBER_##name)

EXPORT cu_result cuInit(unsigned flags)
{
	static _Atomic bool once;
	REAL(cuInit, (unsigned));
	struct span s;
	bool recorded;
	cu_result r;

	if (real_ == NULL)
		return CU_NOT_FOUND;
	recorded = enter(&s);
	s.start = now();
	r = real_(flags);
	s.end = now();
	if (r == CU_SUCCESS)
		settle();
	if (recorded)
		leave(&s, NUMBER_cuInit, r, NO_BYTES, 0);
	/* The driver has its own handlers for the end now, and the trace has to end before. */
	if (r == CU_SUCCESS && trace_is_ours()) {
		if (!atomic_exchange(&once, true))
			atexit(end);
		started();
	}
	return r;
}

EXPORT cu_result cuGetProcAddress(const char *symbol, void **p, int version, uint64_t flags)
{
	REAL(cuGetProcAddress, (const char *, void **, int, uint64_t));
	struct span s;
	cu_result r;

	if (real_ == NULL)
		return CU_NOT_FOUND;
	if (!enter(&s)) {
		r = real_(symbol, p, version, flags);
	} else {
		s.start = now();
		r = real_(symbol, p, version, flags);
		s.end = now();
		leave(&s, NUMBER_cuGetProcAddress, r, NO_BYTES, 0);
	}
	if (r == CU_SUCCESS && symbol != NULL && p != NULL && *p != NULL && wanted())
		*p = substitute(symbol, *p, version, flags);
	return r;
}

EXPORT cu_result cuGetProcAddress_v2(const char *symbol, void **p, int version, uint64_t flags, int *found)
{
	REAL(cuGetProcAddress_v2, (const char *, void **, int, uint64_t, int *));
	struct span s;
	cu_result r;

	if (real_ == NULL)
		return CU_NOT_FOUND;
	if (!enter(&s)) {
		r = real_(symbol, p, version, flags, found);
	} else {
		s.start = now();
		r = real_(symbol, p, version, flags, found);
		s.end = now();
		leave(&s, NUMBER_cuGetProcAddress_v2, r, NO_BYTES, 0);
	}
	if (r == CU_SUCCESS && symbol != NULL && p != NULL && *p != NULL && wanted())
		*p = substitute(symbol, *p, version, flags);
	return r;
}

EXPORT cu_result cuCtxDestroy_v2(cu_handle context)
{
	REAL(cuCtxDestroy_v2, (cu_handle));
	struct span s;
	cu_result r;

	if (real_ == NULL)
		return CU_NOT_FOUND;
	if (!enter(&s)) {
		cupti_flush();
		return real_(context);
	}
	timing_drop(context);
	s.start = now();
	r = real_(context);
	s.end = now();
	leave(&s, NUMBER_cuCtxDestroy_v2, r, NO_BYTES, 0);
	return r;
}

EXPORT cu_result cuDevicePrimaryCtxRetain(cu_handle *context, cu_device device)
{
	REAL(cuDevicePrimaryCtxRetain, (cu_handle *, cu_device));
	struct span s;
	cu_result r;

	if (real_ == NULL)
		return CU_NOT_FOUND;
	if (!enter(&s))
		return real_(context, device);
	s.start = now();
	r = real_(context, device);
	s.end = now();
	if (r == CU_SUCCESS && context != NULL)
		timing_primary(*context, device);
	leave(&s, NUMBER_cuDevicePrimaryCtxRetain, r, NO_BYTES, 0);
	return r;
}

static cu_result let_go(int number, cu_device device, bool reset)
{
	cu_result (*real)(cu_device) = (cu_result(*)(cu_device))real_of(number);
	struct span s;
	cu_result r;

	if (real == NULL)
		return CU_NOT_FOUND;
	if (!enter(&s)) {
		cupti_flush();
		return real(device);
	}
	timing_drop_primary(device, reset);
	s.start = now();
	r = real(device);
	s.end = now();
	leave(&s, number, r, NO_BYTES, 0);
	return r;
}

EXPORT cu_result cuDevicePrimaryCtxRelease(cu_device device) { return let_go(NUMBER_cuDevicePrimaryCtxRelease, device, false); }

EXPORT cu_result cuDevicePrimaryCtxRelease_v2(cu_device device) { return let_go(NUMBER_cuDevicePrimaryCtxRelease_v2, device, false); }

EXPORT cu_result cuDevicePrimaryCtxReset(cu_device device) { return let_go(NUMBER_cuDevicePrimaryCtxReset, device, true); }

EXPORT cu_result cuDevicePrimaryCtxReset_v2(cu_device device) { return let_go(NUMBER_cuDevicePrimaryCtxReset_v2, device, true); }

EXPORT cu_result cuModuleGetFunction(cu_handle *function, cu_handle module, const char *name)
{
	REAL(cuModuleGetFunction, (cu_handle *, cu_handle, const char *));
	struct span s;
	cu_result r;

	if (real_ == NULL)
		return CU_NOT_FOUND;
	if (!enter(&s))
		return real_(function, module, name);
	s.start = now();
	r = real_(function, module, name);
	s.end = now();
	if (r == CU_SUCCESS && name != NULL && function != NULL)
		name_function(*function, name);
	leave(&s, NUMBER_cuModuleGetFunction, r, NO_BYTES, 0);
	return r;
}

EXPORT cu_result cuLibraryGetKernel(cu_handle *kernel, cu_handle from, const char *name)
{
	REAL(cuLibraryGetKernel, (cu_handle *, cu_handle, const char *));
	struct span s;
	cu_result r;

	if (real_ == NULL)
		return CU_NOT_FOUND;
	if (!enter(&s))
		return real_(kernel, from, name);
	s.start = now();
	r = real_(kernel, from, name);
	s.end = now();
	if (r == CU_SUCCESS && name != NULL && kernel != NULL)
		name_function(*kernel, name);
	leave(&s, NUMBER_cuLibraryGetKernel, r, NO_BYTES, 0);
	return r;
}

EXPORT cu_result cuKernelGetFunction(cu_handle *function, cu_handle kernel)
{
	REAL(cuKernelGetFunction, (cu_handle *, cu_handle));
	struct span s;
	cu_result r;

	if (real_ == NULL)
		return CU_NOT_FOUND;
	if (!enter(&s))
		return real_(function, kernel);
	s.start = now();
	r = real_(function, kernel);
	s.end = now();
	if (r == CU_SUCCESS && function != NULL)
		name_as(*function, kernel);
	leave(&s, NUMBER_cuKernelGetFunction, r, NO_BYTES, 0);
	return r;
}

static cu_result launch_graph(int number, int twin, cu_handle graph, cu_handle stream)
{
	cu_result (*real)(cu_handle, cu_handle) = (cu_result(*)(cu_handle, cu_handle))real_of(number);
	struct work w = { .kind = WORK_GRAPH };
	struct slot *slot;
	struct span s;
	cu_result r;

	if (real == NULL)
		return CU_NOT_FOUND;
	if (!enter(&s))
		return real(graph, stream);
	slot = timing_begin(stream_of(stream, twin));
	s.start = now();
	r = real(graph, stream);
	s.end = now();
	w.correlation = s.correlation;
	timing_end(slot, stream_of(stream, twin), r != CU_SUCCESS, &w);
	leave(&s, number, r, NO_BYTES, 0);
	return r;
}

EXPORT cu_result cuGraphLaunch(cu_handle graph, cu_handle stream) { return launch_graph(NUMBER_cuGraphLaunch, LEGACY, graph, stream); }

EXPORT cu_result cuGraphLaunch_ptsz(cu_handle graph, cu_handle stream) { return launch_graph(NUMBER_cuGraphLaunch_ptsz, THREAD, graph, stream); }

static cu_result begin_capture(int number, cu_handle stream, int mode)
{
	cu_result (*real)(cu_handle, int) = (cu_result(*)(cu_handle, int))real_of(number);
	struct span s;
	cu_result r;

	if (real == NULL)
		return CU_NOT_FOUND;
	if (!enter(&s))
		return real(stream, mode);
	capturing(true);
	s.start = now();
	r = real(stream, mode);
	s.end = now();
	if (r != CU_SUCCESS)
		capturing(false);
	leave(&s, number, r, NO_BYTES, 0);
	return r;
}

/* The first version has no mode; a word that nobody reads does no harm. */
EXPORT cu_result cuStreamBeginCapture(cu_handle stream) { return begin_capture(NUMBER_cuStreamBeginCapture, stream, 0); }

EXPORT cu_result cuStreamBeginCapture_ptsz(cu_handle stream) { return begin_capture(NUMBER_cuStreamBeginCapture_ptsz, stream, 0); }

EXPORT cu_result cuStreamBeginCapture_v2(cu_handle stream, int mode) { return begin_capture(NUMBER_cuStreamBeginCapture_v2, stream, mode); }

EXPORT cu_result cuStreamBeginCapture_v2_ptsz(cu_handle stream, int mode) { return begin_capture(NUMBER_cuStreamBeginCapture_v2_ptsz, stream, mode); }

static cu_result begin_capture_to(int number, cu_handle stream, cu_handle graph, const void *of, const void *edges, size_t n, int mode)
{
	cu_result (*real)(cu_handle, cu_handle, const void *, const void *, size_t, int) =
		(cu_result(*)(cu_handle, cu_handle, const void *, const void *, size_t, int))real_of(number);
	struct span s;
	cu_result r;

	if (real == NULL)
		return CU_NOT_FOUND;
	if (!enter(&s))
		return real(stream, graph, of, edges, n, mode);
	capturing(true);
	s.start = now();
	r = real(stream, graph, of, edges, n, mode);
	s.end = now();
	if (r != CU_SUCCESS)
		capturing(false);
	leave(&s, number, r, NO_BYTES, 0);
	return r;
}

EXPORT cu_result cuStreamBeginCaptureToGraph(cu_handle stream, cu_handle graph, const void *of, const void *edges, size_t n, int mode)
{
	return begin_capture_to(NUMBER_cuStreamBeginCaptureToGraph, stream, graph, of, edges, n, mode);
}

EXPORT cu_result cuStreamBeginCaptureToGraph_ptsz(cu_handle stream, cu_handle graph, const void *of, const void *edges, size_t n, int mode)
{
	return begin_capture_to(NUMBER_cuStreamBeginCaptureToGraph_ptsz, stream, graph, of, edges, n, mode);
}

/* An end that fails is one all the same, where there was a beginning: the capture was invalid. */
static cu_result end_capture(int number, cu_handle stream, cu_handle *graph)
{
	enum { INVALIDATED = 901, UNJOINED = 904 };
	cu_result (*real)(cu_handle, cu_handle *) = (cu_result(*)(cu_handle, cu_handle *))real_of(number);
	struct span s;
	cu_result r;

	if (real == NULL)
		return CU_NOT_FOUND;
	if (!enter(&s))
		return real(stream, graph);
	s.start = now();
	r = real(stream, graph);
	s.end = now();
	if (r == CU_SUCCESS || r == INVALIDATED || r == UNJOINED)
		capturing(false);
	leave(&s, number, r, NO_BYTES, 0);
	return r;
}

EXPORT cu_result cuStreamEndCapture(cu_handle stream, cu_handle *graph) { return end_capture(NUMBER_cuStreamEndCapture, stream, graph); }

EXPORT cu_result cuStreamEndCapture_ptsz(cu_handle stream, cu_handle *graph) { return end_capture(NUMBER_cuStreamEndCapture_ptsz, stream, graph); }

#define ROW(name, base, since, until, twin) { #name, #base, since, until, twin, (void *)name, NULL, false },
static struct function functions[NUMBERS] = {
#define DEFINE_CALL(name, base, since, until, twin, ...) ROW(name, base, since, until, twin)
#define DEFINE_SYNC(name, base, since, until, twin, ...) ROW(name, base, since, until, twin)
#define DEFINE_COPY(name, base, since, until, twin, ...) ROW(name, base, since, until, twin)
#define DEFINE_LAUNCH(name, base, since, until, twin, ...) ROW(name, base, since, until, twin)
#define DEFINE_LOAD(name, base, since, until, twin, ...) ROW(name, base, since, until, twin)
#define DEFINE_SPECIAL(name, base, since, until, twin) ROW(name, base, since, until, twin)
#include "calls.def"
};
