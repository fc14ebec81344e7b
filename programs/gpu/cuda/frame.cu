// What failure.h, options.h and run.h declare: the frame of every program. It is compiled once.
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <getopt.h>
#include <sys/random.h>
#include <time.h>

#include "failure.h"
#include "json.h"
#include "options.h"
#include "run.h"

const char *program_name = "gpu";
int chosen_device = 0;

void fail(Cause cause, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fflush(stdout);
	fprintf(stderr, "%s: ", program_name);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	exit(int(cause));
}

bool of_mig(const cudaDeviceProp &properties)
{
	return strstr(properties.name, " MIG ") != nullptr;
}

void out_of_memory(const char *what)
{
	size_t available = 0, total = 0;
	const double mib = 1 << 20;
	cudaDeviceProp properties;

	cudaGetLastError();
	// Where a context itself has no room, nobody can be asked how much there is.
	if (cudaMemGetInfo(&available, &total) != cudaSuccess)
		fail(Cause::device_memory, "%s: the device's memory does not suffice: wait until others have freed theirs", what);
	if (cudaGetDeviceProperties(&properties, chosen_device) == cudaSuccess && of_mig(properties))
		fail(Cause::mig_memory, "%s: the MIG instance has %.0f MiB, of which %.0f are free: choose a smaller --size or a larger instance",
		     what, double(total) / mib, double(available) / mib);
	fail(Cause::device_memory, "%s: the device has %.0f MiB, of which %.0f are free: choose a smaller --size, or wait until others have freed theirs",
	     what, double(total) / mib, double(available) / mib);
}

void check(cudaError_t error, const char *what)
{
	const char *name, *means;
	int driver = 0, runtime = 0;

	if (error == cudaSuccess)
		return;
	name = cudaGetErrorName(error);
	means = cudaGetErrorString(error);
	switch (error) {
	case cudaErrorInsufficientDriver:
	case cudaErrorStubLibrary:
		// The runtime says this as well where it finds no driver at all.
		if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
			fail(Cause::no_driver, "%s: no NVIDIA driver is found (%s): load the driver, and let the program find libcuda.so.1", what, name);
		if (cudaRuntimeGetVersion(&runtime) != cudaSuccess)
			runtime = 0;
		fail(Cause::old_driver, "%s: the driver serves CUDA %d.%d, the program needs %d.%d (%s): install a newer driver, or build the program with an older toolkit",
		     what, driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10, name);
	case cudaErrorSystemDriverMismatch:
	case cudaErrorCompatNotSupportedOnDevice:
		fail(Cause::old_driver, "%s: the driver's library and its kernel module do not fit together (%s: %s): give the program the library of the module's version", what, name, means);
	case cudaErrorNoDevice:
		fail(Cause::no_device, "%s: the driver shows no device (%s): pass one to the program, and see that CUDA_VISIBLE_DEVICES does not hide it", what, name);
	case cudaErrorInvalidDevice:
		fail(Cause::no_device, "%s: there is no device %d (%s): choose one by --device", what, chosen_device, name);
	case cudaErrorNoKernelImageForDevice:
	case cudaErrorInvalidDeviceFunction:
	case cudaErrorInvalidKernelImage:
		fail(Cause::no_code, "%s: the program holds no code for this device, but for %s (%s): build it for the device's compute capability, or with PTX", what, BUILD_TARGETS, name);
	case cudaErrorUnsupportedPtxVersion:
	case cudaErrorInvalidPtx:
		fail(Cause::new_ptx, "%s: the driver cannot compile the program's PTX, which is of CUDA %d.%d (%s): install a newer driver, or build the program with an older toolkit",
		     what, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, name);
	case cudaErrorJitCompilerNotFound:
		fail(Cause::no_jit, "%s: the driver's compiler of PTX is missing (%s): let the program find libnvidia-ptxjitcompiler.so.1, or build it for the exact device", what, name);
	case cudaErrorJitCompilationDisabled:
		fail(Cause::no_jit, "%s: compiling PTX is switched off (%s): unset CUDA_DISABLE_PTX_JIT, or build the program for the exact device", what, name);
	case cudaErrorMemoryAllocation:
		out_of_memory(what);
	case cudaErrorDevicesUnavailable:
	case cudaErrorDeviceAlreadyInUse:
		fail(Cause::busy, "%s: the device is held by others or its compute mode forbids this (%s): end what holds it, or set its compute mode to default", what, name);
	case cudaErrorMpsConnectionFailed:
	case cudaErrorMpsMaxConnectionsReached:
		fail(Cause::busy, "%s: the server that shares the device does not take the program (%s: %s): start it, or end one of its clients", what, name, means);
	case cudaErrorInitializationError:
	case cudaErrorSharedObjectInitFailed:
	case cudaErrorOperatingSystem:
	case cudaErrorNotPermitted:
	case cudaErrorSystemNotReady:
		fail(Cause::not_ready, "%s: the driver does not answer as it should (%s: %s): see that /dev/nvidia* can be opened, /dev/nvidia-uvm among them, and that the device's services run",
		     what, name, means);
	case cudaErrorECCUncorrectable:
	case cudaErrorNvlinkUncorrectable:
	case cudaErrorIllegalAddress:
	case cudaErrorLaunchTimeout:
	case cudaErrorAssert:
	case cudaErrorHardwareStackError:
	case cudaErrorIllegalInstruction:
	case cudaErrorMisalignedAddress:
	case cudaErrorInvalidAddressSpace:
	case cudaErrorInvalidPc:
	case cudaErrorLaunchFailure:
		fail(Cause::device_fault, "%s: the device failed (%s: %s): see the kernel's log for its Xid errors", what, name, means);
	default:
		fail(Cause::failed, "%s: %s: %s: run it again with compute-sanitizer to learn more", what, name, means);
	}
}

