/*
 * A libcuda.so.1 for tests: a device on which nothing is computed, and all takes a known
 * time of virtual_clock.c's. It counts how often each of its functions is called, and
 * writes that to the file that FAKE_COUNTS names when the process ends.
 *
 * What takes how long, by the caller's clock:
 *
 *   cuInit 100 ms; making a context 50 ms; an allocation 1 us and its bytes / 1024 ns;
 *   a copy that is waited for 10 us and its bytes in ns; one that is not 3 us, and its
 *   bytes in ns on the device; loading a module 1 ms, and 20 ms where it is PTX; a launch
 *   5 us, and as many us on the device as its grid is wide; everything else 100 ns.
 *
 * A stream does one thing after the other. An event's moment is that at which its stream
 * comes to it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long address;

extern void virtual_advance(uint64_t) __attribute__((weak));
extern uint64_t virtual_now(void) __attribute__((weak));

enum { OK = 0, INVALID = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, NOT_FOUND = 500, NOT_READY = 600 };

static void takes(uint64_t ns)
{
	if (virtual_advance != NULL)
		virtual_advance(ns);
}

static uint64_t at(void) { return virtual_now != NULL ? virtual_now() : 0; }

/* Counting. */
enum { MOST = 256 };
static struct {
	const char *_Atomic name;
	_Atomic long n;
} counts[MOST];

static void count(const char *name)
{
	for (int i = 0; i < MOST; i++) {
		const char *none = NULL;

		if (atomic_load(&counts[i].name) == NULL)
			atomic_compare_exchange_strong(&counts[i].name, &none, name);
		if (strcmp(atomic_load(&counts[i].name), name) == 0) {
			atomic_fetch_add(&counts[i].n, 1);
			return;
		}
	}
}

__attribute__((destructor)) static void report(void)
{
	const char *path = getenv("FAKE_COUNTS");
	FILE *f = path == NULL ? NULL : fopen(path, "w");

	if (f == NULL)
		return;
	for (int i = 0; i < MOST && counts[i].name != NULL; i++)
		fprintf(f, "%s %ld\n", counts[i].name, counts[i].n);
	fclose(f);
}

#define CALLED(ns)               \
	do {                     \
		if (!fast)       \
			count(__func__); \
		takes(ns);       \
	} while (0)

static int fast; /* FAKE_FAST: for benchmarks nothing is counted */

/* Streams, contexts and events are what their handles point to. */
struct stream {
	_Atomic uint64_t free_at;
	int capturing;
};
struct context {
	int device;
	struct stream null;
};
struct event {
	uint64_t at;
};

static struct context primary[2] = { { 0, { 0, 0 } }, { 1, { 0, 0 } } };
static _Thread_local struct context *current;
static _Thread_local struct stream own; /* of the thread */
static struct stream *streams[64];
static _Atomic int stream_count;

static struct stream *stream_of(void *handle, int thread)
{
	if (handle == (void *)2 || (handle == NULL && thread))
		return &own;
	if (handle == NULL || handle == (void *)1)
		return current != NULL ? &current->null : &own;
	return handle;
}

/* does gives a stream work, and returns when it ends. */
static uint64_t does(struct stream *s, uint64_t ns)
{
	uint64_t begin = s->free_at > at() ? s->free_at : at();

	s->free_at = begin + ns;
	return s->free_at;
}

static void until(uint64_t moment)
{
	if (moment > at())
		takes(moment - at());
}

int cuInit(unsigned flags)
{
	const char *injection = getenv("CUDA_INJECTION64_PATH"), *status = getenv("FAKE_INIT");

	fast = getenv("FAKE_FAST") != NULL;
	CALLED(100000000);
	if (status != NULL)
		return atoi(status);
	if (injection != NULL) {
		void *library = dlopen(injection, RTLD_NOW);
		int (*initialize)(void) = library == NULL ? NULL : (int (*)(void))dlsym(library, "InitializeInjection");

		if (initialize != NULL)
			initialize();
	}
	return flags == 0 ? OK : INVALID;
}

int cuDriverGetVersion(int *v) { CALLED(100); *v = 12040; return OK; }
int cuModuleGetLoadingMode(int *v) { CALLED(100); *v = 2; return OK; }
int cuDeviceGetCount(int *n) { CALLED(100); *n = 2; return OK; }
int cuDeviceGet(int *d, int i) { CALLED(100); *d = i; return i < 2 ? OK : INVALID; }
int cuDeviceGetName(char *name, int n, int d) { CALLED(100); snprintf(name, (size_t)n, "Fake GPU %d", d); return OK; }
int cuDeviceTotalMem_v2(size_t *n, int d) { CALLED(100); *n = (size_t)(d + 1) << 30; return OK; }

