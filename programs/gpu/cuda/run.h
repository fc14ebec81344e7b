// One run of a program: its phases with their times, the device, its memory, its kernels, and
// the result that is printed. A program makes a Run, loads its kernels, makes its buffers,
// copies, iterates, copies back, checks, frees, and returns what the Run's end gives.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <list>
#include <vector>

#include "device.h"
#include "failure.h"
#include "options.h"

class Json;

// now is CLOCK_MONOTONIC's, in seconds.
double now();

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

	// new_stream makes a stream. What an urgent one has to do goes before others' as soon as
	// a multiprocessor has room.
	cudaStream_t new_stream(bool urgent = false);

	// new_event makes one that tells no time.
	cudaEvent_t new_event() { return make_event(cudaEventDisableTiming); }

	// host gives memory of the host, of the kind that was asked for.
	template <class T>
	T *host(size_t count, const char *what)
	{
		return static_cast<T *>(host_bytes(count * sizeof(T), what));
	}

	// allocate gives memory of the device.
	template <class T>
	T *allocate(size_t count, const char *what)
	{
		return static_cast<T *>(allocate_bytes(count * sizeof(T), what));
	}

	// release frees the latest allocation that is left.
	void release();

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
	int end();

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
	void begin();
	void *host_bytes(size_t bytes, const char *what);
	void *allocate_bytes(size_t bytes, const char *what);
	cudaEvent_t make_event(unsigned flags);
	double elapsed(cudaEvent_t from, cudaEvent_t to);
	void read_launches();
	void copy(bool to_device, void *to, const void *from, size_t bytes);
	double sum_copies(bool to_device) const;
	void print();
	void print_device(Json &);
	void print_seconds(Json &, double total);
	void print_calls(Json &);
	void print_kernels(Json &);
};

template <class... P>
template <class... A>
void Kernel<P...>::operator()(cudaStream_t stream, dim3 grid, dim3 block, Work work, A... arguments) const
{
	run.launch(count, function, stream, grid, block, work, arguments...);
}
