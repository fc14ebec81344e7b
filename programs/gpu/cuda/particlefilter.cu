// particlefilter follows a bright disk through noisy frames with a bootstrap particle filter
// (Gordon, Salmond and Smith, "Novel approach to nonlinear/non-Gaussian Bayesian state
// estimation", IEE Proceedings F 140, 1993). For each frame:
//
//   score_map   what a particle at each pixel would be worth: a sum over the disk around it
//   move_and_score  every particle moves by its speed and by chance, and finds its score
//   weigh       scores become weights, relative to the best: sums of tiles of them
//   scan        prefix sums of the tiles
//   cumulate    prefix sums of the weights
//   resample    systematic resampling: each new particle finds the old one that it comes from,
//               and the new ones' places are summed up
//
// Everything is in whole numbers, places and speeds with 16 binary digits behind the point,
// weights as shares of 2^31: so a sum is the same in whatever order it is made, and the CPU's
// reference must agree in every bit. Weights are 64 bits when summed up. All but score_map go
// once through the particles, and are bound by memory.
#include "random.h"
#include "run.h"

typedef unsigned long long Sum; // of weights, or of places

const int side = 128;        // of a frame, in pixels
const int radius = 5;        // of the disk
const int middle = 164;      // between the disk's brightness and the background's
const int halving = 512;     // a score less by this halves the weight
const int one = 1 << 16;     // a pixel
const int threads = 256;     // of a block
const int tile = 4 * threads; // particles of a block, 4 a thread

struct Particles {
	int *x, *y, *vx, *vy; // places and speeds, in pixels and pixels a frame, times one
};

__host__ __device__ inline bool in_disk(int dx, int dy)
{
	return dx * dx + dy * dy <= radius * radius;
}

// normal gives 32 random bits' sum by bytes: about normally distributed, with a standard
// deviation of 147.8.
__host__ __device__ inline int normal(uint32_t bits)
{
	return int((bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24)) - 510;
}

__host__ __device__ inline int bounded(int value)
{
	return value < 0 ? 0 : value > side * one - 1 ? side * one - 1 : value;
}

// place_particle places particle i near the first frame's disk, at rest.
__host__ __device__ inline void place_particle(uint64_t seed, size_t i, int at_x, int at_y, int &x, int &y)
{
	const uint64_t bits = draw(seed, i);

	x = bounded(at_x + normal(uint32_t(bits)) * 1024);
	y = bounded(at_y + normal(uint32_t(bits >> 32)) * 1024);
}

// move_particle moves particle i of n in a frame: noise of a quarter pixel a frame to its
// speed, of one pixel to its place.
__host__ __device__ inline void move_particle(uint64_t seed, size_t i, size_t n, int frame, int &x, int &y, int &vx, int &vy)
{
	const uint64_t turn = 1 + 2 * uint64_t(frame);
	const uint64_t speed = draw(seed, turn * n + i), way = draw(seed, (turn + 1) * n + i);

	vx += normal(uint32_t(speed)) * 111;
	vy += normal(uint32_t(speed >> 32)) * 111;
	vx = vx > 8 * one ? 8 * one : vx < -8 * one ? -8 * one : vx;
	vy = vy > 8 * one ? 8 * one : vy < -8 * one ? -8 * one : vy;
	x = bounded(x + vx + normal(uint32_t(way)) * 443);
	y = bounded(y + vy + normal(uint32_t(way >> 32)) * 443);
}

__host__ __device__ inline uint32_t weight(int score, int best, const uint32_t *table)
{
	const unsigned below = unsigned(best - score), shift = below / halving;

	return shift < 32 ? table[below % halving] >> shift : 0;
}

// high gives the upper half of a product.
__host__ __device__ inline uint64_t high(uint64_t a, uint64_t b)
{
#ifdef __CUDA_ARCH__
	return __umul64hi(a, b);
#else
	return uint64_t((unsigned __int128)a * b >> 64);
#endif
}

// Thresholds of systematic resampling: the j-th of n is (j total + offset) / n, with one
// offset below the total for all.
struct Thresholds {
	uint64_t each, rest, offset;

	__host__ __device__ Thresholds(uint64_t total, uint64_t n, uint64_t bits) : each(total / n), rest(total % n), offset(high(total, bits)) {}
	__host__ __device__ uint64_t of(uint64_t j, uint64_t n) const { return j * each + (j * rest + offset) / n; }
};

// resampling_bits are what a frame's offset is drawn from.
__host__ __device__ inline uint64_t resampling_bits(uint64_t seed, int frame)
{
	return draw(~seed, uint64_t(frame));
}