int cuDeviceGetUuid_v2(unsigned char *id, int d)
{
	CALLED(100);
	for (int i = 0; i < 16; i++)
		id[i] = (unsigned char)(16 * d + i);
	return OK;
}

int cuDeviceGetAttribute(int *v, int which, int d)
{
	CALLED(100);
	*v = which == 75 ? 8 : which == 76 ? 6 : which == 16 ? 108 : which == 20 ? 3 * d : 0;
	return OK;
}

int cuCtxCreate_v2(struct context **c, unsigned flags, int d)
{
	CALLED(50000000);
	(void)flags;
	current = *c = calloc(1, sizeof(**c));
	(*c)->device = d;
	return OK;
}

int cuCtxDestroy_v2(struct context *c) { CALLED(100); if (c == current) current = NULL; free(c); return OK; }
int cuCtxGetCurrent(struct context **c) { CALLED(0); *c = current; return OK; }
int cuCtxSetCurrent(struct context *c) { CALLED(100); current = c; return OK; }
int cuCtxPushCurrent_v2(struct context *c) { CALLED(0); current = c; return OK; }
int cuCtxPopCurrent_v2(struct context **c) { CALLED(0); *c = current; current = NULL; return OK; }
int cuCtxGetDevice(int *d) { CALLED(0); if (current == NULL) return 201; *d = current->device; return OK; }
int cuDevicePrimaryCtxRetain(struct context **c, int d) { CALLED(50000000); *c = &primary[d & 1]; return OK; }
int cuDevicePrimaryCtxRelease_v2(int d) { CALLED(100); (void)d; return OK; }
int cuDevicePrimaryCtxReset_v2(int d) { CALLED(100); (void)d; return OK; }

int cuCtxSynchronize(void)
{
	CALLED(100);
	if (current != NULL)
		until(current->null.free_at);
	until(own.free_at);
	for (int i = 0; i < stream_count; i++)
		until(streams[i]->free_at);
	return OK;
}

/* Modules: a text is PTX. */
static int load(void **m, const void *image)
{
	takes(memcmp(image, ".version", 8) == 0 ? 20000000 : 1000000);
	*m = malloc(8);
	return OK;
}

int cuModuleLoad(void **m, const char *file) { CALLED(1000000); FILE *f = fopen(file, "r"); if (f == NULL) return 301; fclose(f); *m = malloc(8); return OK; }
int cuModuleLoadData(void **m, const void *image) { CALLED(0); return load(m, image); }
int cuModuleLoadDataEx(void **m, const void *image, unsigned n, int *o, void **v) { CALLED(0); (void)n; (void)o; (void)v; return load(m, image); }
int cuModuleLoadFatBinary(void **m, const void *image) { CALLED(0); return load(m, image); }

int cuLibraryLoadData(void **l, const void *image, int *a, void **b, unsigned c, int *d, void **e, unsigned f)
{
	CALLED(0);
	return a == NULL && b == NULL && c == 0 && d == NULL && e == NULL && f == 7 ? load(l, image) : INVALID;
}

int cuModuleUnload(void *m) { CALLED(100); free(m); return OK; }
int cuModuleGetFunction(void **f, void *m, const char *name) { CALLED(100); (void)m; if (strcmp(name, "absent") == 0) return NOT_FOUND; *f = strdup(name); return OK; }
int cuLibraryGetKernel(void **f, void *l, const char *name) { CALLED(100); (void)l; *f = strdup(name); return OK; }
int cuKernelGetFunction(void **f, void *k) { CALLED(100); *f = strdup(k); return OK; }
int cuLinkCreate_v2(unsigned n, int *o, void **v, void **s) { CALLED(100); (void)n; (void)o; (void)v; *s = malloc(8); return OK; }

int cuLinkAddData_v2(void *s, int type, void *data, size_t size, const char *name, unsigned n, int *o, void **v)
{
	CALLED(30000000);
	(void)s; (void)type; (void)data; (void)size; (void)name; (void)n; (void)o; (void)v;
	return OK;
}

int cuLinkComplete(void *s, void **cubin, size_t *size) { CALLED(2000000); (void)s; *cubin = NULL; *size = 0; return OK; }
int cuLinkDestroy(void *s) { CALLED(100); free(s); return OK; }

