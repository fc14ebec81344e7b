// stencil advances a grid of 32-bit floats in 3 dimensions: each point becomes a mean of itself
// and its 6 neighbours, step after step, between fixed faces.
//
//     next = 0.4 here + 0.1 (left + right + north + south + below + above)
//
// A warp holds 32 points of a row and as many rows as its threads have registers for, and walks
// through the planes: each point is read from memory once, planes below and above are in
// registers, the neighbours in a row come from the warp's other lanes. So the kernel moves
// little more than the 8 bytes a point that any must, and comes near to a copy's rate.
#include "random.h"
#include "run.h"

const int rows = 4;  // of a thread
const int warps = 8; // of a block
const float here_weight = 0.4f, side_weight = 0.1f;

// advance does planes planes of the inner grid from 1 + planes blockIdx.z on. Points beyond the
// grid are read at its edge, and not written: so all lanes take part in each exchange.
__global__ void __launch_bounds__(32 * warps) advance(const float *__restrict__ in, float *__restrict__ out, int nx, int ny, int nz, int planes)
{
	const int lane = int(threadIdx.x), x = int(blockIdx.x) * 32 + lane;
	const int y0 = 1 + (int(blockIdx.y) * warps + int(threadIdx.y)) * rows;
	const int first = 1 + int(blockIdx.z) * planes, end = min(first + planes, nz - 1);
	const size_t plane = size_t(nx) * size_t(ny);
	const int column = min(x, nx - 1);
	const int beside = lane == 0 ? max(column - 1, 0) : min(column + 1, nx - 1);
	const int north = min(y0 - 1, ny - 1) * nx + column, south = min(y0 + rows, ny - 1) * nx + column;
	int row[rows];
	float below[rows], here[rows], above[rows], next[rows];

	UNROLL
	for (int r = 0; r < rows; r++) {
		row[r] = min(y0 + r, ny - 1) * nx;
		const float *at = in + size_t(first - 1) * plane + row[r] + column;
		below[r] = at[0];
		here[r] = at[plane];
		above[r] = at[2 * plane];
	}
	for (int z = first; z < end; z++) {
		const float *now = in + size_t(z) * plane;
		float *to = out + size_t(z) * plane;

		// Asked for early, two planes ahead: so enough is under way to fill the memory's bus.
		UNROLL
		for (int r = 0; r < rows; r++)
			next[r] = z + 1 < end ? now[2 * plane + row[r] + column] : 0;
		float from_north = now[north], from_south = now[south];
		UNROLL
		for (int r = 0; r < rows; r++) {
			float left = __shfl_up_sync(0xffffffffu, here[r], 1);
			float right = __shfl_down_sync(0xffffffffu, here[r], 1);
			if (lane == 0)
				left = now[row[r] + beside];
			if (lane == 31)
				right = now[row[r] + beside];
			float sides = (left + right) + ((r == 0 ? from_north : here[max(r - 1, 0)]) + (r == rows - 1 ? from_south : here[min(r + 1, rows - 1)])) + (below[r] + above[r]);
			if (x >= 1 && x < nx - 1 && y0 + r < ny - 1)
				to[row[r] + x] = fmaf(side_weight, sides, here_weight * here[r]);
		}
		UNROLL
		for (int r = 0; r < rows; r++) {
			below[r] = here[r];
			here[r] = above[r];
			above[r] = next[r];
		}
	}
}

// reference does one step on the CPU, in double precision, and rounds each result once.
static void reference(const float *in, float *out, long nx, long ny, long nz)
{
	const long plane = nx * ny;

	for (long z = 1; z < nz - 1; z++)
		for (long y = 1; y < ny - 1; y++)
			for (long x = 1; x < nx - 1; x++) {
				const float *p = in + z * plane + y * nx + x;
				double sides = double(p[-1]) + p[1] + p[-nx] + p[nx] + p[-plane] + p[plane];
				out[z * plane + y * nx + x] = float(double(here_weight) * p[0] + double(side_weight) * sides);
			}
}