__global__ void __launch_bounds__(threads) place(uint64_t seed, size_t n, int at_x, int at_y, Particles p)
{
	const size_t i = size_t(blockIdx.x) * threads + threadIdx.x;

	if (i < n) {
		place_particle(seed, i, at_x, at_y, p.x[i], p.y[i]);
		p.vx[i] = 0;
		p.vy[i] = 0;
	}
}

const int patch = 16; // pixels an edge of a block of score_map

__global__ void __launch_bounds__(patch * patch) score_map(const unsigned char *__restrict__ frame, int *__restrict__ map, int *best)
{
	SHARED(pixels, int[patch + 2 * radius][patch + 2 * radius]);
	const int left = int(blockIdx.x) * patch - radius, top = int(blockIdx.y) * patch - radius, wide = patch + 2 * radius;

	// Beyond the frame lies what says nothing.
	for (int i = int(threadIdx.y * patch + threadIdx.x); i < wide * wide; i += patch * patch) {
		const int x = left + i % wide, y = top + i / wide;
		pixels[i / wide][i % wide] = x >= 0 && x < side && y >= 0 && y < side ? frame[y * side + x] - middle : 0;
	}
	__syncthreads();
	int score = 0;
	for (int dy = -radius; dy <= radius; dy++)
		for (int dx = -radius; dx <= radius; dx++)
			if (in_disk(dx, dy))
				score += pixels[int(threadIdx.y) + radius + dy][int(threadIdx.x) + radius + dx];
	map[(int(blockIdx.y) * patch + int(threadIdx.y)) * side + int(blockIdx.x) * patch + int(threadIdx.x)] = score;
	if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0 && threadIdx.y == 0)
		*best = -(1 << 30);
}

__global__ void __launch_bounds__(threads) move_and_score(uint64_t seed, size_t n, int frame, Particles p, const int *__restrict__ map, int *__restrict__ scores, int *best)
{
	SHARED(warps, int[threads / 32]);
	int most = -(1 << 30);

	for (int k = 0; k < tile / threads; k++) {
		const size_t i = size_t(blockIdx.x) * tile + k * threads + threadIdx.x;
		if (i < n) {
			int x = p.x[i], y = p.y[i], vx = p.vx[i], vy = p.vy[i];
			move_particle(seed, i, n, frame, x, y, vx, vy);
			p.x[i] = x;
			p.y[i] = y;
			p.vx[i] = vx;
			p.vy[i] = vy;
			const int score = map[y / one * side + x / one];
			scores[i] = score;
			most = max(most, score);
		}
	}
	most = warp_most(most);
	if (threadIdx.x % 32 == 0)
		warps[threadIdx.x / 32] = most;
	__syncthreads();
	if (threadIdx.x == 0) {
		for (int w = 0; w < threads / 32; w++)
			most = max(most, warps[w]);
		atomicMax(best, most);
	}
}

// block_sum gives thread 0 the sum of what the block's threads bring.
__device__ inline Sum block_sum(Sum value, Sum *warps)
{
	value = warp_sum(value);
	if (threadIdx.x % 32 == 0)
		warps[threadIdx.x / 32] = value;
	__syncthreads();
	if (threadIdx.x == 0)
		for (unsigned w = 1; w < blockDim.x / 32; w++)
			value += warps[w];
	return value;
}

__global__ void __launch_bounds__(threads) weigh(size_t n, const int *__restrict__ scores, const int *best, const uint32_t *__restrict__ table, Sum *sums)
{
	SHARED(warps, Sum[threads / 32]);
	Sum sum = 0;

	for (int k = 0; k < tile / threads; k++) {
		const size_t i = size_t(blockIdx.x) * tile + k * threads + threadIdx.x;
		if (i < n)
			sum += weight(scores[i], *best, table);
	}
	sum = block_sum(sum, warps);
	if (threadIdx.x == 0)
		sums[blockIdx.x] = sum;
}

// before gives each thread the sum of what threads before it bring, and all of them the whole.
// A block calls it as often as it likes, with a barrier between.
__device__ inline Sum before(Sum value, Sum &whole, Sum *warps)
{
	const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	Sum sum = value, above = 0;

	for (unsigned by = 1; by < 32; by *= 2) {
		const Sum other = __shfl_up_sync(0xffffffffu, sum, by);
		if (lane >= by)
			sum += other;
	}
	if (lane == 31)
		warps[warp] = sum;
	__syncthreads();
	whole = 0;
	for (unsigned w = 0; w < blockDim.x / 32; w++) {
		if (w == warp)
			above = whole;
		whole += warps[w];
	}
	return above + sum - value;
}