/* Memory. Device addresses are high; pinned memory is what was allocated or registered here. */
static struct { uintptr_t from, to; } pinned[64];
static _Atomic int pinned_count;
static _Atomic address next_address = 0x700000000000;

static void pin(void *p, size_t n)
{
	int i = atomic_fetch_add(&pinned_count, 1);

	if (i < 64) {
		pinned[i].from = (uintptr_t)p;
		pinned[i].to = (uintptr_t)p + n;
	}
}

int cuMemAlloc_v2(address *p, size_t n)
{
	CALLED(1000 + n / 1024);
	if (n > (size_t)1 << 40)
		return 2;
	*p = atomic_fetch_add(&next_address, n);
	return OK;
}

int cuMemAllocPitch_v2(address *p, size_t *pitch, size_t w, size_t h, unsigned e) { CALLED(1000); (void)e; *pitch = (w + 511) / 512 * 512; *p = atomic_fetch_add(&next_address, *pitch * h); return OK; }
int cuMemFree_v2(address p) { CALLED(2000); (void)p; return OK; }
int cuMemGetInfo_v2(size_t *a, size_t *t) { CALLED(100); *a = *t = (size_t)1 << 30; return OK; }
int cuMemHostAlloc(void **p, size_t n, unsigned f) { CALLED(200000); (void)f; *p = malloc(n); pin(*p, n); return OK; }
int cuMemFreeHost(void *p) { CALLED(100); free(p); return OK; }
int cuMemHostRegister_v2(void *p, size_t n, unsigned f) { CALLED(300000); (void)f; pin(p, n); return OK; }
int cuMemHostUnregister(void *p) { CALLED(100); (void)p; return OK; }

int cuPointerGetAttribute(void *data, int which, address p)
{
	CALLED(0);
	if (which == 8) {
		*(unsigned *)data = 0;
		return OK;
	}
	if (p >= 0x700000000000 && p < atomic_load(&next_address)) {
		*(unsigned *)data = 2;
		return OK;
	}
	for (int i = 0; i < pinned_count && i < 64; i++)
		if (p >= pinned[i].from && p < pinned[i].to) {
			*(unsigned *)data = 1;
			return OK;
		}
	return INVALID;
}

static int copy(size_t n) { takes(10000 + n); return OK; }
static int copy_async(size_t n, void *s, int thread) { takes(3000); does(stream_of(s, thread), n); return OK; }

int cuMemcpy(address to, address from, size_t n) { CALLED(0); (void)to; (void)from; return copy(n); }
int cuMemcpyHtoD_v2(address to, const void *from, size_t n) { CALLED(0); (void)to; (void)from; return copy(n); }
int cuMemcpyHtoD_v2_ptds(address to, const void *from, size_t n) { CALLED(0); (void)to; (void)from; return copy(n); }
int cuMemcpyDtoH_v2(void *to, address from, size_t n) { CALLED(0); (void)to; (void)from; return copy(n); }
int cuMemcpyDtoD_v2(address to, address from, size_t n) { CALLED(0); (void)to; (void)from; return copy(n); }
int cuMemcpyAsync(address to, address from, size_t n, void *s) { CALLED(0); (void)to; (void)from; return copy_async(n, s, 0); }
int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t n, void *s) { CALLED(0); (void)to; (void)from; return copy_async(n, s, 0); }
int cuMemcpyHtoDAsync_v2_ptsz(address to, const void *from, size_t n, void *s) { CALLED(0); (void)to; (void)from; return copy_async(n, s, 1); }
int cuMemcpyDtoHAsync_v2(void *to, address from, size_t n, void *s) { CALLED(0); (void)to; (void)from; return copy_async(n, s, 0); }

struct copy2d { size_t x1, y1; int t1; const void *h1; address d1; void *a1; size_t p1, x2, y2; int t2; void *h2; address d2; void *a2; size_t p2, width, height; };
int cuMemcpy2D_v2(const struct copy2d *c) { CALLED(0); return copy(c->width * c->height); }

/* Streams, events, kernels. */
int cuStreamCreate(struct stream **s, unsigned f)
{
	CALLED(100);
	(void)f;
	*s = calloc(1, sizeof(**s));
	streams[atomic_fetch_add(&stream_count, 1) % 64] = *s;
	return OK;
}