static void help(const Program &p, FILE *to)
{
	fprintf(to, "usage: %s [--size N%s] [--iterations K] [--warmup N] [--seed S] [--memory pageable|pinned] [--device I]\n", p.name, p.edges ? "[xNxN]" : "");
	fprintf(to, "       %*s [--check] [--each-kernel]%s\n\n%s\n", int(strlen(p.name)), "", p.task ? " [--task training|inference]" : "", p.does);
	fprintf(to, "  --size         %s, %ld to %ld; default %ld\n", p.size_means, p.least, p.most, p.size);
	fprintf(to, "  --iterations   timed repetitions (%s), 1 to %ld; default %ld\n", p.iterations_means, most_iterations, p.iterations);
	fprintf(to, "  --warmup       repetitions before them that count for nothing, 0 to %ld; default 1\n", most_warmup);
	fprintf(to, "  --seed         of the input, 0 to 2^53-1; default: drawn from the system, and printed\n");
	fprintf(to, "  --memory       of the host, from and to which is copied: pageable (default) or pinned\n");
	fprintf(to, "  --device       which of those that are seen, from 0; default 0\n");
	fprintf(to, "  --check        compare the results with a reference on the CPU\n");
	fprintf(to, "  --each-kernel  time every launch by events of its own; iterations then take longer\n");
	if (p.task)
		fprintf(to, "  --task         training or inference; default %s\n", p.task);
	fprintf(to, "\nIt prints one line of JSON: times in seconds, rates in bytes and operations a second.\n"
		    "Exit status: 0; 1 failed, 2 usage, 10 no driver, 11 driver older than the program,\n"
		    "12 no such device, 13 no code for the device, 14 PTX newer than the driver, 15 PTX cannot\n"
		    "be compiled, 16 device memory, 17 device busy, 18 memory of a MIG instance, 19 driver not\n"
		    "ready, 20 device failed, 21 results wrong, 22 host memory.\n\nExample: %s\n",
		p.example);
}

static long number(const char *flag, const char *text, long least, long most)
{
	char *end;

	errno = 0;
	long v = strtol(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || v < least || v > most)
		fail(Cause::usage, "--%s %s: want a whole number from %ld to %ld", flag, text, least, most);
	return v;
}

