// devicelimits measures what the device itself does at most, by the same manner as the programs
// beside it: so that a kernel's rate can be stated as a share of its limit.
//
//   copy    b = a            8 bytes an element, from memory to memory
//   triad   a = b + q c      12
//   fma     x = p x + q      in registers, 2 operations each
//   launch  nothing          one empty kernel after the other in a stream
//
// Each limit is the best of the iterations. The arrays should be some times the device's cache.
#include "random.h"
#include "run.h"

const int threads = 256;
const int quads = 4;   // of floats, that a thread of copy and triad has
const int chains = 8;  // of multiply-adds, that a thread keeps under way
const int launches = 100;

// each_quad calls a function for the places of this thread's whole quads of n elements, and
// the last one for the elements behind the last whole quad.
template <class Quad, class Single>
__device__ inline void each_quad(size_t n, Quad quad, Single single)
{
	const size_t whole = n / 4, first = size_t(blockIdx.x) * threads * quads + threadIdx.x;

	if (first + size_t(quads - 1) * threads < whole) {
		quad(first);
	} else {
		for (size_t i = first; i < first + size_t(quads) * threads; i += threads)
			for (size_t e = 4 * i; e < 4 * i + 4 && e < n; e++)
				single(e);
	}
}

__global__ void __launch_bounds__(threads) copy(const float *__restrict__ a, float *__restrict__ b, size_t n)
{
	each_quad(
		n,
		[&](size_t first) {
			float4 held[quads];
			UNROLL
			for (int i = 0; i < quads; i++)
				held[i] = reinterpret_cast<const float4 *>(a)[first + size_t(i) * threads];
			UNROLL
			for (int i = 0; i < quads; i++)
				reinterpret_cast<float4 *>(b)[first + size_t(i) * threads] = held[i];
		},
		[&](size_t e) { b[e] = a[e]; });
}

__global__ void __launch_bounds__(threads) triad(float *__restrict__ a, const float *__restrict__ b, const float *__restrict__ c, float q, size_t n)
{
	each_quad(
		n,
		[&](size_t first) {
			float4 x[quads], y[quads];
			UNROLL
			for (int i = 0; i < quads; i++) {
				x[i] = reinterpret_cast<const float4 *>(b)[first + size_t(i) * threads];
				y[i] = reinterpret_cast<const float4 *>(c)[first + size_t(i) * threads];
			}
			UNROLL
			for (int i = 0; i < quads; i++)
				reinterpret_cast<float4 *>(a)[first + size_t(i) * threads] =
					make_float4(fmaf(q, y[i].x, x[i].x), fmaf(q, y[i].y, x[i].y), fmaf(q, y[i].z, x[i].z), fmaf(q, y[i].w, x[i].w));
		},
		[&](size_t e) { a[e] = fmaf(q, c[e], b[e]); });
}

// chain is what a thread of multiply_add comes to: several chains, none of which waits for another.
__host__ __device__ inline float chain(float begin, float p, float q, int rounds)
{
	float x[chains], sum = 0;

	UNROLL
	for (int i = 0; i < chains; i++)
		x[i] = begin + float(i);
	for (int r = 0; r < rounds; r++) {
		UNROLL
		for (int i = 0; i < chains; i++)
			x[i] = fmaf(x[i], p, q);
	}
	UNROLL
	for (int i = 0; i < chains; i++)
		sum += x[i];
	return sum;
}

__global__ void __launch_bounds__(threads) multiply_add(float *out, float p, float q, int rounds)
{
	const size_t i = size_t(blockIdx.x) * threads + threadIdx.x;

	out[i] = chain(float(i % 1024), p, q, rounds);
}

__global__ void empty() {}

static const Program program = {
	"devicelimits",
	"What the device does at most: copy and triad from memory to memory, fused multiply-adds\n"
	"of 32-bit floats in registers, empty launches.\n",
	1L << 27, 1, 1L << 32, "floats of each of three arrays", false,
	10, "each measuring every limit once", nullptr,
	"devicelimits --size 134217728 --iterations 10 --check",
};