int cuStreamDestroy_v2(struct stream *s) { CALLED(100); (void)s; return OK; }
int cuStreamSynchronize(void *s) { CALLED(100); until(stream_of(s, 0)->free_at); return OK; }
int cuStreamSynchronize_ptsz(void *s) { CALLED(100); until(stream_of(s, 1)->free_at); return OK; }
int cuStreamIsCapturing(void *s, int *is) { CALLED(0); *is = stream_of(s, 0)->capturing; return OK; }
int cuStreamBeginCapture_v2(void *s, int mode) { CALLED(100); (void)mode; stream_of(s, 0)->capturing = 1; return OK; }
int cuStreamEndCapture(void *s, void **g) { CALLED(100); stream_of(s, 0)->capturing = 0; *g = malloc(8); return OK; }
int cuGraphInstantiateWithFlags(void **e, void *g, unsigned long long f) { CALLED(5000); (void)f; *e = g; return OK; }
int cuGraphLaunch(void *g, void *s) { CALLED(7000); (void)g; does(stream_of(s, 0), 50000); return OK; }
int cuEventCreate(struct event **e, unsigned f) { CALLED(0); (void)f; *e = calloc(1, sizeof(**e)); return OK; }
int cuEventDestroy_v2(struct event *e) { CALLED(0); free(e); return OK; }

static int record(struct event *e, struct stream *s)
{
	e->at = s->free_at > at() ? s->free_at : at();
	return OK;
}

int cuEventRecord(struct event *e, void *s) { CALLED(0); return record(e, stream_of(s, 0)); }
int cuEventRecord_ptsz(struct event *e, void *s) { CALLED(0); return record(e, stream_of(s, 1)); }
int cuEventQuery(struct event *e) { CALLED(0); return virtual_now == NULL || e->at <= at() ? OK : NOT_READY; }
int cuEventSynchronize(struct event *e) { CALLED(0); until(e->at); return OK; }

int cuEventElapsedTime(float *ms, struct event *a, struct event *b)
{
	CALLED(0);
	*ms = (float)((double)((int64_t)b->at - (int64_t)a->at) / 1e6);
	return OK;
}

static int launch(unsigned width, struct stream *s)
{
	takes(5000);
	if (width == 0)
		return INVALID;
	if (!s->capturing)
		does(s, 1000ull * width);
	return OK;
}

int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned n, void *s, void **p, void **x)
{
	CALLED(0);
	return f != NULL && gy == 1 && gz == 2 && bx == 3 && by == 4 && bz == 5 && n == 6 && p == (void **)8 && x == (void **)16 ? launch(gx, stream_of(s, 0)) : INVALID;
}

int cuLaunchKernel_ptsz(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned n, void *s, void **p, void **x)
{
	CALLED(0);
	return f != NULL && gy == 1 && gz == 2 && bx == 3 && by == 4 && bz == 5 && n == 6 && p == (void **)8 && x == (void **)16 ? launch(gx, stream_of(s, 1)) : INVALID;
}

struct config { unsigned g[3], b[3], n; void *s, *a; unsigned an; };
int cuLaunchKernelEx(const struct config *c, void *f, void **p, void **x) { CALLED(0); (void)f; (void)p; (void)x; return launch(c->g[0], stream_of(c->s, 0)); }