static void read_size(const Program &p, Options &o, const char *text)
{
	char copy[64];
	char *rest = copy;
	int n = 0;

	if (strlen(text) >= sizeof copy)
		fail(Cause::usage, "--size %.20s...: want a whole number from %ld to %ld", text, p.least, p.most);
	strcpy(copy, text);
	while (rest != nullptr) {
		char *one = rest;
		rest = strchr(rest, 'x');
		if (rest != nullptr)
			*rest++ = '\0';
		if (n == (p.edges ? 3 : 1))
			fail(Cause::usage, "--size %s: want %s", text, p.edges ? "one number or three" : "one number");
		o.size[n++] = number("size", one, p.least, p.most);
	}
	if (n == 2)
		fail(Cause::usage, "--size %s: want one number or three", text);
	o.edges = n;
}

Options parse(const Program &p, int argc, char **argv)
{
	static const option flags[] = {
		{ "size", required_argument, nullptr, 'n' },
		{ "iterations", required_argument, nullptr, 'k' },
		{ "warmup", required_argument, nullptr, 'w' },
		{ "seed", required_argument, nullptr, 's' },
		{ "memory", required_argument, nullptr, 'm' },
		{ "device", required_argument, nullptr, 'd' },
		{ "check", no_argument, nullptr, 'c' },
		{ "each-kernel", no_argument, nullptr, 'e' },
		{ "task", required_argument, nullptr, 't' },
		{ "help", no_argument, nullptr, 'h' },
		{ nullptr, 0, nullptr, 0 },
	};
	Options o;
	int flag;

	program_name = p.name;
	o.size[0] = p.size;
	o.iterations = p.iterations;
	o.task = p.task;
	opterr = 0;
	while ((flag = getopt_long(argc, argv, ":", flags, nullptr)) != -1) {
		switch (flag) {
		case 'n':
			read_size(p, o, optarg);
			break;
		case 'k':
			o.iterations = number("iterations", optarg, 1, most_iterations);
			break;
		case 'w':
			o.warmup = number("warmup", optarg, 0, most_warmup);
			break;
		case 's':
			o.seed = uint64_t(number("seed", optarg, 0, long(most_seed)));
			o.seeded = true;
			break;
		case 'm':
			if (strcmp(optarg, "pageable") != 0 && strcmp(optarg, "pinned") != 0)
				fail(Cause::usage, "--memory %s: want pageable or pinned", optarg);
			o.pinned = strcmp(optarg, "pinned") == 0;
			break;
		case 'd':
			chosen_device = int(number("device", optarg, 0, 1023));
			break;
		case 'c':
			o.check = true;
			break;
		case 'e':
			o.each_kernel = true;
			break;
		case 't':
			if (p.task == nullptr)
				fail(Cause::usage, "--task: %s has but one; see --help", p.name);
			if (strcmp(optarg, "training") != 0 && strcmp(optarg, "inference") != 0)
				fail(Cause::usage, "--task %s: want training or inference", optarg);
			o.task = optarg;
			break;
		case 'h':
			help(p, stdout);
			exit(0);
		case ':':
			fail(Cause::usage, "%s: needs a value; see --help", argv[optind - 1]);
		default:
			fail(Cause::usage, "%s: no such flag; see --help", argv[optind - 1]);
		}
	}
	if (optind < argc)
		fail(Cause::usage, "%s: no such argument; see --help", argv[optind]);
	if (o.edges == 1)
		o.size[1] = o.size[2] = o.size[0];
	if (!o.seeded) {
		if (getrandom(&o.seed, sizeof o.seed, 0) != sizeof o.seed)
			fail(Cause::failed, "draw a seed: %s: give one by --seed", strerror(errno));
		o.seed &= most_seed;
	}
	return o;
}

double now()
{
	timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

cudaStream_t Run::new_stream(bool urgent)
{
	cudaStream_t s;
	int least = 0, greatest = 0;

	if (urgent) {
		::check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "ask for the streams' priorities");
		::check(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, greatest), "make an urgent stream");
	} else {
		::check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "make a stream");
	}
	streams.push_back(s);
	return s;
}

void *Run::host_bytes(size_t bytes, const char *what)
{
	Timed t(host_seconds);
	void *at = nullptr;

	if (options.pinned) {
		cudaError_t e = cudaHostAlloc(&at, bytes, cudaHostAllocDefault);
		if (e == cudaErrorMemoryAllocation)
			fail(Cause::host_memory, "pin %.0f MiB of the host's memory for %s: %s: choose a smaller --size, or --memory pageable", double(bytes) / (1 << 20), what, cudaGetErrorName(e));
		::check(e, "pin the host's memory");
	} else {
		if (posix_memalign(&at, 4096, bytes) != 0)
			fail(Cause::host_memory, "%.0f MiB of the host's memory for %s: there is not that much: choose a smaller --size", double(bytes) / (1 << 20), what);
		// Pinned memory has its pages by now. Without this the first copy to here would make them.
		for (size_t i = 0; i < bytes; i += 4096)
			static_cast<volatile char *>(at)[i] = 0;
	}
	host_buffers.push_back(at);
	return at;
}

