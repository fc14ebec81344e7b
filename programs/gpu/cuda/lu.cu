// lu factors a dense matrix of 32-bit floats with partial pivoting, P A = L U, in place.
//
// Panels of 128 columns are factored 32 columns at a time, one launch a column: it eliminates
// one column from the other ones of the 32 and finds the next pivot on the way. Rows are not
// exchanged meanwhile: those that were pivots are only left alone, and 32 columns' exchanges
// are then done at once. What is right of a panel is updated by a product that is tiled through
// shared memory and registers; the next panel is updated first, and factored in a stream of its
// own beside the rest, which is urgent: the product's blocks fill the device, and the panel's would
// wait for the last of them. The product is bound by arithmetic, a panel by the latency of its
// launches: so the share of the device's rate grows with the matrix.
//
// The matrix lies by rows, each filled up with zeros to a whole number of 32 columns. The
// factoring keeps them zeros.
#include "random.h"
#include "run.h"

typedef unsigned long long Candidate; // for a pivot: its size above, its row's complement below

const int panel = 128;     // columns that are factored before the rest is updated
const int strip = 32;      // of them together, a warp's width
const int step_rows = 4;   // of a warp, in a step
const int step_warps = 8;  // of a block, in a step
const int moves = 2 * strip; // most rows that a strip's pivots make change places

__device__ inline Candidate candidate(float value, int row)
{
	// Floats that are not below zero compare as their bits do; among equals the first row wins.
	return Candidate(__float_as_uint(fabsf(value))) << 32 | Candidate(~unsigned(row));
}

// best_of gives all threads of a block the best of what they bring. warps has room for each.
__device__ inline Candidate best_of(Candidate best, Candidate *warps)
{
	best = warp_most(best);
	if (threadIdx.x % 32 == 0)
		warps[threadIdx.x / 32] = best;
	__syncthreads();
	for (unsigned w = 0; w < blockDim.x / 32; w++)
		best = warps[w] > best ? warps[w] : best;
	return best;
}

// eliminate does column k of the strip that begins at row and column base and is width wide:
// it takes the best of the candidates as the pivot, eliminates its column from the rows that
// were no pivots yet, and leaves each block's candidate for the next column. With k = -1 it
// only looks for the first ones. A lane has a column, a warp step_rows rows.
__global__ void __launch_bounds__(32 * step_warps) eliminate(float *a, int n, int ld, int base, int width, int k, const Candidate *from, int count, Candidate *to, int *pivots)
{
	SHARED(warps, Candidate[step_warps]);
	SHARED(warps_next, Candidate[step_warps]);
	const int lane = int(threadIdx.x) % 32;
	const int first = base + (int(blockIdx.x) * step_warps + int(threadIdx.x) / 32) * step_rows;
	float value[step_rows];
	Candidate best = 0;
	int pivot = -1, was = -1;

	// Read before the pivot is known: the two take as long as one.
	UNROLL
	for (int r = 0; r < step_rows; r++)
		value[r] = first + r < n && lane < width ? a[size_t(first + r) * ld + base + lane] : 0;
	if (k >= 0) {
		for (int i = int(threadIdx.x); i < count; i += int(blockDim.x))
			best = from[i] > best ? from[i] : best;
		best = best_of(best, warps);
		pivot = int(~unsigned(best));
		if (lane < k)
			was = pivots[base + lane];
		if (lane == k)
			was = pivot;
		if (blockIdx.x == 0 && threadIdx.x == 0)
			pivots[base + k] = pivot;
	}
	const float pivots_row = k >= 0 && lane < width ? a[size_t(pivot) * ld + base + lane] : 0;
	const float divisor = __shfl_sync(0xffffffffu, pivots_row, k >= 0 ? k : 0);
	best = 0;
	UNROLL
	for (int r = 0; r < step_rows; r++) {
		const int row = first + r;
		const bool idle = __any_sync(0xffffffffu, was == row) || row >= n;
		const float factor = divisor != 0 ? __shfl_sync(0xffffffffu, value[r], k >= 0 ? k : 0) / divisor : 0;

		if (k >= 0 && lane == k)
			value[r] = factor;
		if (k >= 0 && lane > k)
			value[r] = fmaf(-factor, pivots_row, value[r]);
		if (k >= 0 && !idle && lane >= k && lane < width)
			a[size_t(row) * ld + base + lane] = value[r];
		const float next = __shfl_sync(0xffffffffu, value[r], min(k + 1, strip - 1));
		if (!idle)
			best = max(best, candidate(next, row));
	}
	best = best_of(best, warps_next);
	if (threadIdx.x == 0)
		to[blockIdx.x] = best;
}