/* What is handed out by name, with the version from which it has the interface. */
static const struct {
	const char *base;
	int since, thread;
	void *function;
	void *unused;
} handed_out[] = {
#define OUT(base, since, thread, f) { base, since, thread, (void *)f, NULL }
	OUT("cuInit", 2000, 0, cuInit), OUT("cuDeviceGetAttribute", 2000, 0, cuDeviceGetAttribute), OUT("cuCtxCreate", 3020, 0, cuCtxCreate_v2),
	OUT("cuCtxDestroy", 4000, 0, cuCtxDestroy_v2), OUT("cuCtxSynchronize", 2000, 0, cuCtxSynchronize), OUT("cuCtxSetCurrent", 4000, 0, cuCtxSetCurrent),
	OUT("cuDevicePrimaryCtxRetain", 7000, 0, cuDevicePrimaryCtxRetain), OUT("cuModuleLoadData", 2000, 0, cuModuleLoadData),
	OUT("cuModuleLoad", 2000, 0, cuModuleLoad),
	OUT("cuLibraryLoadData", 12000, 0, cuLibraryLoadData), OUT("cuLibraryGetKernel", 12000, 0, cuLibraryGetKernel),
	OUT("cuModuleGetFunction", 2000, 0, cuModuleGetFunction), OUT("cuMemAlloc", 3020, 0, cuMemAlloc_v2), OUT("cuMemFree", 3020, 0, cuMemFree_v2),
	OUT("cuMemHostAlloc", 2020, 0, cuMemHostAlloc), OUT("cuMemHostRegister", 6050, 0, cuMemHostRegister_v2), OUT("cuMemcpyHtoD", 3020, 0, cuMemcpyHtoD_v2),
	OUT("cuMemcpyHtoD", 7000, 1, cuMemcpyHtoD_v2_ptds), OUT("cuMemcpyDtoH", 3020, 0, cuMemcpyDtoH_v2), OUT("cuMemcpyDtoD", 3020, 0, cuMemcpyDtoD_v2),
	OUT("cuMemcpy", 4000, 0, cuMemcpy), OUT("cuMemcpy2D", 3020, 0, cuMemcpy2D_v2), OUT("cuMemcpyHtoDAsync", 3020, 0, cuMemcpyHtoDAsync_v2),
	OUT("cuMemcpyHtoDAsync", 7000, 1, cuMemcpyHtoDAsync_v2_ptsz), OUT("cuMemcpyDtoHAsync", 3020, 0, cuMemcpyDtoHAsync_v2),
	OUT("cuStreamCreate", 2000, 0, cuStreamCreate), OUT("cuStreamSynchronize", 2000, 0, cuStreamSynchronize),
	OUT("cuStreamSynchronize", 7000, 1, cuStreamSynchronize_ptsz), OUT("cuLaunchKernel", 4000, 0, cuLaunchKernel), OUT("cuLaunchKernel", 7000, 1, cuLaunchKernel_ptsz),
	OUT("cuLaunchKernelEx", 11060, 0, cuLaunchKernelEx), OUT("cuGraphLaunch", 10000, 0, cuGraphLaunch),
	OUT("cuGraphInstantiateWithFlags", 11040, 0, cuGraphInstantiateWithFlags), OUT("cuStreamBeginCapture", 10010, 0, cuStreamBeginCapture_v2),
	OUT("cuStreamEndCapture", 10000, 0, cuStreamEndCapture), OUT("cuLinkCreate", 6050, 0, cuLinkCreate_v2), OUT("cuLinkAddData", 6050, 0, cuLinkAddData_v2),
	OUT("cuLinkComplete", 5050, 0, cuLinkComplete), OUT("cuLinkDestroy", 5050, 0, cuLinkDestroy), OUT("cuCtxGetCurrent", 4000, 0, cuCtxGetCurrent),
	OUT("cuMemGetInfo", 3020, 0, cuMemGetInfo_v2), OUT("cuCtxPushCurrent", 4000, 0, cuCtxPushCurrent_v2), OUT("cuCtxPopCurrent", 4000, 0, cuCtxPopCurrent_v2),
};

/* With FAKE_PRIVATE what is handed out for these has another address than what is exported. */
static int private_alloc(address *p, size_t n) { return cuMemAlloc_v2(p, n); }

static int private_launch(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned n, void *s, void **p, void **x)
{
	return cuLaunchKernel(f, gx, gy, gz, bx, by, bz, n, s, p, x);
}

int cuGetProcAddress(const char *symbol, void **f, int version, uint64_t flags);
int cuGetProcAddress_v2(const char *symbol, void **f, int version, uint64_t flags, int *found);

static int hand_out(const char *symbol, void **f, int version, uint64_t flags)
{
	void *found = NULL;

	for (size_t i = 0; i < sizeof(handed_out) / sizeof(handed_out[0]); i++)
		if (strcmp(handed_out[i].base, symbol) == 0 && version >= handed_out[i].since && (handed_out[i].thread == 0 || (flags & 2)))
			found = handed_out[i].function;
	if (strcmp(symbol, "cuGetProcAddress") == 0)
		found = version >= 12000 ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress;
	if (getenv("FAKE_PRIVATE") != NULL && found == (void *)cuMemAlloc_v2)
		found = (void *)private_alloc;
	if (getenv("FAKE_PRIVATE") != NULL && found == (void *)cuLaunchKernel)
		found = (void *)private_launch;
	*f = found;
	return found != NULL ? OK : NOT_FOUND;
}

int cuGetProcAddress(const char *symbol, void **f, int version, uint64_t flags) { CALLED(100); return hand_out(symbol, f, version, flags); }

int cuGetProcAddress_v2(const char *symbol, void **f, int version, uint64_t flags, int *found)
{
	int r;

	CALLED(100);
	r = hand_out(symbol, f, version, flags);
	if (found != NULL)
		*found = r == OK ? 0 : 1;
	return r;
}