void *Run::allocate_bytes(size_t bytes, const char *what)
{
	void *memory = nullptr;
	double at = now();
	cudaError_t e = cudaMalloc(&memory, bytes);
	double seconds = now() - at;

	if (e == cudaErrorMemoryAllocation) {
		char doing[128];
		snprintf(doing, sizeof doing, "allocate %.1f MiB for %s", double(bytes) / (1 << 20), what);
		out_of_memory(doing);
	}
	::check(e, "allocate the device's memory");
	device_buffers.push_back({ memory, bytes });
	if (!checking)
		allocations.push_back({ bytes, seconds });
	return memory;
}

void Run::release()
{
	Buffer b = device_buffers.back();
	double at = now();

	device_buffers.pop_back();
	::check(cudaFree(b.memory), "free the device's memory");
	double seconds = now() - at;
	if (!checking) {
		frees.push_back({ b.bytes, seconds });
		free_seconds += seconds;
	}
}

int Run::end()
{
	while (!device_buffers.empty())
		release();
	{
		Timed t(free_seconds);
		for (void *b : host_buffers) {
			if (options.pinned)
				::check(cudaFreeHost(b), "free the host's memory");
			else
				::free(b);
		}
	}
	{
		Timed t(end_seconds);
		for (cudaEvent_t e : all_events)
			::check(cudaEventDestroy(e), "end an event");
		for (cudaStream_t s : streams)
			::check(cudaStreamDestroy(s), "end a stream");
		::check(cudaDeviceReset(), "end the context");
	}
	print();
	if (fflush(stdout) != 0)
		fail(Cause::failed, "print the result: %s: see where standard output goes", strerror(errno));
	if (has_checked && !valid())
		fail(Cause::wrong, "the results are off by %g, more than %g: no figure of this run holds", checked.error, checked.tolerance);
	return 0;
}

// attribute gives 0 where the driver does not tell.
static int attribute(cudaDeviceAttr which)
{
	int value;

	return cudaDeviceGetAttribute(&value, which, chosen_device) == cudaSuccess ? max(value, 0) : 0;
}

void Run::begin()
{
	int devices = 0;
	size_t total;

	// Kernels are loaded when they are asked for, not with the context: so each has its time.
	setenv("CUDA_MODULE_LOADING", "LAZY", 0);
	cudaError_t looked = cudaGetDeviceCount(&devices);
	// The driver has no better word for nodes that it cannot open.
	if (looked == cudaErrorUnknown)
		fail(Cause::not_ready, "look for devices: the driver does not answer as it should (%s): see that /dev/nvidia* can be opened, /dev/nvidia-uvm among them, and the kernel's log for Xid errors", cudaGetErrorName(looked));
	::check(looked, "look for devices");
	if (chosen_device >= devices)
		::check(cudaErrorInvalidDevice, "choose the device");
	::check(cudaSetDevice(chosen_device), "choose the device");
	::check(cudaFree(nullptr), "make a context on the device");
	start_seconds = now() - began;
	::check(cudaGetDeviceProperties(&properties, chosen_device), "ask for the device's properties");
	::check(cudaMemGetInfo(&free_bytes, &total), "ask for the device's memory");
	::check(cudaDriverGetVersion(&driver), "ask for the driver's version");
	::check(cudaRuntimeGetVersion(&runtime), "ask for the runtime's version");
	multiprocessors = attribute(cudaDevAttrMultiProcessorCount);
	l2_bytes = attribute(cudaDevAttrL2CacheSize);
	clock_khz = attribute(cudaDevAttrClockRate);
	memory_clock_khz = attribute(cudaDevAttrMemoryClockRate);
	bus_bits = attribute(cudaDevAttrGlobalMemoryBusWidth);
	mode = attribute(cudaDevAttrComputeMode);
	major = attribute(cudaDevAttrComputeCapabilityMajor);
	minor = attribute(cudaDevAttrComputeCapabilityMinor);
	::check(cudaDeviceGetPCIBusId(pci, int(sizeof pci), chosen_device), "ask for the device's place");
	stream = new_stream();
}

