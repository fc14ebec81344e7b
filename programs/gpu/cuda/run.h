// One run of a program: its phases with their times, the device, its memory, its kernels, and
// the result that is printed. A program makes a Run, loads its kernels, makes its buffers,
// copies, iterates, copies back, checks, frees, and returns what the Run's end gives.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <list>
#include <vector>

#include <time.h>

#include "device.h"
#include "failure.h"
#include "json.h"
#include "options.h"

inline double now()
{
	timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

// Timed adds the time of its life to a phase.
class Timed {
public:
	explicit Timed(double &phase) : phase(phase), began(now()) {}
	~Timed() { phase += now() - began; }
	Timed(const Timed &) = delete;
	Timed &operator=(const Timed &) = delete;

private:
	double &phase;
	double began;
};

// Work is what a launch has to do: bytes to and from the device's memory, and floating point
// operations, as the algorithm needs them.
struct Work {
	double bytes, flops;
};

// Count is what is known of a kernel.
struct Count {
	const char *name;
	double load_seconds;
	cudaFuncAttributes attributes;
	long launches = 0;
	double bytes = 0, flops = 0, seconds = 0;
};

// Worst keeps the largest of the errors that it is shown; one that is no number is the largest
// of all.
struct Worst {
	double error = 0;

	void see(double e)
	{
		if (!std::isnan(error) && !(e <= error))
			error = e;
	}
};

struct Checked {
	double error; // the largest, in the method's measure
	double tolerance;
	const char *reason; // why that much
	const char *method; // what was compared with what
};

// Figure is one of a program's own.
struct Figure {
	const char *name; // with its unit, where it has one
	double value;
};

class Run;

// Kernel is a kernel that was loaded: it is called with a stream, the shape of its launch, its
// work, and its arguments.
template <class... P>
class Kernel {
public:
	Kernel(Run &run, Count &count, void (*function)(P...)) : run(run), count(count), function(function) {}

	template <class... A>
	void operator()(cudaStream_t stream, dim3 grid, dim3 block, Work work, A... arguments) const;

private:
	Run &run;
	Count &count;
	void (*function)(P...);
};

class Run {
public:
	const Options options;
	const char *bound = "bandwidth"; // or compute: what kernels of this class come near to
	const char *basis = "";          // how their bytes and operations are counted
	cudaStream_t stream = nullptr;   // in which iterations are timed
	int multiprocessors = 0;
	double prepare_seconds = 0; // of the input, on the CPU
	std::vector<Figure> figures;

	Run(const Program &program, int argc, char **argv) : options(parse(program, argc, argv)), program(program), began(now()) { begin(); }
	Run(const Run &) = delete;
	Run &operator=(const Run &) = delete;

	// load loads a kernel: under PTX it is compiled here.
	template <class... P>
	Kernel<P...> load(const char *name, void (*function)(P...))
	{
		double at = now();
		Count c = {};

		c.name = name;
		::check(cudaFuncGetAttributes(&c.attributes, function), "load the program's kernels");
		c.load_seconds = now() - at;
		module_seconds += c.load_seconds;
		counts.push_back(c);
		return Kernel<P...>(*this, counts.back(), function);
	}

	cudaStream_t new_stream()
	{
		cudaStream_t s;

		::check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "make a stream");
		streams.push_back(s);
		return s;
	}

	// new_event makes one that tells no time.
	cudaEvent_t new_event() { return make_event(cudaEventDisableTiming); }

	// host gives memory of the host, of the kind that was asked for.
	template <class T>
	T *host(size_t count, const char *what)
	{
		Timed t(host_seconds);
		size_t bytes = count * sizeof(T);
		void *at = nullptr;

		if (options.pinned) {
			cudaError_t e = cudaHostAlloc(&at, bytes, cudaHostAllocDefault);
			if (e == cudaErrorMemoryAllocation)
				fail(Cause::host_memory, "pin %.0f MiB of the host's memory for %s: %s: choose a smaller --size, or --memory pageable", double(bytes) / (1 << 20), what, cudaGetErrorName(e));
			::check(e, "pin the host's memory");
		} else if (posix_memalign(&at, 4096, bytes) != 0) {
			fail(Cause::host_memory, "%.0f MiB of the host's memory for %s: there is not that much: choose a smaller --size", double(bytes) / (1 << 20), what);
		}
		host_buffers.push_back(at);
		return static_cast<T *>(at);
	}

	// allocate gives memory of the device.
	template <class T>
	T *allocate(size_t count, const char *what)
	{
		size_t bytes = count * sizeof(T);
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
		return static_cast<T *>(memory);
	}

	// release frees the latest allocation that is left.
	void release()
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

	template <class T>
	void to_device(T *to, const T *from, size_t count)
	{
		copy(true, to, from, count * sizeof(T));
	}

	template <class T>
	void from_device(T *to, const T *from, size_t count)
	{
		copy(false, to, from, count * sizeof(T));
	}

	// within_device copies in the stream, and does not wait.
	template <class T>
	void within_device(T *to, const T *from, size_t count)
	{
		::check(cudaMemcpyAsync(to, from, count * sizeof(T), cudaMemcpyDeviceToDevice, stream), "copy within the device");
	}

	// timed gives the device's time of what is put into the stream, and waits for it.
	template <class Put>
	double timed(Put put)
	{
		if (stopwatch[0] == nullptr) {
			stopwatch[0] = make_event(cudaEventDefault);
			stopwatch[1] = make_event(cudaEventDefault);
		}
		record(stopwatch[0], stream);
		put();
		record(stopwatch[1], stream);
		synchronize();
		return elapsed(stopwatch[0], stopwatch[1]);
	}

	void synchronize() { ::check(cudaStreamSynchronize(stream), "wait for the kernels"); }

	// iterate does step 0 for warming up, puts the input back by reset, and times each step
	// by a pair of events; what prepare puts into the stream before a step is in no time of
	// the device's.
	template <class Reset, class Prepare, class Step>
	void iterate(Reset reset, Prepare prepare, Step step)
	{
		const long together = 128; // then the host waits, and reads the events
		std::vector<cudaEvent_t> events;

		{
			Timed t(warmup_seconds);
			for (long i = 0; i < options.warmup; i++) {
				prepare(0);
				step(0);
			}
			reset();
			synchronize();
			for (long i = 0; i < 2 * min(together, options.iterations); i++)
				events.push_back(make_event(cudaEventDefault));
		}
		Timed t(iterate_seconds);
		counting = true;
		for (long first = 0; first < options.iterations; first += together) {
			long end = min(first + together, options.iterations);
			for (long i = first; i < end; i++) {
				size_t e = 2 * size_t(i - first);
				prepare(i);
				record(events[e], stream);
				step(i);
				record(events[e + 1], stream);
				if (options.each_kernel)
					read_launches();
			}
			synchronize();
			for (long i = first; i < end; i++) {
				size_t e = 2 * size_t(i - first);
				iterations.push_back(elapsed(events[e], events[e + 1]));
			}
		}
		counting = false;
	}

	// check runs a comparison with the reference where one was asked for: what that
	// allocates, copies and launches is in no other figure.
	template <class Compare>
	void check(Compare compare)
	{
		if (!options.check)
			return;
		Timed t(check_seconds);
		size_t held = device_buffers.size();
		checking = true;
		checked = compare();
		while (device_buffers.size() > held)
			release();
		checking = false;
		has_checked = true;
	}

	// end frees everything, ends the context, and prints. It gives the exit status.
	int end()
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

	void record(cudaEvent_t event, cudaStream_t in) { ::check(cudaEventRecord(event, in), "record an event"); }

	// await makes a stream wait for an event's latest recording.
	void await(cudaStream_t in, cudaEvent_t event) { ::check(cudaStreamWaitEvent(in, event, 0), "wait for an event"); }

	template <class... P, class... A>
	void launch(Count &count, void (*function)(P...), cudaStream_t in, dim3 grid, dim3 block, Work work, A... arguments)
	{
		bool timed = counting && options.each_kernel;

		if (timed) {
			if (launched == launches.size())
				launches.push_back({ nullptr, make_event(cudaEventDefault), make_event(cudaEventDefault) });
			launches[launched].count = &count;
			record(launches[launched].from, in);
		}
		start(count.name, function, grid, block, in, arguments...);
		::check(cudaGetLastError(), count.name);
		if (timed)
			record(launches[launched++].to, in);
		if (counting) {
			count.launches++;
			count.bytes += work.bytes;
			count.flops += work.flops;
		}
	}

private:
	struct Buffer {
		void *memory;
		size_t bytes;
	};

	struct Call {
		size_t bytes;
		double seconds;
	};

	struct Copy {
		bool to_device;
		size_t bytes;
		double seconds;
	};

	struct Launch {
		Count *count;
		cudaEvent_t from, to;
	};

	const Program &program;
	const double began;
	double start_seconds = 0, module_seconds = 0, host_seconds = 0, warmup_seconds = 0, iterate_seconds = 0;
	double check_seconds = 0, free_seconds = 0, end_seconds = 0;
	std::list<Count> counts; // kernels refer to them
	std::vector<cudaStream_t> streams;
	std::vector<cudaEvent_t> all_events;
	cudaEvent_t stopwatch[2] = {};
	std::vector<void *> host_buffers;
	std::vector<Buffer> device_buffers;
	std::vector<Call> allocations, frees;
	std::vector<Copy> copies;
	std::vector<double> iterations;
	std::vector<Launch> launches; // events of this iteration's launches, kept for the next
	size_t launched = 0;
	bool counting = false, checking = false, has_checked = false;
	Checked checked = {};
	cudaDeviceProp properties;
	size_t free_bytes = 0;
	int driver = 0, runtime = 0;
	int l2_bytes, clock_khz, memory_clock_khz, bus_bits, mode, major, minor;
	char pci[32] = "";

	bool valid() const { return checked.error >= 0 && checked.error <= checked.tolerance; }

	void begin()
	{
		int devices = 0;
		size_t total;

		// Kernels are loaded when they are asked for, not with the context: so each has its time.
		setenv("CUDA_MODULE_LOADING", "LAZY", 0);
		::check(cudaGetDeviceCount(&devices), "look for devices");
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

	// attribute gives 0 where the driver does not tell.
	static int attribute(cudaDeviceAttr which)
	{
		int value;

		return cudaDeviceGetAttribute(&value, which, chosen_device) == cudaSuccess ? max(value, 0) : 0;
	}

	cudaEvent_t make_event(unsigned flags)
	{
		cudaEvent_t e;

		::check(cudaEventCreateWithFlags(&e, flags), "make an event");
		all_events.push_back(e);
		return e;
	}

	double elapsed(cudaEvent_t from, cudaEvent_t to)
	{
		float milliseconds;

		::check(cudaEventElapsedTime(&milliseconds, from, to), "read the events");
		return double(milliseconds) * 1e-3;
	}

	void read_launches()
	{
		synchronize();
		for (size_t i = 0; i < launched; i++)
			launches[i].count->seconds += elapsed(launches[i].from, launches[i].to);
		launched = 0;
	}

	// copy is over when the data is there: cudaMemcpyAsync returns before that, and from
	// pageable memory so does cudaMemcpy.
	void copy(bool to_device, void *to, const void *from, size_t bytes)
	{
		double at = now();

		::check(cudaMemcpyAsync(to, from, bytes, to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream), to_device ? "copy to the device" : "copy from the device");
		::check(cudaStreamSynchronize(stream), to_device ? "copy to the device" : "copy from the device");
		if (!checking)
			copies.push_back({ to_device, bytes, now() - at });
	}

	static double sum(const std::vector<Call> &calls)
	{
		double s = 0;
		for (const Call &c : calls)
			s += c.seconds;
		return s;
	}

	double sum_copies(bool to_device) const
	{
		double s = 0;
		for (const Copy &c : copies)
			if (c.to_device == to_device)
				s += c.seconds;
		return s;
	}

	void print()
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

	void print_device(Json &j)
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

	void print_seconds(Json &j, double total)
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

	static void print_list(Json &j, const char *name, const std::vector<Call> &calls)
	{
		j.open('[', name);
		for (const Call &c : calls) {
			j.open('{');
			j.integer("bytes", c.bytes);
			j.number("seconds", c.seconds);
			j.close('}');
		}
		j.close(']');
	}

	void print_calls(Json &j)
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

	void print_kernels(Json &j)
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
};

template <class... P>
template <class... A>
void Kernel<P...>::operator()(cudaStream_t stream, dim3 grid, dim3 block, Work work, A... arguments) const
{
	run.launch(count, function, stream, grid, block, work, arguments...);
}
