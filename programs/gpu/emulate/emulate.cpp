#include "emulate.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

// This file itself is compiled without a sanitizer, for its speed: SANITIZED says that the
// programs are compiled with one, which is to be told of the stacks.
#ifdef SANITIZED
#include <sanitizer/common_interface_defs.h>
#define LEAVE(save, bottom, size) __sanitizer_start_switch_fiber(save, bottom, size)
#define ENTER(saved, bottom, size) __sanitizer_finish_switch_fiber(saved, bottom, size)
#else
#define LEAVE(save, bottom, size) (void)0
#define ENTER(saved, bottom, size) (void)0
#endif

namespace emulate {

Place place;

namespace {

// What a device of any kind in use allows.
const unsigned most_threads = 1024;
const size_t most_shared = 48 << 10;
const size_t stack_bytes = 256 << 10;

[[noreturn]] __attribute__((format(printf, 1, 2))) void wrong(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fflush(stdout);
	fputs("emulate: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	_exit(99);
}

enum class Order { ascending, descending, shuffled };

Order order()
{
	static const Order o = [] {
		const char *name = getenv("EMULATE_ORDER");
		if (name == nullptr || strcmp(name, "ascending") == 0)
			return Order::ascending;
		if (strcmp(name, "descending") == 0)
			return Order::descending;
		if (strcmp(name, "shuffled") == 0)
			return Order::shuffled;
		wrong("EMULATE_ORDER=%s: want ascending, descending or shuffled", name);
	}();
	return o;
}

// below gives a number below n, the same ones in every run.
size_t below(size_t n)
{
	static uint64_t state = 1;
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (state >> 33) % n;
}

// arrange puts what is ascending into the order that the environment asks for.
template <class T>
void arrange(std::vector<T> &v)
{
	if (order() == Order::descending)
		std::reverse(v.begin(), v.end());
	if (order() == Order::shuffled)
		for (size_t i = v.size(); i > 1; i--)
			std::swap(v[i - 1], v[below(i)]);
}

// A switch from one stack to another. The C library's swapcontext asks the kernel for the
// signal mask each time, which is most of what it takes.
#ifdef __x86_64__

struct Context {
	void *stack_pointer;
};

extern "C" void emulate_switch(Context *from, const Context *to);

__asm__(".text\n"
	".type emulate_switch, @function\n"
	"emulate_switch:\n"
	"	pushq %rbp\n	pushq %rbx\n	pushq %r12\n	pushq %r13\n	pushq %r14\n	pushq %r15\n"
	"	movq %rsp, (%rdi)\n"
	"	movq (%rsi), %rsp\n"
	"	popq %r15\n	popq %r14\n	popq %r13\n	popq %r12\n	popq %rbx\n	popq %rbp\n"
	"	ret\n"
	".size emulate_switch, . - emulate_switch\n");

void change(Context *from, const Context *to)
{
	emulate_switch(from, to);
}

// prepare makes a context that begins a function on a stack of its own.
void prepare(Context *c, char *stack, size_t bytes, void (*begin)())
{
	void **top = reinterpret_cast<void **>(stack + bytes);

	*--top = nullptr; // where the function would return to
	*--top = reinterpret_cast<void *>(begin);
	for (int registers = 0; registers < 6; registers++)
		*--top = nullptr;
	c->stack_pointer = top;
}

#else

struct Context {
	ucontext_t context;
};

void change(Context *from, const Context *to)
{
	swapcontext(&from->context, &to->context);
}

void prepare(Context *c, char *stack, size_t bytes, void (*begin)())
{
	getcontext(&c->context);
	c->context.uc_stack.ss_sp = stack;
	c->context.uc_stack.ss_size = bytes;
	c->context.uc_link = nullptr;
	makecontext(&c->context, begin, 0);
}

#endif

enum class State { idle, ready, at_barrier, at_exchange };

// A coroutine runs threads one after the other until one has to wait.
struct Coroutine {
	Context context;
	char *stack;
	void *fake = nullptr; // the sanitizer's
	State state = State::idle;
	unsigned number = 0; // of the thread that it runs, in its block
	uint3 thread = {};
	unsigned exchanges = 0; // of this thread so far
	const char *file = nullptr; // where it waits
	int line = 0;
};

struct Warp {
	unsigned arrived = 0;
	const char *file = nullptr;
	int line = 0;
	uint64_t values[2][32];
	std::vector<Coroutine *> waiting;
};

struct Array {
	void *memory;
	size_t bytes;
	bool in_use;
};

struct Scheduler {
	const char *kernel;
	Body *body;
	std::vector<unsigned> unstarted; // the next one last
	std::vector<Coroutine *> ready;
	std::vector<Warp> warps;
	std::map<const void *, Array> arrays;
	unsigned running; // threads that have begun and not left
	Coroutine *self;
	std::vector<Coroutine *> all, idle;
	Context context;
	const void *bottom; // of its stack
	size_t size;
};

Scheduler &s = *new Scheduler; // coroutines outlive main

unsigned threads_of(const dim3 &d)
{
	return d.x * d.y * d.z;
}

[[noreturn]] void diverged(const char *what)
{
	std::map<std::pair<const char *, int>, unsigned> at;
	unsigned waiting = 0;
	for (const Coroutine *c : s.all)
		if (c->state == State::at_barrier || c->state == State::at_exchange) {
			at[{ c->file, c->line }]++;
			waiting++;
		}
	std::string where;
	for (const auto &a : at) {
		const char *base = strrchr(a.first.first, '/');
		where += (where.empty() ? "" : ", ") + std::to_string(a.second) + " at " + (base ? base + 1 : a.first.first) + ":" + std::to_string(a.first.second);
	}
	unsigned total = threads_of(place.threads);
	wrong("kernel %s, block (%u,%u,%u): %s: of %u threads %u wait (%s), %u have left or not begun", s.kernel, place.block.x, place.block.y, place.block.z,
	      what, total, waiting, where.c_str(), total - s.running);
}

void give_way()
{
	Coroutine *c = s.self;
	LEAVE(&c->fake, s.bottom, s.size);
	change(&c->context, &s.context);
	ENTER(c->fake, &s.bottom, &s.size);
}

// live is a coroutine's life: threads of this block while there are any to begin, and of the
// next one when it is called again.
void live()
{
	ENTER(nullptr, &s.bottom, &s.size);
	for (;;) {
		Coroutine *c = s.self;
		while (!s.unstarted.empty()) {
			c->number = s.unstarted.back();
			s.unstarted.pop_back();
			c->thread = { c->number % place.threads.x, c->number / place.threads.x % place.threads.y, c->number / place.threads.x / place.threads.y };
			c->exchanges = 0;
			place.thread = c->thread;
			s.running++;
			s.body->run();
			s.running--;
		}
		c->state = State::idle;
		s.idle.push_back(c);
		give_way();
	}
}

Coroutine *new_coroutine()
{
	Coroutine *c = new Coroutine;
	// below the stack a page that nobody may touch
	char *memory = static_cast<char *>(mmap(nullptr, stack_bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
	if (memory == MAP_FAILED || mprotect(memory, 4096, PROT_NONE) != 0)
		wrong("no memory for a thread's stack");
	c->stack = memory + 4096;
	prepare(&c->context, c->stack, stack_bytes, live);
	s.all.push_back(c);
	return c;
}

void resume(Coroutine *c)
{
	void *fake = nullptr;
	(void)fake; // without a sanitizer
	c->state = State::ready;
	s.self = c;
	place.thread = c->thread;
	LEAVE(&fake, c->stack, stack_bytes);
	change(&s.context, &c->context);
	ENTER(fake, nullptr, nullptr);
}

// release_barrier lets all threads of the block go on, if all are at the same barrier.
bool release_barrier()
{
	const Coroutine *first = nullptr;
	std::vector<Coroutine *> waiting;
	for (Coroutine *c : s.all) {
		if (c->state == State::at_exchange)
			diverged("a warp's exchange that not all of its lanes reach");
		if (c->state != State::at_barrier)
			continue;
		if (first != nullptr && (first->line != c->line || strcmp(first->file, c->file) != 0))
			diverged("barriers at different lines");
		first = c;
		waiting.push_back(c);
	}
	if (waiting.empty())
		return false;
	if (waiting.size() != threads_of(place.threads))
		diverged("a barrier that not all threads reach");
	// By thread, since coroutines run any of them.
	std::sort(waiting.begin(), waiting.end(), [](const Coroutine *a, const Coroutine *b) { return a->number < b->number; });
	arrange(waiting);
	for (Coroutine *c : waiting)
		c->state = State::ready;
	s.ready = waiting;
	std::reverse(s.ready.begin(), s.ready.end());
	return true;
}

void run_block()
{
	unsigned threads = threads_of(place.threads);
	s.unstarted.clear();
	for (unsigned i = 0; i < threads; i++)
		s.unstarted.push_back(i);
	arrange(s.unstarted);
	std::reverse(s.unstarted.begin(), s.unstarted.end());
	s.warps.assign((threads + 31) / 32, Warp());
	s.running = 0;
	for (auto &a : s.arrays)
		a.second.in_use = false;
	do {
		while (!s.ready.empty() || !s.unstarted.empty()) {
			Coroutine *c;
			if (!s.ready.empty()) {
				c = s.ready.back();
				s.ready.pop_back();
			} else if (!s.idle.empty()) {
				c = s.idle.back();
				s.idle.pop_back();
			} else {
				c = new_coroutine();
			}
			resume(c);
		}
	} while (release_barrier());
}

} // namespace

void barrier(const char *file, int line)
{
	Coroutine *c = s.self;
	c->state = State::at_barrier;
	c->file = file;
	c->line = line;
	give_way();
	place.thread = c->thread;
}

// exchange gives what the 32 lanes of a warp brought, once all are there.
const uint64_t *exchange(uint64_t value, unsigned mask, const char *file, int line)
{
	Coroutine *c = s.self;
	Warp &w = s.warps[c->number / 32];
	if (mask != 0xffffffffu)
		wrong("kernel %s: an exchange among lanes %#x: only those among all 32 are emulated", s.kernel, mask);
	if (threads_of(place.threads) % 32 != 0)
		wrong("kernel %s: an exchange in blocks of %u threads, which are no whole warps", s.kernel, threads_of(place.threads));
	c->file = file;
	c->line = line;
	if (w.arrived > 0 && (w.line != line || strcmp(w.file, file) != 0)) {
		c->state = State::at_exchange;
		diverged("exchanges of a warp at different lines");
	}
	w.file = file;
	w.line = line;
	unsigned set = c->exchanges++ % 2;
	w.values[set][c->number % 32] = value;
	if (++w.arrived == 32) {
		// All have read the set before this one, so it may be written again.
		w.arrived = 0;
		for (auto i = w.waiting.rbegin(); i != w.waiting.rend(); ++i) {
			(*i)->state = State::ready;
			s.ready.push_back(*i);
		}
		w.waiting.clear();
	} else {
		c->state = State::at_exchange;
		w.waiting.push_back(c);
		give_way();
		place.thread = c->thread;
	}
	return w.values[set];
}

void *shared(const void *site, size_t bytes)
{
	Array &a = s.arrays[site];
	if (a.memory == nullptr) {
		if (posix_memalign(&a.memory, 16, bytes) != 0)
			wrong("no memory for %zu shared bytes", bytes);
		a.bytes = bytes;
	}
	if (!a.in_use) {
		memset(a.memory, 0xff, bytes);
		a.in_use = true;
		size_t total = 0;
		for (const auto &each : s.arrays)
			total += each.second.in_use ? each.second.bytes : 0;
		if (total > most_shared)
			wrong("kernel %s: %zu bytes of shared memory: a device has %zu for a block", s.kernel, total, most_shared);
	}
	return a.memory;
}

} // namespace emulate

using namespace emulate;

// Work waits in its stream's queue until somebody needs its end.
struct Work {
	std::function<void()> run;
	cudaEvent_t awaited; // nullptr: none
	uint64_t version;
};

struct CUstream_st {
	std::deque<Work> queue;
};

struct CUevent_st {
	uint64_t recorded = 0, done = 0; // how often
	timespec at = {};
};

namespace {

struct {
	std::vector<cudaStream_t> streams;
	std::map<void *, size_t> allocations;
	size_t allocated = 0;
	int events = 0, host = 0;
	std::map<std::string, int> calls;
	cudaError_t last = cudaSuccess;
} device;

bool runnable(cudaStream_t stream)
{
	if (stream->queue.empty())
		return false;
	const Work &w = stream->queue.front();
	return w.awaited == nullptr || w.awaited->done >= w.version;
}

// drain does work until a stream has none left, or all where none is named.
void drain(cudaStream_t until)
{
	for (;;) {
		bool left = false;
		std::vector<cudaStream_t> candidates;
		for (cudaStream_t stream : device.streams) {
			left = left || ((until == nullptr || stream == until) && !stream->queue.empty());
			if (runnable(stream))
				candidates.push_back(stream);
		}
		if (!left)
			return;
		if (candidates.empty())
			wrong("streams wait for events that nothing before them records");
		arrange(candidates);
		Work w = std::move(candidates.front()->queue.front());
		candidates.front()->queue.pop_front();
		if (w.run)
			w.run();
	}
}

void enqueue(cudaStream_t stream, std::function<void()> run, cudaEvent_t awaited = nullptr, uint64_t version = 0)
{
	if (stream == nullptr)
		wrong("the default stream is not emulated: name one");
	stream->queue.push_back({ std::move(run), awaited, version });
}

long from_environment(const char *name, long otherwise)
{
	const char *text = getenv(name);
	return text == nullptr ? otherwise : atol(text);
}

size_t memory()
{
	return size_t(from_environment("EMULATE_MEMORY", 1L << 30));
}

// fails tells whether this call is the one that EMULATE_FAIL names, and with which error.
cudaError_t fails(const char *name)
{
	const char *plan = getenv("EMULATE_FAIL");
	int call = ++device.calls[name];
	char function[64];
	int error, nth = 1;
	if (plan == nullptr)
		return cudaSuccess;
	if (sscanf(plan, "%63[^:]:%d:%d", function, &error, &nth) < 2)
		wrong("EMULATE_FAIL=%s: want NAME:ERROR or NAME:ERROR:N", plan);
	return strcmp(function, name) == 0 && call == nth ? cudaError_t(error) : cudaSuccess;
}

#define FAIL()                                               \
	do {                                                 \
		if (cudaError_t e = fails(__func__)) {       \
			device.last = e;                     \
			return e;                            \
		}                                            \
	} while (0)

} // namespace

namespace emulate {

void launch(const char *name, Body *body, dim3 grid, dim3 block, cudaStream_t stream)
{
	std::shared_ptr<Body> held(body);
	if (cudaError_t e = fails("launch")) {
		device.last = e;
		return;
	}
	size_t threads = size_t(block.x) * block.y * block.z;
	if (threads == 0 || threads > most_threads || block.z > 64 || grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) {
		device.last = cudaErrorInvalidConfiguration;
		return;
	}
	enqueue(stream, [=] {
		s.kernel = name;
		s.body = held.get();
		place.threads = block;
		place.blocks = grid;
		for (unsigned z = 0; z < grid.z; z++)
			for (unsigned y = 0; y < grid.y; y++)
				for (unsigned x = 0; x < grid.x; x++) {
					place.block = { x, y, z };
					run_block();
				}
		for (auto &a : s.arrays)
			free(a.second.memory);
		s.arrays.clear();
	});
}

} // namespace emulate

const char *cudaGetErrorName(cudaError_t e)
{
	static char name[32];
	snprintf(name, sizeof name, "error %d", int(e));
	return name;
}

const char *cudaGetErrorString(cudaError_t)
{
	return "as the test wants it";
}

cudaError_t cudaGetLastError()
{
	cudaError_t e = device.last;
	device.last = cudaSuccess;
	return e;
}

cudaError_t cudaDriverGetVersion(int *version)
{
	FAIL();
	*version = int(from_environment("EMULATE_DRIVER", 13000));
	return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
	FAIL();
	*version = 13000;
	return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
	FAIL();
	*count = 1;
	return cudaSuccess;
}

cudaError_t cudaSetDevice(int number)
{
	FAIL();
	return number == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int)
{
	FAIL();
	const char *name = getenv("EMULATE_NAME");
	memset(p, 0, sizeof *p);
	snprintf(p->name, sizeof p->name, "%s", name ? name : "emulated");
	memset(p->uuid.bytes, 0xe5, sizeof p->uuid.bytes);
	p->totalGlobalMem = memory();
	return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int)
{
	FAIL();
	switch (attribute) {
	case cudaDevAttrClockRate:
	case cudaDevAttrMemoryClockRate:
		*value = 1000000;
		return cudaSuccess;
	case cudaDevAttrMultiProcessorCount:
		*value = 2;
		return cudaSuccess;
	case cudaDevAttrGlobalMemoryBusWidth:
		*value = 64;
		return cudaSuccess;
	case cudaDevAttrL2CacheSize:
		*value = 1 << 20;
		return cudaSuccess;
	default: // compute mode and capability
		*value = 0;
		return cudaSuccess;
	}
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int)
{
	FAIL();
	snprintf(text, size_t(length), "0000:00:00.0");
	return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
	FAIL();
	*available = memory() - device.allocated;
	*total = memory();
	return cudaSuccess;
}

cudaError_t cudaDeviceReset()
{
	FAIL();
	drain(nullptr);
	if (!device.allocations.empty() || device.host > 0)
		wrong("%zu allocations of the device's memory and %d of the host's were not freed", device.allocations.size(), device.host);
	if (!device.streams.empty() || device.events > 0)
		wrong("%zu streams and %d events were not destroyed", device.streams.size(), device.events);
	return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, const void *)
{
	FAIL();
	memset(a, 0, sizeof *a);
	return cudaSuccess;
}

cudaError_t cudaMalloc(void **at, size_t bytes)
{
	FAIL();
	if (bytes > memory() - device.allocated) {
		device.last = cudaErrorMemoryAllocation;
		return cudaErrorMemoryAllocation;
	}
	if (posix_memalign(at, 256, bytes) != 0)
		wrong("no memory for %zu of the device's bytes", bytes);
	memset(*at, 0xff, bytes);
	device.allocations[*at] = bytes;
	device.allocated += bytes;
	return cudaSuccess;
}

cudaError_t cudaFree(void *at)
{
	FAIL();
	drain(nullptr);
	if (at == nullptr)
		return cudaSuccess;
	auto found = device.allocations.find(at);
	if (found == device.allocations.end())
		wrong("what is freed was not allocated");
	device.allocated -= found->second;
	device.allocations.erase(found);
	free(at);
	return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **at, size_t bytes, unsigned)
{
	FAIL();
	device.host++;
	return posix_memalign(at, 4096, bytes) == 0 ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFreeHost(void *at)
{
	FAIL();
	device.host--;
	free(at);
	return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
	FAIL();
	static long copies = 0;
	const bool spoil = kind == cudaMemcpyDeviceToHost && ++copies == from_environment("EMULATE_SPOIL", 0);
	enqueue(stream, [=] {
		memcpy(to, from, bytes);
		if (spoil) // the highest byte of a number of 4 or of 8
			static_cast<unsigned char *>(to)[bytes / 2 / 8 * 8 + (bytes % 8 ? 3 : 7)] ^= 0x42;
	});
	return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *at, int value, size_t bytes, cudaStream_t stream)
{
	FAIL();
	enqueue(stream, [=] { memset(at, value, bytes); });
	return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
	FAIL();
	*stream = new CUstream_st;
	device.streams.push_back(*stream);
	return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	FAIL();
	*least = 0;
	*greatest = -1;
	return cudaSuccess;
}

// All streams are alike here: EMULATE_ORDER says which of them goes on.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int)
{
	FAIL();
	return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	FAIL();
	drain(stream);
	device.streams.erase(std::find(device.streams.begin(), device.streams.end(), stream));
	delete stream;
	return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	FAIL();
	drain(stream);
	return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
	FAIL();
	enqueue(stream, nullptr, event, event->recorded);
	return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
	FAIL();
	*event = new CUevent_st;
	device.events++;
	return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	FAIL();
	drain(nullptr);
	device.events--;
	delete event;
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	FAIL();
	uint64_t version = ++event->recorded;
	enqueue(stream, [=] {
		event->done = version;
		clock_gettime(CLOCK_MONOTONIC, &event->at);
	});
	return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
	FAIL();
	if (from->done < from->recorded || to->done < to->recorded)
		return cudaErrorNotReady;
	*milliseconds = float(double(to->at.tv_sec - from->at.tv_sec) * 1e3 + double(to->at.tv_nsec - from->at.tv_nsec) * 1e-6);
	return cudaSuccess;
}
