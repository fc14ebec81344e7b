/*
 * A program of the driver API that knows nothing of the probe:
 *
 *   program ROUTE SCENARIO [END]
 *
 * ROUTE is how it comes by the driver's functions: linked (where it was compiled with
 * LINKED), dlsym, proc, proc2 or threads (proc2 with streams of the thread's own). END is
 * how it ends: return, exit, _exit, quick_exit, abort, kill, exec.
 * It says what went wrong on standard error, and ends with status 1 then.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long long address;
struct copy2d { size_t x1, y1; int t1; const void *h1; address d1; void *a1; size_t p1, x2, y2; int t2; void *h2; address d2; void *a2; size_t p2, width, height; };
struct config { unsigned g[3], b[3], n; void *s, *a; unsigned an; };

/* name, base, version, what it takes */
#define FUNCTIONS(X)                                                                                                                            \
	X(cuInit, cuInit, 2000, (unsigned))                                                                                                     \
	X(cuCtxCreate_v2, cuCtxCreate, 3020, (void **, unsigned, int))                                                                          \
	X(cuCtxDestroy_v2, cuCtxDestroy, 4000, (void *))                                                                                        \
	X(cuCtxSetCurrent, cuCtxSetCurrent, 4000, (void *))                                                                                     \
	X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, (void **, int))                                                             \
	X(cuCtxSynchronize, cuCtxSynchronize, 2000, (void))                                                                                     \
	X(cuModuleLoad, cuModuleLoad, 2000, (void **, const char *))                                                                            \
	X(cuModuleLoadData, cuModuleLoadData, 2000, (void **, const void *))                                                                    \
	X(cuLibraryLoadData, cuLibraryLoadData, 12000, (void **, const void *, int *, void **, unsigned, int *, void **, unsigned))             \
	X(cuLibraryGetKernel, cuLibraryGetKernel, 12000, (void **, void *, const char *))                                                       \
	X(cuModuleGetFunction, cuModuleGetFunction, 2000, (void **, void *, const char *))                                                      \
	X(cuLinkCreate_v2, cuLinkCreate, 6050, (unsigned, int *, void **, void **))                                                             \
	X(cuLinkAddData_v2, cuLinkAddData, 6050, (void *, int, void *, size_t, const char *, unsigned, int *, void **))                         \
	X(cuLinkComplete, cuLinkComplete, 5050, (void *, void **, size_t *))                                                                    \
	X(cuLinkDestroy, cuLinkDestroy, 5050, (void *))                                                                                         \
	X(cuMemAlloc_v2, cuMemAlloc, 3020, (address *, size_t))                                                                                 \
	X(cuMemFree_v2, cuMemFree, 3020, (address))                                                                                             \
	X(cuMemHostAlloc, cuMemHostAlloc, 2020, (void **, size_t, unsigned))                                                                    \
	X(cuMemHostRegister_v2, cuMemHostRegister, 6050, (void *, size_t, unsigned))                                                            \
	X(cuMemcpy, cuMemcpy, 4000, (address, address, size_t))                                                                                 \
	X(cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020, (address, const void *, size_t))                                                                 \
	X(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, (void *, address, size_t))                                                                       \
	X(cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020, (address, address, size_t))                                                                      \
	X(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, 3020, (address, const void *, size_t, void *))                                               \
	X(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, 3020, (void *, address, size_t, void *))                                                     \
	X(cuMemcpy2D_v2, cuMemcpy2D, 3020, (const struct copy2d *))                                                                             \
	X(cuStreamCreate, cuStreamCreate, 2000, (void **, unsigned))                                                                            \
	X(cuStreamSynchronize, cuStreamSynchronize, 2000, (void *))                                                                             \
	X(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, (void *, int))                                                                  \
	X(cuStreamEndCapture, cuStreamEndCapture, 10000, (void *, void **))                                                                     \
	X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040, (void **, void *, unsigned long long))                               \
	X(cuGraphLaunch, cuGraphLaunch, 10000, (void *, void *))                                                                                \
	X(cuLaunchKernel, cuLaunchKernel, 4000, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **)) \
	X(cuLaunchKernelEx, cuLaunchKernelEx, 11060, (const struct config *, void *, void **, void **))