// arrange makes of a strip's pivots the moves that bring them to its rows, and what was there
// to where they come from: rows from[i] to to[i], from -1 where there is none. It moves the
// rows' numbers likewise.
__global__ void arrange(const int *pivots, int base, int width, int *from, int *to, int *permutation)
{
	const int lane = int(threadIdx.x), here = base + lane;
	const int pivot = lane < width ? pivots[base + lane] : -1;
	bool chosen = false;

	for (int i = 0; i < 32; i++)
		chosen |= __shfl_sync(0xffffffffu, pivot, i) == here;
	const unsigned left = __ballot_sync(0xffffffffu, lane < width && !chosen);
	const unsigned vacated = __ballot_sync(0xffffffffu, pivot >= base + width);
	int moved = -1;
	if (pivot >= base + width) {
		// As many rows of the strip were not chosen as pivots came from below it: the n-th goes
		// to where the n-th came from.
		unsigned rest = left;
		for (int n = __popc(vacated & ((1u << lane) - 1)); n > 0; n--)
			rest &= rest - 1;
		moved = base + __ffs(int(rest)) - 1;
	}
	const bool stays = pivot == here;
	from[lane] = pivot >= 0 && !stays ? pivot : -1;
	to[lane] = here;
	from[strip + lane] = moved;
	to[strip + lane] = pivot;
	const int first = pivot >= 0 ? permutation[pivot] : 0, second = moved >= 0 ? permutation[moved] : 0;
	__syncwarp();
	if (pivot >= 0)
		permutation[here] = first;
	if (moved >= 0)
		permutation[pivot] = second;
}

// move moves rows, in columns from on, before until. All of a block's columns are read before
// any is written.
__global__ void __launch_bounds__(256) move(float *a, int ld, int from, int until, const int *rows, const int *to)
{
	const int column = from + int(blockIdx.x) * 32 + int(threadIdx.x);
	float held[moves / 8];

	UNROLL
	for (int i = 0; i < moves / 8; i++) {
		const int row = rows[i * 8 + int(threadIdx.y)];
		held[i] = row >= 0 && column < until ? a[size_t(row) * ld + column] : 0;
	}
	__syncthreads();
	UNROLL
	for (int i = 0; i < moves / 8; i++)
		if (rows[i * 8 + int(threadIdx.y)] >= 0 && column < until)
			a[size_t(to[i * 8 + int(threadIdx.y)]) * ld + column] = held[i];
}

// solve makes rows base to base + 32 of columns from on, before until, rows of U: by the
// strip's unit lower triangle. A thread has a column.
__global__ void __launch_bounds__(128) solve(float *a, int ld, int base, int from, int until)
{
	SHARED(l, float[strip][strip + 1]);
	const int column = from + int(blockIdx.x) * 128 + int(threadIdx.x);
	float x[strip];

	for (int i = int(threadIdx.x); i < strip * strip; i += 128)
		l[i / strip][i % strip] = a[size_t(base + i / strip) * ld + base + i % strip];
	__syncthreads();
	if (column >= until)
		return;
	UNROLL
	for (int i = 0; i < strip; i++)
		x[i] = a[size_t(base + i) * ld + column];
	UNROLL
	for (int i = 0; i < strip; i++) {
		UNROLL
		for (int j = 0; j < strip; j++)
			if (j > i)
				x[j] = fmaf(-l[j][i], x[i], x[j]);
	}
	UNROLL
	for (int i = 0; i < strip; i++)
		a[size_t(base + i) * ld + column] = x[i];
}

const int tile = 128; // rows and columns of a block of the product
const int depth = 16; // of what a block multiplies between barriers

__device__ inline float4 zeros()
{
	return make_float4(0, 0, 0, 0);
}

