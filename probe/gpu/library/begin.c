/*
 * What the library does in a process is found out at the first call of the driver, so
 * that programs which make none leave no trace: by the variables of the environment that
 * docs/gpu.md has, by whether CUPTI is there, and by how the library came in.
 */
#define _GNU_SOURCE
#include "probe.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

_Atomic int state = IDLE;

static _Thread_local bool beginner __attribute__((tls_model("initial-exec")));
static _Atomic int ended, told;
static enum method how;
static _Atomic bool awaiting; /* the driver's call of InitializeInjection, at which CUPTI is tried */
static bool only_cupti;

static void child(void)
{
	atomic_store(&state, IDLE);
	atomic_store(&ended, 0);
	atomic_store(&told, 0);
	atomic_store(&awaiting, false);
	how = METHOD_NONE;
	trace_forget();
	functions_forget();
	timing_forget();
	cupti_forget();
	interpose_forget();
}

/* number reads a variable; what is no number in its range is complained of once the trace is open. */
static uint64_t number(const char *name, uint64_t otherwise, uint64_t most, bool *bad)
{
	const char *text = getenv(name), *past;
	uint64_t n = 0;

	if (text == NULL || *text == '\0')
		return otherwise;
	for (past = text; *past >= '0' && *past <= '9' && n <= most; past++)
		n = 10 * n + (uint64_t)(*past - '0');
	*bad = *past != '\0' || n > most;
	return *bad ? otherwise : n;
}

static bool set(const char *name)
{
	const char *text = getenv(name);

	return text != NULL && *text != '\0';
}

#define ONLY_CUPTI "nothing is recorded, as CUPTI was asked for"

static int find_out(void)
{
	static _Atomic bool registered;
	const char *dir = getenv("TARE_GPU_TRACE"), *method = getenv("TARE_GPU_METHOD");
	bool bad_sample = false, bad_size = false;
	const uint64_t every = number("TARE_GPU_SAMPLE", 1, 1000000, &bad_sample);
	const uint64_t mib = number("TARE_GPU_MIB", 256, 1 << 20, &bad_size);
	const bool stands = standing();
	char why[256] = "";

	if (dir == NULL || *dir == '\0' || !trace_open(dir, mib << 20, (uint32_t)every))
		return PASSING;
	if (!atomic_exchange(&registered, true))
		pthread_atfork(NULL, NULL, child);
	atexit(end);
	at_quick_exit(end);
	if (bad_sample)
		complain("TARE_GPU_SAMPLE is %s, and has to be a number from 0 to 1000000: every launch is timed", getenv("TARE_GPU_SAMPLE"));
	if (bad_size)
		complain("TARE_GPU_MIB is %s, and has to be a number from 0 to %d: 256 is taken", getenv("TARE_GPU_MIB"), 1 << 20);
	timing_sample((uint32_t)every);

	if (method != NULL && *method != '\0' && strcmp(method, "auto") != 0 && strcmp(method, "cupti") != 0 && strcmp(method, "interpose") != 0) {
		complain("TARE_GPU_METHOD is %s, and has to be auto, cupti or interpose: auto is taken", method);
		method = NULL;
	}
	only_cupti = method != NULL && strcmp(method, "cupti") == 0;
	if (method == NULL || strcmp(method, "interpose") != 0) {
		/* Within cuInit is CUPTI's own moment; until then the functions record. */
		if (stands && set("CUDA_INJECTION64_PATH")) {
			atomic_store(&awaiting, true);
			how = METHOD_INTERPOSITION;
			trace_method(how);
			return RECORDING;
		}
		if (cupti_begin(why, sizeof(why))) {
			how = METHOD_CUPTI;
			trace_method(how);
			return PASSING;
		}
		complain("no CUPTI: %s", why);
	}
	if (only_cupti) {
		complain(ONLY_CUPTI);
	} else if (!stands) {
		complain("nothing is recorded: the library was not preloaded, and so stands before no function: set LD_PRELOAD too");
	} else {
		how = METHOD_INTERPOSITION;
		trace_method(how);
		return RECORDING;
	}
	trace_close(false);
	return PASSING;
}

bool begin(void)
{
	int idle = IDLE;

	if (beginner)
		return false;
	if (atomic_compare_exchange_strong(&state, &idle, BEGINNING)) {
		const int kept = errno;

		beginner = true;
		atomic_store(&state, find_out());
		beginner = false;
		errno = kept;
	} else {
		while (atomic_load(&state) == BEGINNING)
			sched_yield();
	}
	return atomic_load(&state) == RECORDING;
}

void settle(void)
{
	bool was = true;
	char why[256] = "";

	if (!atomic_compare_exchange_strong(&awaiting, &was, false))
		return;
	if (cupti_begin(why, sizeof(why))) {
		how = METHOD_CUPTI;
		trace_method(how);
		atomic_store(&state, PASSING);
		return;
	}
	complain("no CUPTI: %s", why);
	if (only_cupti) {
		complain(ONLY_CUPTI);
		how = METHOD_NONE;
		trace_method(how);
		atomic_store(&state, PASSING);
		trace_close(false);
	}
}