cudaEvent_t Run::make_event(unsigned flags)
{
	cudaEvent_t e;

	::check(cudaEventCreateWithFlags(&e, flags), "make an event");
	all_events.push_back(e);
	return e;
}

double Run::elapsed(cudaEvent_t from, cudaEvent_t to)
{
	float milliseconds;

	::check(cudaEventElapsedTime(&milliseconds, from, to), "read the events");
	return double(milliseconds) * 1e-3;
}

void Run::read_launches()
{
	synchronize();
	for (size_t i = 0; i < launched; i++)
		launches[i].count->seconds += elapsed(launches[i].from, launches[i].to);
	launched = 0;
}

// copy is over when the data is there: cudaMemcpyAsync returns before that, and from
// pageable memory so does cudaMemcpy.
void Run::copy(bool to_device, void *to, const void *from, size_t bytes)
{
	double at = now();

	::check(cudaMemcpyAsync(to, from, bytes, to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream), to_device ? "copy to the device" : "copy from the device");
	::check(cudaStreamSynchronize(stream), to_device ? "copy to the device" : "copy from the device");
	if (!checking)
		copies.push_back({ to_device, bytes, now() - at });
}

template <class Calls>
static double sum(const Calls &calls)
{
	double s = 0;
	for (const auto &c : calls)
		s += c.seconds;
	return s;
}

double Run::sum_copies(bool to_device) const
{
	double s = 0;
	for (const Copy &c : copies)
		if (c.to_device == to_device)
			s += c.seconds;
	return s;
}

void Run::print()
{
	Json j;
	double total = now() - began; // what printing itself takes is not in it

	j.open('{');
	j.integer("schema", 1);
	j.text("program", program.name);
	j.open('{', "parameters");
	j.open('[', "size");
	for (int i = 0; i < options.edges; i++)
		j.integer(nullptr, uint64_t(options.size[i]));
	j.close(']');
	j.integer("iterations", uint64_t(options.iterations));
	j.integer("warmup", uint64_t(options.warmup));
	j.integer("seed", options.seed);
	j.text("memory", options.pinned ? "pinned" : "pageable");
	j.boolean("check", options.check);
	j.boolean("each_kernel", options.each_kernel);
	if (options.task)
		j.text("task", options.task);
	j.close('}');
	print_device(j);
	print_seconds(j, total);
	print_calls(j);
	print_kernels(j);
	if (has_checked) {
		j.open('{', "check");
		j.number("max_error", checked.error);
		j.number("tolerance", checked.tolerance);
		j.text("reason", checked.reason);
		j.text("method", checked.method);
		j.boolean("valid", valid());
		j.close('}');
	} else {
		j.null("check");
	}
	j.open('{', "figures");
	for (const Figure &f : figures)
		j.number(f.name, f.value);
	j.close('}');
	j.close('}');
	putchar('\n');
}

static void version(Json &j, const char *name, int v)
{
	char text[32];

	snprintf(text, sizeof text, "%d.%d", v / 1000, v % 1000 / 10);
	j.text(name, text);
}