// scan makes of the tiles' sums what lies before each, and behind the last the whole. It is one
// block, which takes as many rounds as it must; on a CPU it is small, so that tests see more
// than one round.
#ifdef EMULATE
const int scan_threads = 64;
#else
const int scan_threads = 1024;
#endif

__global__ void __launch_bounds__(scan_threads) scan(Sum *sums, unsigned tiles)
{
	SHARED(warps, Sum[scan_threads / 32]);
	Sum done = 0, whole;

	for (unsigned first = 0; first < tiles; first += scan_threads) {
		const unsigned i = first + threadIdx.x;
		const Sum value = i < tiles ? sums[i] : 0, ahead = before(value, whole, warps);
		if (i < tiles)
			sums[i] = done + ahead;
		done += whole;
		__syncthreads();
	}
	if (threadIdx.x == 0)
		sums[tiles] = done;
}

// cumulate has 4 particles in a row for each thread: so the block adds up but once.
__global__ void __launch_bounds__(threads) cumulate(size_t n, const int *__restrict__ scores, const int *best, const uint32_t *__restrict__ table, const Sum *__restrict__ sums, Sum *__restrict__ cumulated)
{
	SHARED(warps, Sum[threads / 32]);
	const size_t first = size_t(blockIdx.x) * tile + 4 * threadIdx.x;
	const bool whole_four = first + 4 <= n;
	const int most = *best;
	int score[4] = {};
	Sum value[4], sum = 0, whole;

	if (whole_four) {
		const int4 four = *reinterpret_cast<const int4 *>(scores + first);
		score[0] = four.x;
		score[1] = four.y;
		score[2] = four.z;
		score[3] = four.w;
	}
	UNROLL
	for (int k = 0; k < 4; k++) {
		if (!whole_four && first + k < n)
			score[k] = scores[first + k];
		if (first + k < n)
			sum += weight(score[k], most, table);
		value[k] = sum;
	}
	const Sum done = sums[blockIdx.x] + before(sum, whole, warps);
	UNROLL
	for (int k = 0; k < 4; k++)
		value[k] += done;
	if (whole_four) {
		ulonglong2 *to = reinterpret_cast<ulonglong2 *>(cumulated + first);
		to[0] = { value[0], value[1] };
		to[1] = { value[2], value[3] };
	} else {
		for (int k = 0; k < 4; k++)
			if (first + k < n)
				cumulated[first + k] = value[k];
	}
}

// find gives all lanes of a warp the first of n places whose value exceeds a threshold; there
// is one, and if there were none it would end all the same. Each step tells which of 32 parts
// it is in.
__device__ inline size_t find(const Sum *values, size_t n, Sum threshold)
{
	const int lane = int(threadIdx.x % 32);
	size_t low = 0, high = n;

	while (high - low > 1) {
		const size_t part = (high - low + 31) / 32;
		const size_t at = min(low + size_t(lane + 1) * part, high) - 1;
		const int first = max(__ffs(int(__ballot_sync(0xffffffffu, values[at] > threshold))) - 1, 0);
		low = low + size_t(first) * part;
		high = min(low + part, high);
	}
	return low;
}

__global__ void __launch_bounds__(threads) resample(uint64_t seed, size_t n, int frame, const Sum *__restrict__ cumulated, const Sum *total, Particles old, Particles fresh, Sum *places)
{
	SHARED(range, size_t[2]);
	SHARED(warps_x, Sum[threads / 32]);
	SHARED(warps_y, Sum[threads / 32]);
	const Thresholds thresholds(*total, n, resampling_bits(seed, frame));
	const size_t first = size_t(blockIdx.x) * tile, last = min(first + tile, n) - 1;
	const unsigned warp = threadIdx.x / 32;
	Sum x = 0, y = 0;

	// All that the block looks for lies between what its first and its last one find.
	if (warp < 2) {
		const size_t found = find(cumulated, n, thresholds.of(warp == 0 ? first : last, n));
		if (threadIdx.x % 32 == 0)
			range[warp] = found;
	}
	__syncthreads();
	for (int k = 0; k < tile / threads; k++) {
		const size_t j = first + k * threads + threadIdx.x;
		if (j < n) {
			const Sum threshold = thresholds.of(j, n);
			size_t low = range[0], high = range[1];
			while (low < high) {
				const size_t half = low + (high - low) / 2;
				if (cumulated[half] > threshold)
					high = half;
				else
					low = half + 1;
			}
			const int px = old.x[low], py = old.y[low], vx = old.vx[low], vy = old.vy[low];
			fresh.x[j] = px;
			fresh.y[j] = py;
			fresh.vx[j] = vx;
			fresh.vy[j] = vy;
			x += Sum(px);
			y += Sum(py);
		}
	}
	x = block_sum(x, warps_x);
	y = block_sum(y, warps_y);
	if (threadIdx.x == 0) {
		atomicAdd(&places[0], x);
		atomicAdd(&places[1], y);
	}
}