// subtract_product takes the product of two parts of the matrix from a third one: rows from
// row on, before n, columns from column on, before until, less columns inner to inner + k times
// rows inner to inner + k. k is a multiple of depth, inner, column and until are multiples
// of 32. A block has 128 x 128, a thread 8 x 8 of them in registers; while 16 columns of the one
// and 16 rows of the other are multiplied out of shared memory, the next ones are under way.
__global__ void __launch_bounds__(256, 2) subtract_product(float *a, int n, int ld, int row, int column, int until, int inner, int k)
{
	SHARED(left, float[2][depth][tile + 4]); // by columns
	SHARED(right, float[2][depth][tile]);
	const int t = int(threadIdx.x), tx = t % 16, ty = t / 16;
	const int top = row + int(blockIdx.y) * tile, side = column + int(blockIdx.x) * tile;
	// What a thread brings of the left: 4 columns of 2 rows; of the right: 4 columns of 2 rows.
	const int left_row = t / 4, left_column = t % 4 * 4, right_row = t / 32, right_column = t % 32 * 4;
	float4 next_left[2], next_right[2];
	float sum[8][8];

	UNROLL
	for (int i = 0; i < 8; i++) {
		UNROLL
		for (int j = 0; j < 8; j++)
			sum[i][j] = 0;
	}
	auto fetch = [&](int from) {
		UNROLL
		for (int h = 0; h < 2; h++) {
			const int r = top + left_row + 64 * h, c = side + right_column;
			next_left[h] = r < n ? *reinterpret_cast<const float4 *>(a + size_t(r) * ld + inner + from + left_column) : zeros();
			next_right[h] = c < until ? *reinterpret_cast<const float4 *>(a + size_t(inner + from + right_row + 8 * h) * ld + c) : zeros();
		}
	};
	auto store = [&](int into) {
		UNROLL
		for (int h = 0; h < 2; h++) {
			left[into][left_column + 0][left_row + 64 * h] = next_left[h].x;
			left[into][left_column + 1][left_row + 64 * h] = next_left[h].y;
			left[into][left_column + 2][left_row + 64 * h] = next_left[h].z;
			left[into][left_column + 3][left_row + 64 * h] = next_left[h].w;
			*reinterpret_cast<float4 *>(&right[into][right_row + 8 * h][right_column]) = next_right[h];
		}
	};

	fetch(0);
	store(0);
	__syncthreads();
	for (int from = 0, at = 0; from < k; from += depth, at ^= 1) {
		const bool more = from + depth < k;
		if (more)
			fetch(from + depth);
		UNROLL
		for (int d = 0; d < depth; d++) {
			// 4 rows and 4 columns of each half: so a warp's reads hit each bank once.
			const float4 l0 = *reinterpret_cast<const float4 *>(&left[at][d][ty * 4]);
			const float4 l1 = *reinterpret_cast<const float4 *>(&left[at][d][64 + ty * 4]);
			const float4 r0 = *reinterpret_cast<const float4 *>(&right[at][d][tx * 4]);
			const float4 r1 = *reinterpret_cast<const float4 *>(&right[at][d][64 + tx * 4]);
			const float l[8] = { l0.x, l0.y, l0.z, l0.w, l1.x, l1.y, l1.z, l1.w };
			const float r[8] = { r0.x, r0.y, r0.z, r0.w, r1.x, r1.y, r1.z, r1.w };
			UNROLL
			for (int i = 0; i < 8; i++) {
				UNROLL
				for (int j = 0; j < 8; j++)
					sum[i][j] = fmaf(l[i], r[j], sum[i][j]);
			}
		}
		// Into the other half: nobody reads that since the last barrier.
		if (more)
			store(at ^ 1);
		__syncthreads();
	}
	UNROLL
	for (int i = 0; i < 8; i++) {
		const int r = top + (i < 4 ? ty * 4 + i : 64 + ty * 4 + i - 4);
		UNROLL
		for (int h = 0; h < 2; h++) {
			const int c = side + 64 * h + tx * 4;
			if (r < n && c < until) {
				float4 *at = reinterpret_cast<float4 *>(a + size_t(r) * ld + c);
				float4 v = *at;
				v.x -= sum[i][4 * h + 0];
				v.y -= sum[i][4 * h + 1];
				v.z -= sum[i][4 * h + 2];
				v.w -= sum[i][4 * h + 3];
				*at = v;
			}
		}
	}
}

// number_rows numbers the rows, as they are before any moves.
__global__ void number_rows(int *permutation, int n)
{
	const int i = int(blockIdx.x * blockDim.x + threadIdx.x);

	if (i < n)
		permutation[i] = i;
}

static unsigned parts(int whole, int part)
{
	return unsigned((whole + part - 1) / part);
}

// Factoring is a matrix on the device with what its factoring needs.
class Factoring {
public:
	Factoring(Run &run, int n)
	    : run(run), n(n), ld(int(parts(n, strip)) * strip), number(run.load("number_rows", number_rows)), step(run.load("eliminate", eliminate)), plan(run.load("arrange", arrange)),
	      swap(run.load("move", move)), triangle(run.load("solve", solve)), product(run.load("subtract_product", subtract_product)), beside(run.new_stream(true)), factored(run.new_event()), updated(run.new_event())
	{
	}

	int leading() const { return ld; }
	float *matrix = nullptr;
	int *permutation = nullptr; // row i of P A is row permutation[i] of A