/* compiler tells whether the driver's compiler of PTX is mapped: it is a library of its own. */
static int compiler(struct dl_phdr_info *info, size_t size, void *found)
{
	(void)size;
	if (info->dlpi_name != NULL && strstr(info->dlpi_name, "libnvidia-ptxjitcompiler") != NULL)
		*(bool *)found = true;
	return 0;
}

void end(void)
{
	bool found = false;

	if (!trace_is_ours() || atomic_exchange(&ended, 1))
		return;
	if (how == METHOD_CUPTI)
		cupti_end();
	if (how == METHOD_INTERPOSITION)
		timing_finish();
	if (how != METHOD_NONE) {
		started();
		dl_iterate_phdr(compiler, &found);
		fact("ptx-compiler=%s", found ? "mapped" : "not mapped");
	}
	atomic_store(&state, PASSING);
	trace_close(false);
}

void started(void)
{
	cu_result (*version)(int *) = (cu_result (*)(int *))driver_symbol("cuDriverGetVersion");
	cu_result (*count)(int *) = (cu_result (*)(int *))driver_symbol("cuDeviceGetCount");
	cu_result (*get)(cu_device *, int) = (cu_result (*)(cu_device *, int))driver_symbol("cuDeviceGet");
	cu_result (*name)(char *, int, cu_device) = (cu_result (*)(char *, int, cu_device))driver_symbol("cuDeviceGetName");
	cu_result (*attribute)(int *, int, cu_device) = (cu_result (*)(int *, int, cu_device))driver_symbol("cuDeviceGetAttribute");
	cu_result (*uuid)(void *, cu_device) = (cu_result (*)(void *, cu_device))driver_symbol("cuDeviceGetUuid_v2");
	cu_result (*memory)(size_t *, cu_device) = (cu_result (*)(size_t *, cu_device))driver_symbol("cuDeviceTotalMem_v2");
	cu_result (*loading)(int *) = (cu_result (*)(int *))driver_symbol("cuModuleGetLoadingMode");
	int n = 0, v = 0;

	if (how == METHOD_NONE || count == NULL || get == NULL || attribute == NULL || count(&n) != CU_SUCCESS || atomic_exchange(&told, 1))
		return;
	if (version != NULL && version(&v) == CU_SUCCESS)
		fact("driver=%d", v);
	if (loading != NULL && loading(&v) == CU_SUCCESS)
		fact("loading=%s", v == 1 ? "eager" : v == 2 ? "lazy" : "unknown");
	if (uuid == NULL)
		uuid = (cu_result (*)(void *, cu_device))driver_symbol("cuDeviceGetUuid");
	for (int i = 0; i < n; i++) {
		struct device_record r = { { RECORD_DEVICE, 0, sizeof(r), (uint32_t)i }, 0, 0, 0, 0, { 0 }, 0 };
		cu_device d = 0;
		char text[256] = "";
		size_t bytes = 0;

		if (get(&d, i) != CU_SUCCESS)
			continue;
		if (attribute(&v, CU_ATTRIBUTE_MAJOR, d) == CU_SUCCESS)
			r.major = (uint32_t)v;
		if (attribute(&v, CU_ATTRIBUTE_MINOR, d) == CU_SUCCESS)
			r.minor = (uint32_t)v;
		if (attribute(&v, CU_ATTRIBUTE_MULTIPROCESSORS, d) == CU_SUCCESS)
			r.multiprocessors = (uint32_t)v;
		if (attribute(&v, CU_ATTRIBUTE_COMPUTE_MODE, d) == CU_SUCCESS)
			r.compute_mode = (uint32_t)v;
		if (uuid != NULL)
			(void)uuid(r.uuid, d);
		if (memory != NULL && memory(&bytes, d) == CU_SUCCESS)
			r.memory = bytes;
		trace_put(&r.head);
		if (name != NULL && name(text, sizeof(text), d) == CU_SUCCESS)
			trace_text(NAME_DEVICE, (uint32_t)i, text, strnlen(text, sizeof(text)));
	}
}

/*
 * InitializeInjection is called by the driver, within cuInit, in the library that
 * CUDA_INJECTION64_PATH names (CUPTI documentation, "CUDA injection"). 1 is success.
 */
EXPORT int InitializeInjection(void)
{
	if (atomic_load(&state) == IDLE)
		begin();
	settle();
	return 1;
}

/*
 * What ends a process without its handlers may be called by a signal handler, amid whatever
 * the program or the driver were at: so nothing is collected, no lock is taken, and what is
 * missing is counted. A child of vfork, which shares all memory, must not end its parent's
 * trace: its id tells.
 */
static void abandon(void)
{
	if (!trace_is_ours() || atomic_exchange(&ended, 1))
		return;
	if (how == METHOD_INTERPOSITION)
		timing_abandon();
	atomic_store(&state, PASSING);
	trace_close(true);
}

EXPORT __attribute__((noreturn)) void _exit(int status)
{
	abandon();
	for (;;)
		syscall(SYS_exit_group, status);
}

EXPORT __attribute__((noreturn)) void _Exit(int status)
{
	_exit(status);
}