// truth is where the disk is in a frame.
static void truth(int frame, double &x, double &y)
{
	x = side / 2 + 40 * std::cos(0.05 * frame);
	y = side / 2 + 40 * std::sin(0.05 * frame);
}

// draw_frame draws the disk on its background, with noise of a standard deviation of 18.
static void draw_frame(unsigned char *pixels, int frame, uint64_t seed)
{
	double x, y;

	truth(frame, x, y);
	for (int i = 0; i < side * side; i++) {
		const double dx = i % side + 0.5 - x, dy = i / side + 0.5 - y;
		const int level = (dx * dx + dy * dy <= radius * radius ? 228 : 100) + normal(uint32_t(draw(seed ^ 0x5eed, uint64_t(frame) * side * side + i))) / 8;
		pixels[i] = static_cast<unsigned char>(level < 0 ? 0 : level > 255 ? 255 : level);
	}
}

// Reference is the filter on the CPU, one particle after the other.
class Reference {
public:
	std::vector<int> x, y, vx, vy;
	Sum places[2];

	Reference(uint64_t seed, size_t n, int at_x, int at_y) : x(n), y(n), vx(n), vy(n), seed(seed)
	{
		for (size_t i = 0; i < n; i++)
			place_particle(seed, i, at_x, at_y, x[i], y[i]);
	}

	void step(const unsigned char *pixels, int frame, const uint32_t *table)
	{
		const size_t n = x.size();
		std::vector<int> scores(n), map(side * side);
		std::vector<uint32_t> weights(n);
		int best = -(1 << 30);
		Sum total = 0;

		for (int cy = 0; cy < side; cy++)
			for (int cx = 0; cx < side; cx++)
				for (int py = max(cy - radius, 0); py <= min(cy + radius, side - 1); py++)
					for (int px = max(cx - radius, 0); px <= min(cx + radius, side - 1); px++)
						if (in_disk(px - cx, py - cy))
							map[cy * side + cx] += pixels[py * side + px] - middle;
		for (size_t i = 0; i < n; i++) {
			move_particle(seed, i, n, frame, x[i], y[i], vx[i], vy[i]);
			scores[i] = map[y[i] / one * side + x[i] / one];
			best = max(best, scores[i]);
		}
		for (size_t i = 0; i < n; i++)
			total += weights[i] = weight(scores[i], best, table);
		const Thresholds thresholds(total, n, resampling_bits(seed, frame));
		std::vector<int> nx(n), ny(n), nvx(n), nvy(n);
		Sum reached = weights[0];
		places[0] = places[1] = 0;
		for (size_t j = 0, i = 0; j < n; j++) {
			while (reached <= thresholds.of(j, n))
				reached += weights[++i];
			nx[j] = x[i];
			ny[j] = y[i];
			nvx[j] = vx[i];
			nvy[j] = vy[i];
			places[0] += Sum(x[i]);
			places[1] += Sum(y[i]);
		}
		x.swap(nx);
		y.swap(ny);
		vx.swap(nvx);
		vy.swap(nvy);
	}

private:
	uint64_t seed;
};

static const Program program = {
	"particlefilter",
	"A bootstrap particle filter that follows a disk through noisy frames of 128 x 128 pixels.\n",
	1L << 22, 1, 1L << 26, "particles", false,
	100, "frames", nullptr,
	"particlefilter --size 4194304 --iterations 100 --check",
};