	void allocate()
	{
		const int strips = int(parts(n, strip)), blocks = int(parts(n, step_rows * step_warps));

		matrix = run.allocate<float>(size_t(n) * size_t(ld), "the factors");
		permutation = run.allocate<int>(size_t(n), "the rows' order");
		pivots = run.allocate<int>(size_t(n), "the pivots");
		rows = run.allocate<int>(size_t(strips) * moves, "the rows to move");
		to = run.allocate<int>(size_t(strips) * moves, "where they move");
		candidates[0] = run.allocate<Candidate>(size_t(blocks), "candidates for a pivot");
		candidates[1] = run.allocate<Candidate>(size_t(blocks), "candidates for the next");
	}

	// factor factors the matrix, in the run's stream and one beside it.
	void factor()
	{
		number(run.stream, parts(n, 256), 256, { 4.0 * n, 0 }, permutation, n);
		run.record(updated, run.stream);
		run.await(beside, updated);
		factor_panel(0);
		for (int base = 0; base < n; base += panel) {
			const int end = min(base + panel, n), next = min(end + panel, n);

			run.await(run.stream, factored);
			for (int s = base; s < end; s += strip) {
				exchange(run.stream, s, 0, base);
				exchange(run.stream, s, rounded(end), ld);
			}
			if (end == n)
				break;
			update(base, end, next);
			run.record(updated, run.stream);
			run.await(beside, updated);
			factor_panel(end);
			if (next < n)
				update(base, next, n);
		}
	}

private:
	Run &run;
	const int n, ld;
	int *pivots = nullptr, *rows = nullptr, *to = nullptr;
	Candidate *candidates[2] = {};
	Kernel<int *, int> number;
	Kernel<float *, int, int, int, int, int, const Candidate *, int, Candidate *, int *> step;
	Kernel<const int *, int, int, int *, int *, int *> plan;
	Kernel<float *, int, int, int, const int *, const int *> swap;
	Kernel<float *, int, int, int, int> triangle;
	Kernel<float *, int, int, int, int, int, int, int> product;
	const cudaStream_t beside;
	const cudaEvent_t factored, updated;

	// real gives how many of the columns from on, before until, are the matrix' own.
	double real(int from, int until) const { return max(min(until, n) - from, 0); }

	// rounded gives a column, or the row's end behind the last one.
	int rounded(int column) const { return column == n ? ld : column; }

	void exchange(cudaStream_t in, int base, int from, int until)
	{
		if (from < until)
			swap(in, parts(until - from, 32), dim3(32, 8), { 8.0 * moves * (until - from), 0 }, matrix, ld, from, until, rows + base / strip * moves, to + base / strip * moves);
	}

	void triangle_and_product(cudaStream_t in, int base, int end, int rest, int from, int until)
	{
		// Strip by strip the rows from base to end, then what is below them.
		for (int s = base; s < end; s += strip) {
			const double columns = real(from, until);
			triangle(in, parts(until - from, 128), 128, { 8.0 * strip * columns, double(strip) * (strip - 1) * columns }, matrix, ld, s, from, until);
			if (s + strip < end)
				multiply(in, s + strip, end, from, until, s, strip);
		}
		if (end < rest)
			multiply(in, end, rest, from, until, base, end - base);
	}

	void multiply(cudaStream_t in, int row, int bottom, int from, int until, int inner, int k)
	{
		const double r = bottom - row, c = real(from, until);
		product(in, dim3(parts(until - from, tile), parts(bottom - row, tile)), 256, { 4 * (2 * r * c + k * (r + c)), 2 * r * c * k },
			matrix, bottom, ld, row, from, until, inner, k);
	}

	// update brings columns from on, before until, up to date with the panel at base.
	void update(int base, int from, int until)
	{
		triangle_and_product(run.stream, base, base + panel, n, from, rounded(until));
	}

	// factor_panel factors the panel that begins at base, in the stream beside.
	void factor_panel(int base)
	{
		const int end = min(base + panel, n);

		for (int s = base; s < end; s += strip) {
			const int width = min(strip, end - s), blocks = int(parts(n - s, step_rows * step_warps));

			for (int k = -1; k < width; k++) {
				const double below = k < 0 ? 0 : n - s - k - 1, right = width - k - 1;
				step(beside, unsigned(blocks), 32 * step_warps, { k < 0 ? 4.0 * (n - s) : 8 * below * (right + 1), below * (1 + 2 * right) },
				     matrix, n, ld, s, width, k, candidates[k & 1], blocks, candidates[(k + 1) & 1], pivots);
			}
			plan(beside, 1, 32, { 4.0 * 6 * width, 0 }, pivots, s, width, rows + s / strip * moves, to + s / strip * moves, permutation);
			exchange(beside, s, base, rounded(end));
			if (s + width < end)
				triangle_and_product(beside, s, s + strip, n, s + strip, rounded(end));
		}
		run.record(factored, beside);
	}
};