#define DECLARE(name, base, version, params) extern int name params __attribute__((weak));
FUNCTIONS(DECLARE)

static struct {
#define FIELD(name, base, version, params) int(*name) params;
	FUNCTIONS(FIELD)
} cu;

static void fail(const char *what, int r)
{
	fprintf(stderr, "program: %s: %d\n", what, r);
	exit(1);
}

#define DO(call)                        \
	do {                            \
		int r_ = (call);        \
		if (r_ != 0)            \
			fail(#call, r_);\
	} while (0)

typedef int (*proc)(const char *, void **, int, uint64_t);
typedef int (*proc2)(const char *, void **, int, uint64_t, int *);

static void find(const char *route)
{
	void *library = NULL;
	proc get = NULL;
	proc2 get2 = NULL;
	const int threads = strcmp(route, "threads") == 0;

#define LINK(name, base, version, params) cu.name = name;
	if (strcmp(route, "linked") == 0) {
		FUNCTIONS(LINK)
		return;
	}
	library = dlopen("libcuda.so.1", RTLD_NOW);
	if (library == NULL)
		fail(dlerror(), 0);
#define LOOK(name, base, version, params) cu.name = (int(*) params)dlsym(library, #name);
	if (strcmp(route, "dlsym") == 0) {
		FUNCTIONS(LOOK)
		return;
	}
	get = (proc)dlsym(library, "cuGetProcAddress");
	get2 = (proc2)dlsym(library, "cuGetProcAddress_v2");
	if (get == NULL || get2 == NULL)
		fail("no cuGetProcAddress", 0);
#define ASK(name, base, version, params)                                                           \
	{                                                                                          \
		void *p = NULL;                                                                    \
		int found = 0, r = strcmp(route, "proc") == 0 ? get(#base, &p, version, 0) : get2(#base, &p, version > 7000 ? version : 12000, threads ? 2 : 0, &found); \
		if (r != 0)                                                                        \
			fail(#base, r);                                                            \
		cu.name = (int(*) params)p;                                                        \
	}
	if (strcmp(route, "proc") != 0) {
		void *p = NULL;

		/* As the runtime does: the one leads to the other. */
		DO(get2("cuGetProcAddress", &p, 12000, 0, NULL));
		get2 = (proc2)p;
	}
	FUNCTIONS(ASK)
}

static void launch(void *f, unsigned width, void *stream) { DO(cu.cuLaunchKernel(f, width, 1, 2, 3, 4, 5, 6, stream, (void **)8, (void **)16)); }

enum { KIB = 1024 };
static const char ptx[] = "// a kernel\n.version 8.0\n.target sm_50\n";
static char host[64 * KIB];

/* plain is every kind of thing once or more, with times that are known. */
static void plain(void)
{
	void *context, *module, *lud, *stencil, *a, *b, *pin, *state, *cubin;
	address p, q;
	size_t n;
	struct copy2d c = { .t1 = 1, .h1 = host, .t2 = 2, .width = 32, .height = 16 };

	DO(cu.cuInit(0));
	DO(cu.cuCtxCreate_v2(&context, 0, 0));
	DO(cu.cuModuleLoadData(&module, ".version 8.0\n.target sm_50\n"));
	DO(cu.cuModuleGetFunction(&lud, module, "lud"));
	DO(cu.cuModuleGetFunction(&stencil, module, "stencil"));
	if (cu.cuModuleGetFunction(&a, module, "absent") != 500)
		fail("a function that is absent", 0);
	DO(cu.cuLinkCreate_v2(0, NULL, NULL, &state));
	DO(cu.cuLinkAddData_v2(state, 1, (void *)ptx, sizeof(ptx), "link", 0, NULL, NULL));
	DO(cu.cuLinkComplete(state, &cubin, &n));
	DO(cu.cuLinkDestroy(state));
	DO(cu.cuMemAlloc_v2(&p, 1024 * KIB));
	DO(cu.cuMemAlloc_v2(&q, 2048 * KIB));
	DO(cu.cuMemHostAlloc(&pin, 64 * KIB, 0));
	DO(cu.cuStreamCreate(&a, 0));
	DO(cu.cuStreamCreate(&b, 0));

	DO(cu.cuMemcpyHtoD_v2(p, host, 64 * KIB));
	DO(cu.cuMemcpyHtoD_v2(p, host, 32 * KIB));
	DO(cu.cuMemcpyHtoD_v2(p, pin, 64 * KIB));
	DO(cu.cuMemcpyHtoDAsync_v2(p, pin, 50000, a));
	DO(cu.cuMemcpy2D_v2(&c));
	launch(lud, 100, a); /* behind the copy */
	launch(lud, 200, a);
	launch(stencil, 300, b); /* beside them */
	DO(cu.cuCtxSynchronize());
	DO(cu.cuMemcpyDtoH_v2(host, q, 1000));
	DO(cu.cuMemcpyDtoD_v2(p, q, 2000));
	DO(cu.cuMemcpy((address)(uintptr_t)host, q, 3000));
	launch(stencil, 10, NULL);
	DO(cu.cuStreamSynchronize(NULL));
	if (cu.cuLaunchKernel(lud, 0, 1, 2, 3, 4, 5, 6, NULL, (void **)8, (void **)16) != 1)
		fail("a launch that is refused", 0);
	DO(cu.cuMemFree_v2(p));
	DO(cu.cuMemFree_v2(q));
}

/* own uses what a library of version 12 gives, and the stream of the thread. */
static void own(void)
{
	void *context, *library, *kernel;
	struct config c = { { 40, 1, 1 }, { 1, 1, 1 }, 0, NULL, NULL, 0 };
	address p;

	DO(cu.cuInit(0));
	DO(cu.cuDevicePrimaryCtxRetain(&context, 1));
	DO(cu.cuCtxSetCurrent(context));
	DO(cu.cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 7));
	DO(cu.cuLibraryGetKernel(&kernel, library, "own"));
	DO(cu.cuMemAlloc_v2(&p, 4096));
	DO(cu.cuMemcpyHtoDAsync_v2(p, host, 4096, NULL));
	launch(kernel, 20, NULL);
	DO(cu.cuStreamSynchronize(NULL));
	DO(cu.cuLaunchKernelEx(&c, kernel, NULL, NULL));
	DO(cu.cuCtxSynchronize());
}

/* graphs has kernels go into a graph, which is launched twice. */
static void graphs(void)
{
	void *context, *module, *f, *s, *g, *e;

	DO(cu.cuInit(0));
	DO(cu.cuCtxCreate_v2(&context, 0, 0));
	DO(cu.cuModuleLoadData(&module, ptx));
	DO(cu.cuModuleGetFunction(&f, module, "node"));
	DO(cu.cuStreamCreate(&s, 0));
	DO(cu.cuStreamBeginCapture_v2(s, 0));
	launch(f, 10, s);
	launch(f, 20, s);
	DO(cu.cuStreamEndCapture(s, &g));
	DO(cu.cuGraphInstantiateWithFlags(&e, g, 0));
	DO(cu.cuGraphLaunch(e, s));
	DO(cu.cuGraphLaunch(e, s));
	DO(cu.cuStreamSynchronize(s));
	DO(cu.cuCtxDestroy_v2(context));
}

/* loose launches so many kernels, and many waits for them. */
static void loose(int n)
{
	void *context, *module, *f;

	DO(cu.cuInit(0));
	DO(cu.cuCtxCreate_v2(&context, 0, 0));
	DO(cu.cuModuleLoadData(&module, ptx));
	DO(cu.cuModuleGetFunction(&f, module, "many"));
	for (int i = 0; i < n; i++)
		launch(f, 1000000, NULL); /* a second */
}

static void many(int n)
{
	loose(n);
	DO(cu.cuCtxSynchronize());
}

static void *worker(void *context)
{
	void *module, *f;
	address p;

	DO(cu.cuCtxSetCurrent(context));
	DO(cu.cuModuleLoadData(&module, ptx));
	DO(cu.cuModuleGetFunction(&f, module, "shared"));
	for (int i = 0; i < 200; i++) {
		DO(cu.cuMemAlloc_v2(&p, 1024));
		DO(cu.cuMemcpyHtoD_v2(p, host, 1000));
		DO(cu.cuMemFree_v2(p));
	}
	return NULL;
}

/* threads has several at once, in turns, so that later ones go on in what earlier ones left. */
static void threads(void)
{
	pthread_t t[8];
	void *context;

	DO(cu.cuInit(0));
	DO(cu.cuCtxCreate_v2(&context, 0, 0));
	for (int turn = 0; turn < 3; turn++) {
		for (int i = 0; i < 8; i++)
			if (pthread_create(&t[i], NULL, worker, context) != 0)
				fail("pthread_create", 0);
		for (int i = 0; i < 8; i++)
			pthread_join(t[i], NULL);
	}
}

/* calls makes so many of the cheapest, for benchmarks. */
static void calls(long n)
{
	struct timespec from, to;
	void *context, *module, *f;
	address p;

	DO(cu.cuInit(0));
	DO(cu.cuCtxCreate_v2(&context, 0, 0));
	DO(cu.cuModuleLoadData(&module, ptx));
	DO(cu.cuModuleGetFunction(&f, module, "many"));
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (long i = 0; i < n; i++)
		DO(cu.cuMemAlloc_v2(&p, 16));
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("%.1f ", (double)((to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec) / (double)n);
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (long i = 0; i < n; i++)
		launch(f, 1, NULL);
	DO(cu.cuCtxSynchronize());
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("%.1f\n", (double)((to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec) / (double)n);
}

/* forks has a child work before its parent does, one after, and one that only ends. */
static void forks(void)
{
	for (int i = 0; i < 2; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			many(3 + i);
			exit(0);
		}
		if (waitpid(pid, NULL, 0) != pid)
			fail("waitpid", 0);
		if (i == 0)
			many(2);
	}
	if (vfork() == 0)
		_exit(0);
	wait(NULL);
	DO(cu.cuCtxSynchronize());
}

int main(int argc, char **argv)
{
	const char *scenario = argc > 2 ? argv[2] : "", *end = argc > 3 ? argv[3] : "return";

	if (argc < 3)
		fail("program ROUTE SCENARIO [END]", 0);
	find(argv[1]);
	if (strcmp(scenario, "plain") == 0)
		plain();
	else if (strcmp(scenario, "own") == 0)
		own();
	else if (strcmp(scenario, "graphs") == 0)
		graphs();
	else if (strncmp(scenario, "many=", 5) == 0)
		many(atoi(scenario + 5));
	else if (strncmp(scenario, "loose=", 6) == 0)
		loose(atoi(scenario + 6));
	else if (strncmp(scenario, "calls=", 6) == 0)
		calls(atol(scenario + 6));
	else if (strcmp(scenario, "threads") == 0)
		threads();
	else if (strcmp(scenario, "forks") == 0)
		forks();
	else if (strncmp(scenario, "load=", 5) == 0) {
		void *context, *module;

		DO(cu.cuInit(0));
		DO(cu.cuCtxCreate_v2(&context, 0, 0));
		DO(cu.cuModuleLoad(&module, scenario + 5));
	} else if (strcmp(scenario, "init") == 0)
		DO(cu.cuInit(0));
	else if (strcmp(scenario, "newer") == 0) {
		/* A version of a function that nobody knows yet. */
		proc2 get2 = (proc2)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2");
		int (*alloc)(address *, size_t) = NULL;
		address p;

		DO(cu.cuInit(0));
		DO(get2("cuMemAlloc", (void **)&alloc, 99000, 0, NULL));
		DO(alloc(&p, 4096));
	} else if (strcmp(scenario, "next") == 0) {
		/* What RTLD_NEXT and RTLD_DEFAULT lead to is as it was. */
		if (dlsym(RTLD_NEXT, "strlen") == NULL || dlsym(RTLD_DEFAULT, "strlen") == NULL || dlsym(RTLD_NEXT, "cuNothing") != NULL || dlerror() == NULL)
			fail("dlsym", 0);
	} else
		fail(scenario, 0);

	if (strcmp(end, "exit") == 0)
		exit(0);
	if (strcmp(end, "_exit") == 0)
		_exit(0);
	if (strcmp(end, "quick_exit") == 0)
		quick_exit(0);
	if (strcmp(end, "abort") == 0)
		abort();
	if (strcmp(end, "kill") == 0)
		kill(getpid(), SIGKILL);
	if (strcmp(end, "exec") == 0) {
		execl("/proc/self/exe", argv[0], argv[1], "many=5", NULL);
		fail("execl", 0);
	}
	return 0;
}