// see shows the differences of two grids.
static void see(Worst &worst, const float *a, const float *b, size_t points, double steps)
{
	for (size_t i = 0; i < points; i++)
		worst.see(std::fabs(double(a[i]) - double(b[i])) / steps);
}

static const Program program = {
	"stencil",
	"7-point stencil in 3 dimensions on 32-bit floats, between fixed faces.\n",
	512, 3, 2048, "points an edge, or three edges as in 512x256x128", true,
	100, "time steps", nullptr,
	"stencil --size 512 --iterations 100 --check",
};

int main(int argc, char **argv)
{
	Run run(program, argc, argv);
	auto step = run.load("advance", advance);
	const int nx = int(run.options.size[0]), ny = int(run.options.size[1]), nz = int(run.options.size[2]);
	const size_t points = size_t(nx) * size_t(ny) * size_t(nz);
	const double inner = double(nx - 2) * (ny - 2) * (nz - 2);
	float *input = run.host<float>(points, "the grid"), *output = run.host<float>(points, "the result");

	{
		Timed t(run.prepare_seconds);
		for (size_t i = 0; i < points; i++)
			input[i] = uniform(run.options.seed, i);
	}
	float *first = run.allocate<float>(points, "the grid");
	float *grids[2] = { first, run.allocate<float>(points, "the next grid") };
	run.to_device(grids[0], input, points);
	// The faces of the other are the same, and nobody writes them.
	run.within_device(grids[1], grids[0], points);

	// As many stretches of planes as keep every multiprocessor busy, of 16 planes at least:
	// each stretch reads two planes more than it writes.
	const unsigned across = unsigned(nx + 31) / 32, down = unsigned(ny - 2 + warps * rows - 1) / (warps * rows);
	const long wanted = (16L * run.multiprocessors + across * down - 1) / (across * down);
	const int stretches = int(max(1L, min(wanted, (nz - 2L) / 16)));
	const int planes = (nz - 2 + stretches - 1) / stretches;
	const dim3 grid(across, down, unsigned((nz - 2 + planes - 1) / planes)), block(32, warps);
	const Work work = { 4 * double(points) + 4 * inner, 8 * inner };

	run.bound = "bandwidth";
	run.basis = "a step reads each point once and writes each inner one once, 4 bytes each; 8 operations an inner point";
	auto advance_once = [&](long i) { step(run.stream, grid, block, work, grids[i % 2], grids[(i + 1) % 2], nx, ny, nz, planes); };
	run.iterate([] {}, [](long) {}, advance_once);
	const long steps = run.options.iterations;
	run.from_device(output, grids[steps % 2], points);

	run.check([&]() -> Checked {
		// The last step, from the grid before it; then the first ones again, as many as do not
		// take the CPU long.
		std::vector<float> a(points), b(points);
		run.from_device(a.data(), grids[(steps + 1) % 2], points);
		b = a;
		reference(a.data(), b.data(), nx, ny, nz);
		Worst worst;
		see(worst, b.data(), output, points, 1);
		const long again = max(1L, min(steps, long(1e9 / double(points))));
		run.to_device(grids[0], input, points);
		run.within_device(grids[1], grids[0], points);
		for (long i = 0; i < again; i++)
			advance_once(i);
		std::vector<float> result(points);
		run.from_device(result.data(), grids[again % 2], points);
		a.assign(input, input + points);
		b = a;
		for (long i = 0; i < again; i++)
			reference(i % 2 ? b.data() : a.data(), i % 2 ? a.data() : b.data(), nx, ny, nz);
		see(worst, again % 2 ? b.data() : a.data(), result.data(), points, double(again));
		run.figures.push_back({ "checked_steps", double(again) });
		return { worst.error, 9 * std::ldexp(1, -24), "values are below 1 and each step rounds 8 times, its reference once, by 2^-24 of that at most",
			 "every point: the last step from the grid before it, and the first steps (figure checked_steps) over their number, against the CPU in double precision" };
	});
	return run.end();
}
