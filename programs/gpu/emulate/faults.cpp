// faults runs kernels that have one fault each, by name, so that a test can see that the
// emulation finds it: it ends with status 99, or prints a result that is right only in some
// orders. Without a fault a kernel prints "right".
#include "../cuda/device.h"

#include <cstdio>
#include <cstring>

namespace {

__global__ void sound(int *out)
{
	SHARED(values, int[64]);
	const int t = int(threadIdx.x);

	values[t] = t;
	__syncthreads();
	const int sum = warp_sum(values[63 - t]);
	__syncthreads();
	if (t % 32 == 0)
		atomicAdd(out, sum);
	if (__any_sync(0xffffffffu, t == 40) && t == 32)
		atomicAdd(out, int(__popc(0xff)));
}

__global__ void half_at_barrier(int *out)
{
	if (threadIdx.x < 32)
		__syncthreads();
	out[0] = 1;
}

__global__ void left_before_barrier(int *out)
{
	if (threadIdx.x == 5)
		return;
	__syncthreads();
	out[0] = 1;
}

__global__ void two_barriers(int *out)
{
	if (threadIdx.x % 2 == 0)
		__syncthreads();
	else
		__syncthreads();
	out[0] = 1;
}

__global__ void half_of_warp(int *out)
{
	int v = 0;
	if (threadIdx.x % 32 < 16)
		v = __shfl_sync(0xffffffffu, int(threadIdx.x), 3);
	atomicAdd(out, v);
}

__global__ void two_exchanges(int *out)
{
	int v;
	if (threadIdx.x % 32 < 16)
		v = __shfl_sync(0xffffffffu, int(threadIdx.x), 3);
	else
		v = __shfl_sync(0xffffffffu, int(threadIdx.x), 20);
	atomicAdd(out, v);
}

__global__ void exchange_and_barrier(int *out)
{
	if (threadIdx.x < 32)
		atomicAdd(out, __shfl_sync(0xffffffffu, 1, threadIdx.x < 31 ? 0 : 1));
	if (threadIdx.x == 40)
		atomicAdd(out, __shfl_sync(0xffffffffu, 1, 0));
	__syncthreads();
}

__global__ void part_of_mask(int *out)
{
	if (threadIdx.x < 16)
		atomicAdd(out, __shfl_sync(0x0000ffffu, 1, 0));
}

__global__ void no_whole_warp(int *out)
{
	atomicAdd(out, warp_sum(1));
}

__global__ void much_shared(int *out)
{
	SHARED(a, char[40 << 10]);
	SHARED(b, char[10 << 10]);
	a[0] = b[0] = 1;
	out[0] = a[0] + b[0];
}

__global__ void beyond_shared(int *out)
{
	SHARED(a, int[64]);
	SHARED(b, int[64]);
	a[threadIdx.x + 1] = 1; // one too far
	b[threadIdx.x] = 2;
	__syncthreads();
	out[0] = a[0] + b[0];
}

__global__ void beyond_global(int *out)
{
	out[threadIdx.x] = 1; // there is but one
}

// In none of these does a thread wait for what another writes.
__global__ void no_barrier(int *out)
{
	SHARED(values, int[64]);
	const int t = int(threadIdx.x);

	values[t] = t;
	atomicAdd(out, values[(t + 1) % 64] + values[(t + 63) % 64]);
}

__global__ void never_written(int *out)
{
	SHARED(values, float[64]);

	if (values[threadIdx.x] == values[threadIdx.x])
		out[0] = 1;
}

__global__ void write_one(int *out)
{
	out[0] = 1;
}

__global__ void add_two(int *out)
{
	out[0] = 2 * out[0] + 2;
}

struct {
	const char *name;
	void (*kernel)(int *);
	unsigned threads;
	int expected;
} const cases[] = {
	{ "sound", sound, 64, 2016 + 8 },
	{ "half-at-barrier", half_at_barrier, 64, 1 },
	{ "left-before-barrier", left_before_barrier, 64, 1 },
	{ "two-barriers", two_barriers, 64, 1 },
	{ "half-of-warp", half_of_warp, 64, 0 },
	{ "two-exchanges", two_exchanges, 64, 0 },
	{ "exchange-and-barrier", exchange_and_barrier, 64, 32 },
	{ "part-of-mask", part_of_mask, 64, 16 },
	{ "no-whole-warp", no_whole_warp, 48, 48 },
	{ "much-shared", much_shared, 32, 2 },
	{ "beyond-shared", beyond_shared, 64, 3 },
	{ "beyond-global", beyond_global, 64, 1 },
	{ "no-barrier", no_barrier, 64, 2 * 2016 },
	{ "never-written", never_written, 64, 0 },
	{ "many-threads", write_one, 1025, 1 },
};

int finish(int value, int expected)
{
	if (value == expected)
		puts("right");
	else
		printf("wrong: %d, want %d\n", value, expected);
	return 0;
}

// streams has one stream write and another one read, the latter after the former where an
// event says so.
int streams(bool with_event)
{
	cudaStream_t one, two;
	cudaEvent_t written;
	int *at, value = -1, zero = 0;

	cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking);
	cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking);
	cudaEventCreateWithFlags(&written, cudaEventDisableTiming);
	cudaMalloc(reinterpret_cast<void **>(&at), sizeof *at);
	cudaMemcpyAsync(at, &zero, sizeof zero, cudaMemcpyHostToDevice, one);
	cudaStreamSynchronize(one);
	start("write_one", write_one, 1, 32, two, at);
	cudaEventRecord(written, two);
	if (with_event)
		cudaStreamWaitEvent(one, written, 0);
	start("add_two", add_two, 1, 1, one, at);
	cudaStreamSynchronize(one);
	cudaMemcpyAsync(&value, at, sizeof value, cudaMemcpyDeviceToHost, one);
	cudaStreamSynchronize(one);
	cudaFree(at);
	cudaEventDestroy(written);
	cudaStreamDestroy(one);
	cudaStreamDestroy(two);
	cudaDeviceReset();
	return finish(value, 4);
}

} // namespace

int main(int argc, char **argv)
{
	const char *name = argc == 2 ? argv[1] : "";

	if (strcmp(name, "event") == 0 || strcmp(name, "no-event") == 0)
		return streams(strcmp(name, "event") == 0);
	if (strcmp(name, "not-freed") == 0) {
		void *at;
		cudaMalloc(&at, 8);
		cudaDeviceReset();
		return 0;
	}
	for (const auto &c : cases) {
		if (strcmp(c.name, name) != 0)
			continue;
		cudaStream_t stream;
		int *at, value = 0;
		cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
		cudaMalloc(reinterpret_cast<void **>(&at), sizeof *at);
		cudaMemcpyAsync(at, &value, sizeof value, cudaMemcpyHostToDevice, stream);
		start(c.name, c.kernel, 1, c.threads, stream, at);
		if (cudaGetLastError() != cudaSuccess) {
			puts("refused");
			fflush(stdout);
			_Exit(0);
		}
		cudaMemcpyAsync(&value, at, sizeof value, cudaMemcpyDeviceToHost, stream);
		cudaStreamSynchronize(stream);
		cudaFree(at);
		cudaStreamDestroy(stream);
		cudaDeviceReset();
		return finish(value, c.expected);
	}
	fprintf(stderr, "faults: %s: no such kernel\n", name);
	return 2;
}