// compare gives the largest error of the factors relative to its bound's unit: of
// |P A x - L (U x)| over |L| |U| |x|, for vectors x of ones and minus ones, in double precision.
static double compare(const float *matrix, const float *factors, const int *permutation, int n, int ld, uint64_t seed)
{
	const int vectors = 4;
	std::vector<double> x(size_t(n) * vectors), ax(size_t(n) * vectors), ux(size_t(n) * vectors), bound(n);
	std::vector<char> seen(n, 0);
	Worst worst;

	for (size_t i = 0; i < x.size(); i++)
		x[i] = draw(~seed, i) & 1 ? 1 : -1;
	for (int i = 0; i < n; i++) {
		if (permutation[i] < 0 || permutation[i] >= n || seen[permutation[i]]++)
			return NAN; // no order of the rows
		const float *a = matrix + size_t(permutation[i]) * ld, *u = factors + size_t(i) * ld;
		for (int v = 0; v < vectors; v++) {
			const double *xs = &x[size_t(v) * n];
			double sum = 0, upper = 0;
			for (int j = 0; j < n; j++)
				sum += a[j] * xs[j];
			for (int j = i; j < n; j++)
				upper += u[j] * xs[j];
			ax[size_t(v) * n + i] = sum;
			ux[size_t(v) * n + i] = upper;
		}
		for (int j = i; j < n; j++)
			bound[i] += std::fabs(u[j]);
	}
	for (int i = 0; i < n; i++) {
		const float *l = factors + size_t(i) * ld;
		double limit = bound[i];
		for (int j = 0; j < i; j++) {
			if (!(std::fabs(l[j]) <= 1))
				return NAN; // a pivot was not its column's largest
			limit += std::fabs(l[j]) * bound[j];
		}
		for (int v = 0; v < vectors; v++) {
			double sum = ux[size_t(v) * n + i];
			for (int j = 0; j < i; j++)
				sum += l[j] * ux[size_t(v) * n + j];
			const double off = std::fabs(sum - ax[size_t(v) * n + i]);
			worst.see(off == 0 ? 0 : off / limit); // a row of zeros has no limit
		}
	}
	return worst.error;
}

static const Program program = {
	"lu",
	"LU decomposition of a dense matrix of 32-bit floats with partial pivoting.\n",
	8192, 1, 65536, "rows and columns", false,
	5, "factorings of the same matrix", nullptr,
	"lu --size 8192 --iterations 5 --check",
};

int main(int argc, char **argv)
{
	Run run(program, argc, argv);
	const int n = int(run.options.size[0]);
	Factoring factoring(run, n);
	const int ld = factoring.leading();
	const size_t elements = size_t(n) * size_t(ld);
	float *input = run.host<float>(elements, "the matrix"), *output = run.host<float>(elements, "the factors");
	int *permutation = run.host<int>(size_t(n), "the rows' order");

	{
		Timed t(run.prepare_seconds);
		for (int i = 0; i < n; i++)
			for (int j = 0; j < ld; j++)
				input[size_t(i) * ld + j] = j < n ? 2 * uniform(run.options.seed, size_t(i) * n + j) - 1 : 0;
	}
	float *original = run.allocate<float>(elements, "the matrix");
	factoring.allocate();
	run.to_device(original, input, elements);

	run.bound = "compute";
	run.basis = "each kernel's own: an element read or written is 4 bytes, a product of r x k by k x c is 2 r k c operations; together the 2/3 n^3 of a factoring, less lower powers";
	run.iterate([] {}, [&](long) { run.within_device(factoring.matrix, original, elements); }, [&](long) { factoring.factor(); });
	run.from_device(output, factoring.matrix, elements);
	run.from_device(permutation, factoring.permutation, size_t(n));

	run.check([&]() -> Checked {
		const double unit = n * std::ldexp(1, -24);
		return { compare(input, output, permutation, n, ld, run.options.seed), unit / (1 - unit),
			 "Higham, Accuracy and Stability of Numerical Algorithms, theorem 9.3: |P A - L U| <= n u / (1 - n u) |L| |U|, u = 2^-24",
			 "|P A x - L U x| over |L| |U| |x| for 4 random vectors x of 1 and -1, in double precision on the CPU, row by row; pivots are the largest of their columns" };
	});
	return run.end();
}