void Run::print_device(Json &j)
{
	char text[64];
	static const char *const modes[] = { "default", "exclusive-thread", "prohibited", "exclusive-process" };

	j.open('{', "build");
	j.text("kind", BUILD_KIND);
	j.text("targets", BUILD_TARGETS);
#ifdef __CUDACC__
	snprintf(text, sizeof text, "%d.%d", __CUDACC_VER_MAJOR__, __CUDACC_VER_MINOR__);
	j.text("toolkit", text);
	j.close('}');
	j.boolean("emulated", false);
#else
	j.text("toolkit", "");
	j.close('}');
	j.boolean("emulated", true);
#endif
	j.open('{', "device");
	j.integer("index", uint64_t(chosen_device));
	j.text("name", properties.name);
	snprintf(text, sizeof text, "%d.%d", major, minor);
	j.text("compute_capability", text);
	int length = snprintf(text, sizeof text, "GPU-");
	for (int i = 0; i < 16; i++)
		length += snprintf(text + length, sizeof text - size_t(length), "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", unsigned(static_cast<unsigned char>(properties.uuid.bytes[i])));
	j.text("uuid", text);
	j.text("pci", pci);
	j.boolean("mig", of_mig(properties));
	j.text("compute_mode", mode < 4 ? modes[mode] : "unknown");
	j.integer("memory_bytes", properties.totalGlobalMem);
	j.integer("free_bytes", free_bytes);
	j.integer("multiprocessors", uint64_t(multiprocessors));
	j.integer("l2_bytes", uint64_t(l2_bytes));
	j.number("clock_hz", clock_khz * 1e3);
	j.number("memory_clock_hz", memory_clock_khz * 1e3);
	j.integer("memory_bus_bits", uint64_t(bus_bits));
	j.close('}');
	j.open('{', "versions");
	version(j, "driver", driver);
	version(j, "runtime", runtime);
	j.close('}');
}

void Run::print_seconds(Json &j, double total)
{
	j.open('{', "seconds");
	j.number("main_at", began);
	j.number("start", start_seconds);
	j.number("module", module_seconds);
	j.number("host", host_seconds);
	j.number("prepare", prepare_seconds);
	j.number("allocate", sum(allocations));
	j.number("to_device", sum_copies(true));
	j.number("warmup", warmup_seconds);
	j.number("iterate", iterate_seconds);
	j.number("from_device", sum_copies(false));
	j.number("check", check_seconds);
	j.number("free", free_seconds);
	j.number("end", end_seconds);
	j.number("total", total);
	j.close('}');
}

template <class Calls>
static void print_list(Json &j, const char *name, const Calls &calls)
{
	j.open('[', name);
	for (const auto &c : calls) {
		j.open('{');
		j.integer("bytes", c.bytes);
		j.number("seconds", c.seconds);
		j.close('}');
	}
	j.close(']');
}

void Run::print_calls(Json &j)
{
	j.open('[', "modules");
	for (const Count &c : counts) {
		j.open('{');
		j.text("name", c.name);
		j.number("seconds", c.load_seconds);
		j.integer("registers", uint64_t(c.attributes.numRegs));
		j.integer("local_bytes", c.attributes.localSizeBytes);
		j.integer("shared_bytes", c.attributes.sharedSizeBytes);
		j.integer("ptx_version", uint64_t(c.attributes.ptxVersion));
		j.integer("binary_version", uint64_t(c.attributes.binaryVersion));
		j.close('}');
	}
	j.close(']');
	print_list(j, "allocations", allocations);
	print_list(j, "frees", frees);
	j.open('[', "copies");
	for (const Copy &c : copies) {
		j.open('{');
		j.text("direction", c.to_device ? "to_device" : "from_device");
		j.integer("bytes", c.bytes);
		j.number("seconds", c.seconds);
		j.close('}');
	}
	j.close(']');
}

void Run::print_kernels(Json &j)
{
	double seconds = 0, bytes = 0, flops = 0;
	uint64_t launches = 0;

	for (double s : iterations)
		seconds += s;
	for (const Count &c : counts) {
		launches += uint64_t(c.launches);
		bytes += c.bytes;
		flops += c.flops;
	}
	j.open('{', "kernels");
	j.number("seconds", seconds);
	j.open('[', "iterations");
	for (double s : iterations)
		j.number(nullptr, s);
	j.close(']');
	j.integer("launches", launches);
	j.number("bytes", bytes);
	j.number("flops", flops);
	j.text("basis", basis);
	j.number("bytes_per_second", seconds > 0 ? bytes / seconds : 0);
	j.number("flops_per_second", seconds > 0 ? flops / seconds : 0);
	j.text("bound", bound);
	j.open('[', "each");
	for (const Count &c : counts) {
		j.open('{');
		j.text("name", c.name);
		j.integer("launches", uint64_t(c.launches));
		if (options.each_kernel)
			j.number("seconds", c.seconds);
		else
			j.null("seconds");
		j.number("bytes", c.bytes);
		j.number("flops", c.flops);
		j.close('}');
	}
	j.close(']');
	j.close('}');
}