int main(int argc, char **argv)
{
	Run run(program, argc, argv);
	auto copying = run.load("copy", copy);
	auto adding = run.load("triad", triad);
	auto multiplying = run.load("multiply_add", multiply_add);
	auto nothing = run.load("empty", empty);
	const size_t n = size_t(run.options.size[0]);
	const unsigned blocks = unsigned((n + size_t(threads) * quads * 4 - 1) / (size_t(threads) * quads * 4));
	// 16 blocks a multiprocessor, in two waves, of a few ten thousand rounds: a millisecond.
	const unsigned workers = 16 * unsigned(run.multiprocessors);
	const int rounds = int(max(16L, min(long(n) / 4096, 1L << 15)));
	const float p = 0.999f, q = 0.001f;
	float *input = run.host<float>(n, "an array"), *output = run.host<float>(n, "the result");
	float *sums = run.host<float>(size_t(workers) * threads, "the sums");

	{
		Timed t(run.prepare_seconds);
		for (size_t i = 0; i < n; i++)
			input[i] = uniform(run.options.seed, i);
	}
	float *a = run.allocate<float>(n, "an array"), *b = run.allocate<float>(n, "an array"), *c = run.allocate<float>(n, "an array");
	float *out = run.allocate<float>(size_t(workers) * threads, "the sums");
	run.to_device(c, input, n);

	double best_copy = 0, best_triad = 0, best_fma = 0, best_launch = 0;
	auto rate = [](double &best, double work, double seconds) { best = seconds > 0 ? max(best, work / seconds) : best; };
	run.bound = "bandwidth";
	run.basis = "a copy's element is 8 bytes, a triad's 12 and 2 operations, a fused multiply-add 2 operations";
	run.iterate([] {}, [](long) {}, [&](long) {
		const double copied = 8 * double(n), added = 12 * double(n), flops = 2.0 * chains * rounds * workers * threads;
		const double copy_seconds = run.timed([&] { copying(run.stream, blocks, threads, { copied, 0 }, c, b, n); });
		const double triad_seconds = run.timed([&] { adding(run.stream, blocks, threads, { added, 2 * double(n) }, a, b, c, q, n); });
		const double fma_seconds = run.timed([&] { multiplying(run.stream, workers, threads, { 4.0 * workers * threads, flops }, out, p, q, rounds); });
		const double launch_seconds = run.timed([&] {
			for (int i = 0; i < launches; i++)
				nothing(run.stream, 1, 32, { 0, 0 });
		});
		rate(best_copy, copied, copy_seconds);
		rate(best_triad, added, triad_seconds);
		rate(best_fma, flops, fma_seconds);
		rate(best_launch, launches, launch_seconds);
	});
	run.from_device(output, a, n);
	run.from_device(sums, out, size_t(workers) * threads);
	run.figures = { { "copy_bytes_per_second", best_copy }, { "triad_bytes_per_second", best_triad }, { "fma_flops_per_second", best_fma }, { "launch_seconds", 1 / best_launch } };

	run.check([&]() -> Checked {
		// A fused multiply-add is rounded once, on the device and here: so all are equal.
		Worst worst;
		for (size_t i = 0; i < n; i++)
			worst.see(std::fabs(double(output[i]) - double(fmaf(q, input[i], input[i]))));
		float expected[1024];
		for (int i = 0; i < 1024; i++)
			expected[i] = chain(float(i), p, q, rounds);
		for (size_t i = 0; i < size_t(workers) * threads; i++)
			worst.see(std::fabs(double(sums[i]) - double(expected[i % 1024])));
		return { worst.error, 0, "copies and fused multiply-adds are exact or rounded once, in the same order: the CPU's are the same", "every element of copy and triad, and the sum of every thread of multiply_add, against the CPU" };
	});
	return run.end();
}