int main(int argc, char **argv)
{
	Run run(program, argc, argv);
	auto place_all = run.load("place", place);
	auto map_frame = run.load("score_map", score_map);
	auto move_all = run.load("move_and_score", move_and_score);
	auto weigh_all = run.load("weigh", weigh);
	auto scan_tiles = run.load("scan", scan);
	auto cumulate_all = run.load("cumulate", cumulate);
	auto resample_all = run.load("resample", resample);
	const size_t n = size_t(run.options.size[0]), frames = size_t(run.options.iterations), pixels = side * side;
	const unsigned tiles = unsigned((n + tile - 1) / tile);
	const uint64_t seed = run.options.seed;
	unsigned char *film = run.host<unsigned char>(frames * pixels, "the frames");
	uint32_t *table = run.host<uint32_t>(halving, "the weights");
	int *x = run.host<int>(n, "the particles"), *y = run.host<int>(n, "the particles");
	Sum *places = run.host<Sum>(2 * frames, "the sums");
	double start_x, start_y;

	{
		Timed t(run.prepare_seconds);
		for (size_t f = 0; f < frames; f++)
			draw_frame(film + f * pixels, int(f), seed);
		for (int i = 0; i < halving; i++)
			table[i] = uint32_t(std::lround(std::ldexp(std::exp2(-double(i) / halving), 31)));
	}
	truth(0, start_x, start_y);
	const int at_x = int(start_x * one), at_y = int(start_y * one);

	unsigned char *device_film = run.allocate<unsigned char>(frames * pixels, "the frames");
	uint32_t *device_table = run.allocate<uint32_t>(halving, "the weights");
	Particles particles[2];
	for (Particles &p : particles)
		p = { run.allocate<int>(n, "places"), run.allocate<int>(n, "places"), run.allocate<int>(n, "speeds"), run.allocate<int>(n, "speeds") };
	int *scores = run.allocate<int>(n, "the scores");
	Sum *cumulated = run.allocate<Sum>(n, "the cumulated weights"), *sums = run.allocate<Sum>(size_t(tiles) + 1, "the tiles' sums");
	int *map = run.allocate<int>(pixels, "the map of scores"), *best = run.allocate<int>(1, "the best score");
	Sum *device_places = run.allocate<Sum>(2 * frames, "the sums");
	run.to_device(device_film, film, frames * pixels);
	run.to_device(device_table, table, halving);

	auto reset = [&] {
		place_all(run.stream, unsigned((n + threads - 1) / threads), threads, { 16.0 * double(n), 0 }, seed, n, at_x, at_y, particles[0]);
		::check(cudaMemsetAsync(device_places, 0, 2 * frames * sizeof(Sum), run.stream), "clear the sums");
	};
	const double each = double(n);
	run.bound = "bandwidth";
	run.basis = "bytes a particle and frame: move_and_score reads 16 and writes 20, weigh reads 4, cumulate reads 4 and writes 8, resample reads 24 and writes 16; and 5 a pixel";
	reset();
	run.iterate(reset, [](long) {}, [&](long i) {
		const Particles old = particles[i % 2], fresh = particles[(i + 1) % 2];
		map_frame(run.stream, dim3(side / patch, side / patch), dim3(patch, patch), { 5.0 * pixels, 0 }, device_film + size_t(i) * pixels, map, best);
		move_all(run.stream, tiles, threads, { 36 * each, 0 }, seed, n, int(i), old, map, scores, best);
		weigh_all(run.stream, tiles, threads, { 4 * each, 0 }, n, scores, best, device_table, sums);
		scan_tiles(run.stream, 1, scan_threads, { 16.0 * tiles, 0 }, sums, tiles);
		cumulate_all(run.stream, tiles, threads, { 12 * each, 0 }, n, scores, best, device_table, sums, cumulated);
		resample_all(run.stream, tiles, threads, { 40 * each, 0 }, seed, n, int(i), cumulated, sums + tiles, old, fresh, device_places + 2 * i);
	});
	const Particles last = particles[frames % 2];
	run.from_device(places, device_places, 2 * frames);
	run.from_device(x, last.x, n);
	run.from_device(y, last.y, n);

	double square = 0;
	for (size_t f = 0; f < frames; f++) {
		double tx, ty;
		truth(int(f), tx, ty);
		const double dx = double(places[2 * f]) / each / one - tx, dy = double(places[2 * f + 1]) / each / one - ty;
		square += dx * dx + dy * dy;
	}
	run.figures.push_back({ "track_error_pixels", std::sqrt(square / double(frames)) });

	run.check([&]() -> Checked {
		// As many frames as do not take the CPU long; the particles themselves after all of them.
		const size_t checked = size_t(max(1L, min(long(frames), long(1e8 / each))));
		Reference reference(seed, n, at_x, at_y);
		Worst worst;
		for (size_t f = 0; f < checked; f++) {
			reference.step(film + f * pixels, int(f), table);
			for (size_t i = 0; i < 2; i++)
				worst.see(std::fabs(double(places[2 * f + i]) - double(reference.places[i])) / each / one);
		}
		for (size_t i = 0; checked == frames && i < n; i++) {
			worst.see(std::fabs(double(x[i]) - reference.x[i]) / one);
			worst.see(std::fabs(double(y[i]) - reference.y[i]) / one);
		}
		run.figures.push_back({ "checked_frames", double(checked) });
		return { worst.error, 0, "everything is in whole numbers, whose sums are the same in any order", "in pixels: the mean place after each of the first frames (figure checked_frames), and after all of them every particle, against the filter on the CPU" };
	});
	return run.end();
}
