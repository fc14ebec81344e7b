// lenet trains LeNet-5 (see lenet_reference.h) by plain gradient descent on digits that it draws
// itself, or only puts them through it. A batch is put through whole:
//
//   convolve1, convolve2   convolution, bias, tanh and means in one: a thread has 2 x 2 points,
//                          which become one mean, of 6 or of 8 channels, in registers
//   dense                  the full layers, forward and backward, as products tiled through
//                          shared memory, each with what follows it: bias, tanh, its derivative,
//                          and the way back through the second means
//   judge                  softmax, loss, and the loss' gradient by the logits
//   convolve2_back         the second convolution's gradient by its input, and the way back
//                          through the first means
//   convolve1_weights, convolve2_weights   the gradients by the convolutions' weights: partial
//                          sums of some pictures each
//   update_convolutions, update_dense      add the partial sums up and take the step
//
// No sum depends on an order that the device chooses: a seed gives the same parameters again.
#include <cstring>

#include "digits.h"
#include "lenet_reference.h"
#include "run.h"

const int batches = 4; // that are drawn; iterations take them in turn

// tanh_back gives a value's gradient from that of its tanh.
__device__ inline float tanh_back(float gradient, float tanh)
{
	return gradient * (1 - tanh * tanh);
}

// A window of 6 x 6 is what 2 x 2 points of a convolution are made of. add multiplies it by the
// weights of an offset: of the four points' sums, each channel has a row.
struct Window {
	float at[6][6];

	template <int channels>
	__device__ inline void add(float (&sum)[channels][4], const float *weights, int ky, int kx) const
	{
		UNROLL
		for (int o = 0; o < channels; o++) {
			const float w = weights[o];
			UNROLL
			for (int q = 0; q < 4; q++)
				sum[o][q] = fmaf(w, at[ky + q / 2][kx + q % 2], sum[o][q]);
		}
	}

	// read reads it from rows of a length, both even.
	__device__ inline void read(const float *from, int length)
	{
		UNROLL
		for (int y = 0; y < 6; y++) {
			UNROLL
			for (int x = 0; x < 6; x += 2) {
				const float2 two = *reinterpret_cast<const float2 *>(from + y * length + x);
				at[y][x] = two.x;
				at[y][x + 1] = two.y;
			}
		}
	}
};

// Eight holds the weights of up to eight channels for one offset, as they are read together.
struct alignas(16) Eight {
	float of[8];
};

// activate writes tanh of four points to a channel of an edge, where that is wanted, and gives
// their mean.
__device__ inline float activate(const float (&sum)[4], float *active, int edge)
{
	float a[4], mean = 0;

	UNROLL
	for (int q = 0; q < 4; q++) {
		a[q] = tanhf(sum[q]);
		mean += a[q];
	}
	if (active != nullptr) {
		*reinterpret_cast<float2 *>(active) = { a[0], a[1] };
		*reinterpret_cast<float2 *>(active + edge) = { a[2], a[3] };
	}
	return mean / 4;
}

__global__ void __launch_bounds__(128) convolve1(const float *__restrict__ pictures, const float *__restrict__ p, int batch, float *active, float *__restrict__ mean)
{
	SHARED(weights, Eight[25]);
	const int index = int(blockIdx.x) * 128 + int(threadIdx.x), b = index / 196, patch = index % 196, y = patch / 14 * 2, x = patch % 14 * 2;
	float sum[6][4];
	Window window;

	for (int i = int(threadIdx.x); i < 25 * 8; i += 128)
		weights[i / 8].of[i % 8] = i % 8 < 6 ? p[w1 + i % 8 * 25 + i / 8] : 0;
	__syncthreads();
	if (b >= batch)
		return;
	window.read(pictures + (size_t(b) * picture + y) * picture + x, picture);
	UNROLL
	for (int o = 0; o < 6; o++) {
		UNROLL
		for (int q = 0; q < 4; q++)
			sum[o][q] = p[b1 + o];
	}
	UNROLL
	for (int k = 0; k < 25; k++) {
		const Eight w = weights[k];
		window.add(sum, w.of, k / 5, k % 5);
	}
	UNROLL
	for (int o = 0; o < 6; o++)
		mean[(size_t(b) * 6 + o) * 196 + patch] = activate(sum[o], active ? active + (size_t(b) * 6 + o) * 784 + y * 28 + x : nullptr, 28);
}

// convolve2 does 8 of the 16 channels in a block.
__global__ void __launch_bounds__(128) convolve2(const float *__restrict__ in, const float *__restrict__ p, int batch, float *active, float *__restrict__ mean)
{
	SHARED(weights, Eight[6 * 25]);
	const int index = int(blockIdx.x) * 128 + int(threadIdx.x), b = index / 25, patch = index % 25, y = patch / 5 * 2, x = patch % 5 * 2;
	const int first = int(blockIdx.y) * 8;
	float sum[8][4];
	Window window;

	for (int i = int(threadIdx.x); i < 6 * 25 * 8; i += 128)
		weights[i / 8].of[i % 8] = p[w2 + (first + i % 8) * 150 + i / 8];
	__syncthreads();
	if (b >= batch)
		return;
	UNROLL
	for (int o = 0; o < 8; o++) {
		UNROLL
		for (int q = 0; q < 4; q++)
			sum[o][q] = p[b2 + first + o];
	}
	for (int c = 0; c < 6; c++) {
		window.read(in + (size_t(b) * 6 + c) * 196 + y * 14 + x, 14);
		UNROLL
		for (int k = 0; k < 25; k++) {
			const Eight w = weights[c * 25 + k];
			window.add(sum, w.of, k / 5, k % 5);
		}
	}
	UNROLL
	for (int o = 0; o < 8; o++)
		mean[(size_t(b) * 16 + first + o) * 25 + patch] = activate(sum[o], active ? active + (size_t(b) * 16 + first + o) * 100 + y * 10 + x : nullptr, 10);
}

// What dense makes of a product of m x k by k x n:
//
//   forward         c[m][n] = a[m][k] b[n][k] + extra[n]
//   squashed        the same, and tanh of it
//   backward        c[m][n] = a[m][k] b[k][n], times 1 - extra[m][n]^2
//   backward_means  the same, without that, goes back through means and tanh: to extra[m] of 16
//                   channels of 10 x 10, in place
//   gradient        c[z][m][n] = a[k][m] b[k][n], over the z-th stretch of k; behind the last
//                   column of b stands one more that is 1, and behind c's rows its products: the
//                   bias is the weight of what is always 1
enum class Dense { forward, squashed, backward, backward_means, gradient };

const int dense_tile = 64;  // rows and columns of a block
const int dense_depth = 16; // of what it multiplies between barriers

// dense has lengths la and lb of the rows of a and b, and takes stretches of k of the length
// stretch. A thread has 4 x 4.
template <Dense what>
__global__ void __launch_bounds__(256) dense(int m, int n, int k, int stretch, const float *__restrict__ a, int la, const float *__restrict__ b, int lb, float *c, float *extra)
{
	SHARED(as, float[dense_depth][dense_tile + 4]);
	SHARED(bs, float[dense_depth][dense_tile + 4]);
	constexpr bool a_by_k = what != Dense::gradient;                           // a's rows go along k
	constexpr bool b_by_k = what == Dense::forward || what == Dense::squashed; // b's do
	const int t = int(threadIdx.x), tx = t % 16, ty = t / 16;
	const int top = int(blockIdx.y) * dense_tile, side = int(blockIdx.x) * dense_tile;
	const int begin = int(blockIdx.z) * stretch, end = min(begin + stretch, k);
	float sum[4][4], next_a[4], next_b[4];

	UNROLL
	for (int i = 0; i < 4; i++) {
		UNROLL
		for (int j = 0; j < 4; j++)
			sum[i][j] = 0;
	}
	auto fetch = [&](int from) {
		UNROLL
		for (int i = 0; i < 4; i++) {
			const int e = t + 256 * i;
			const int ak = from + (a_by_k ? e % dense_depth : e / dense_tile), am = top + (a_by_k ? e / dense_depth : e % dense_tile);
			const int bk = from + (b_by_k ? e % dense_depth : e / dense_tile), bn = side + (b_by_k ? e / dense_depth : e % dense_tile);
			next_a[i] = ak < end && am < m ? a[a_by_k ? size_t(am) * la + ak : size_t(ak) * la + am] : 0;
			if (what == Dense::gradient && bn == n - 1)
				next_b[i] = bk < end ? 1 : 0;
			else
				next_b[i] = bk < end && bn < n ? b[b_by_k ? size_t(bn) * lb + bk : size_t(bk) * lb + bn] : 0;
		}
	};
	fetch(begin);
	for (int from = begin; from < end; from += dense_depth) {
		UNROLL
		for (int i = 0; i < 4; i++) {
			const int e = t + 256 * i;
			as[a_by_k ? e % dense_depth : e / dense_tile][a_by_k ? e / dense_depth : e % dense_tile] = next_a[i];
			bs[b_by_k ? e % dense_depth : e / dense_tile][b_by_k ? e / dense_depth : e % dense_tile] = next_b[i];
		}
		__syncthreads();
		if (from + dense_depth < end)
			fetch(from + dense_depth);
		UNROLL
		for (int d = 0; d < dense_depth; d++) {
			const float4 l = *reinterpret_cast<const float4 *>(&as[d][ty * 4]), r = *reinterpret_cast<const float4 *>(&bs[d][tx * 4]);
			const float ls[4] = { l.x, l.y, l.z, l.w }, rs[4] = { r.x, r.y, r.z, r.w };
			UNROLL
			for (int i = 0; i < 4; i++) {
				UNROLL
				for (int j = 0; j < 4; j++)
					sum[i][j] = fmaf(ls[i], rs[j], sum[i][j]);
			}
		}
		__syncthreads();
	}
	UNROLL
	for (int i = 0; i < 4; i++) {
		UNROLL
		for (int j = 0; j < 4; j++) {
			const int r = top + ty * 4 + i, s = side + tx * 4 + j;
			const float v = sum[i][j];
			if (r >= m || s >= n)
				continue;
			if (what == Dense::forward)
				c[size_t(r) * n + s] = v + extra[s];
			if (what == Dense::squashed)
				c[size_t(r) * n + s] = tanhf(v + extra[s]);
			if (what == Dense::backward)
				c[size_t(r) * n + s] = tanh_back(v, extra[size_t(r) * n + s]);
			if (what == Dense::backward_means) {
				float *at = extra + (size_t(r) * 16 + s / 25) * 100 + s % 25 / 5 * 20 + s % 5 * 2;
				at[0] = tanh_back(v / 4, at[0]);
				at[1] = tanh_back(v / 4, at[1]);
				at[10] = tanh_back(v / 4, at[10]);
				at[11] = tanh_back(v / 4, at[11]);
			}
			if (what == Dense::gradient)
				c[size_t(blockIdx.z) * (parameters - w3) + (s < n - 1 ? r * (n - 1) + s : m * (n - 1) + r)] = v;
		}
	}
}

// judge gives each block's sum of losses and of right answers, and, where it is wanted, the
// mean loss' gradient by the logits. A thread has a picture.
__global__ void __launch_bounds__(256) judge(const float *__restrict__ logits, const unsigned char *__restrict__ labels, int batch, float *gradient, float *losses, int *right)
{
	SHARED(loss_of, float[8]);
	SHARED(right_of, int[8]);
	const int b = int(blockIdx.x * blockDim.x + threadIdx.x);
	float loss = 0;
	int correct = 0;

	if (b < batch) {
		float l[classes], most = -INFINITY, sum = 0, own = 0;
		int best = 0;
		const int label = labels[b];
		UNROLL
		for (int i = 0; i < classes; i++) {
			l[i] = logits[size_t(b) * classes + i];
			if (i == label)
				own = l[i];
			if (l[i] > most) {
				most = l[i];
				best = i;
			}
		}
		UNROLL
		for (int i = 0; i < classes; i++) {
			l[i] = expf(l[i] - most);
			sum += l[i];
		}
		loss = logf(sum) + most - own;
		correct = best == label;
		if (gradient != nullptr) {
			UNROLL
			for (int i = 0; i < classes; i++)
				gradient[size_t(b) * classes + i] = (l[i] / sum - (i == label ? 1.0f : 0.0f)) / float(batch);
		}
	}
	loss = warp_sum(loss);
	correct = warp_sum(correct);
	if (threadIdx.x % 32 == 0) {
		loss_of[threadIdx.x / 32] = loss;
		right_of[threadIdx.x / 32] = correct;
	}
	__syncthreads();
	if (threadIdx.x == 0) {
		for (int w = 1; w < 8; w++) {
			loss += loss_of[w];
			correct += right_of[w];
		}
		losses[blockIdx.x] = loss;
		right[blockIdx.x] = correct;
	}
}

// convolve2_back makes of the gradient by the second convolution's points that by the first
// one's, in place of their values. A thread has 2 x 2 means of all 6 channels, and so 4 x 4
// points of each.
__global__ void __launch_bounds__(128) convolve2_back(const float *__restrict__ gradient, const float *__restrict__ p, int batch, float *active)
{
	SHARED(weights, Eight[16 * 25]);
	const int index = int(blockIdx.x) * 128 + int(threadIdx.x), b = index / 49, patch = index % 49, y = patch / 7 * 2, x = patch % 7 * 2;
	float sum[6][4];

	for (int i = int(threadIdx.x); i < 16 * 25 * 8; i += 128)
		weights[i / 8].of[i % 8] = i % 8 < 6 ? p[w2 + (i / 200 * 6 + i % 8) * 25 + i / 8 % 25] : 0;
	__syncthreads();
	if (b >= batch)
		return;
	UNROLL
	for (int c = 0; c < 6; c++) {
		UNROLL
		for (int q = 0; q < 4; q++)
			sum[c][q] = 0;
	}
	for (int o = 0; o < 16; o++) {
		Window window; // of the points whose sums the means were part of
		UNROLL
		for (int r = 0; r < 6; r++) {
			UNROLL
			for (int s = 0; s < 6; s++) {
				const int from_y = y - 4 + r, from_x = x - 4 + s;
				window.at[r][s] = from_y >= 0 && from_y < 10 && from_x >= 0 && from_x < 10 ? gradient[(size_t(b) * 16 + o) * 100 + from_y * 10 + from_x] : 0;
			}
		}
		UNROLL
		for (int k = 0; k < 25; k++) {
			const Eight w = weights[o * 25 + k];
			window.add(sum, w.of, 4 - k / 5, 4 - k % 5);
		}
	}
	UNROLL
	for (int c = 0; c < 6; c++) {
		UNROLL
		for (int r = 0; r < 4; r++) {
			float4 *at = reinterpret_cast<float4 *>(active + (size_t(b) * 6 + c) * 784 + (2 * y + r) * 28 + 2 * x);
			float4 v = *at;
			const float left = sum[c][r / 2 * 2] / 4, right = sum[c][r / 2 * 2 + 1] / 4;
			v.x = tanh_back(left, v.x);
			v.y = tanh_back(left, v.y);
			v.z = tanh_back(right, v.z);
			v.w = tanh_back(right, v.w);
			*at = v;
		}
	}
}

// convolve1_weights leaves each block's part of the gradient by the first convolution's
// parameters, of every gridDim.x-th picture: a thread has a row of a channel. Parts lie by
// parameters.
__global__ void __launch_bounds__(168) convolve1_weights(const float *__restrict__ pictures, const float *__restrict__ gradient, int batch, float *parts)
{
	SHARED(in, float[picture * (picture + 1)]); // rows one longer, so that a column's lie in all banks
	SHARED(d, float[168 * 29]);
	const int t = int(threadIdx.x), y = t % 28;
	float sum[26] = {}; // the bias' is the last one

	for (int b = int(blockIdx.x); b < batch; b += int(gridDim.x)) {
		__syncthreads();
		for (int i = t; i < picture * picture; i += 168)
			in[i / picture * (picture + 1) + i % picture] = pictures[size_t(b) * picture * picture + i];
		for (int i = t; i < 6 * 784; i += 168)
			d[i / 28 * 29 + i % 28] = gradient[size_t(b) * 6 * 784 + i];
		__syncthreads();
		float own[28];
		UNROLL
		for (int x = 0; x < 28; x++) {
			own[x] = d[t * 29 + x];
			sum[25] += own[x];
		}
		UNROLL
		for (int ky = 0; ky < 5; ky++) {
			float row[picture];
			UNROLL
			for (int x = 0; x < picture; x++)
				row[x] = in[(y + ky) * (picture + 1) + x];
			UNROLL
			for (int x = 0; x < 28; x++) {
				UNROLL
				for (int kx = 0; kx < 5; kx++)
					sum[ky * 5 + kx] = fmaf(own[x], row[x + kx], sum[ky * 5 + kx]);
			}
		}
	}
	__syncthreads();
	UNROLL
	for (int k = 0; k < 26; k++)
		d[t * 26 + k] = sum[k];
	__syncthreads();
	for (int i = t; i < 6 * 26; i += 168) {
		const int o = i / 26, k = i % 26;
		float whole = 0;
		for (int r = 0; r < 28; r++)
			whole += d[(o * 28 + r) * 26 + k];
		parts[size_t(k < 25 ? w1 + o * 25 + k : b1 + o) * gridDim.x + blockIdx.x] = whole;
	}
}

// convolve2_weights does the same for the second convolution: a thread has half the rows of a
// channel of its input with a channel of its output.
__global__ void __launch_bounds__(192) convolve2_weights(const float *__restrict__ means, const float *__restrict__ gradient, int batch, float *parts)
{
	SHARED(in, float[6 * 196]);
	SHARED(d, float[16 * 100]);
	SHARED(second, float[96 * 26]);
	const int t = int(threadIdx.x), pair = t % 96, half = t / 96, c = pair % 6, o = pair / 6;
	float sum[26] = {};

	for (int b = int(blockIdx.x); b < batch; b += int(gridDim.x)) {
		__syncthreads();
		for (int i = t; i < 6 * 196; i += 192)
			in[i] = means[size_t(b) * 6 * 196 + i];
		for (int i = t; i < 1600; i += 192)
			d[i] = gradient[size_t(b) * 1600 + i];
		__syncthreads();
		float own[5][10];
		UNROLL
		for (int y = 0; y < 5; y++) {
			UNROLL
			for (int x = 0; x < 10; x++) {
				own[y][x] = d[o * 100 + (half * 5 + y) * 10 + x];
				sum[25] += own[y][x];
			}
		}
		// Each row of the input is read once, for all rows of the output that it is part of.
		UNROLL
		for (int r = 0; r < 9; r++) {
			float row[14];
			UNROLL
			for (int x = 0; x < 14; x++)
				row[x] = in[c * 196 + (half * 5 + r) * 14 + x];
			UNROLL
			for (int y = 0; y < 5; y++) {
				if (r < y || r > y + 4)
					continue;
				UNROLL
				for (int x = 0; x < 10; x++) {
					UNROLL
					for (int kx = 0; kx < 5; kx++)
						sum[(r - y) * 5 + kx] = fmaf(own[y][x], row[x + kx], sum[(r - y) * 5 + kx]);
				}
			}
		}
	}
	if (half == 1) {
		UNROLL
		for (int k = 0; k < 26; k++)
			second[pair * 26 + k] = sum[k];
	}
	__syncthreads();
	if (half == 0) {
		UNROLL
		for (int k = 0; k < 25; k++)
			parts[size_t(w2 + (o * 6 + c) * 25 + k) * gridDim.x + blockIdx.x] = sum[k] + second[pair * 26 + k];
		if (c == 0)
			parts[size_t(b2 + o) * gridDim.x + blockIdx.x] = sum[25] + second[pair * 26 + 25];
	}
}

// update_convolutions and update_dense make the gradient of its parts, and take the step. In
// the first a warp has a parameter, in the second a thread.
__global__ void __launch_bounds__(256) update_convolutions(const float *__restrict__ parts, int count, float rate, float *gradient, float *p)
{
	const int i = int(blockIdx.x) * 8 + int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
	float sum = 0;

	for (int k = lane; k < count; k += 32)
		sum += i < w3 ? parts[size_t(i) * count + k] : 0;
	sum = warp_sum(sum);
	if (lane == 0 && i < w3) {
		gradient[i] = sum;
		p[i] -= rate * sum;
	}
}

__global__ void __launch_bounds__(256) update_dense(const float *__restrict__ parts, int count, float rate, float *gradient, float *p)
{
	const int i = w3 + int(blockIdx.x * 256 + threadIdx.x);
	float sum = 0;

	if (i >= parameters)
		return;
	for (int k = 0; k < count; k++)
		sum += parts[size_t(k) * (parameters - w3) + i - w3];
	gradient[i] = sum;
	p[i] -= rate * sum;
}

static unsigned parts_of(long whole, long part)
{
	return unsigned((whole + part - 1) / part);
}

// Net is the network on the device, with room for batches of a size.
class Net {
public:
	Net(Run &run, long batch, bool training)
	    : run(run), training(training), first(run.load("convolve1", convolve1)), second(run.load("convolve2", convolve2)), squashed(run.load("dense_squashed", dense<Dense::squashed>)),
	      forwards(run.load("dense_forward", dense<Dense::forward>)), judging(run.load("judge", judge)), backwards(run.load("dense_backward", dense<Dense::backward>)),
	      through_means(run.load("dense_backward_means", dense<Dense::backward_means>)), weights(run.load("dense_gradient", dense<Dense::gradient>)),
	      back(run.load("convolve2_back", convolve2_back)), first_weights(run.load("convolve1_weights", convolve1_weights)), second_weights(run.load("convolve2_weights", convolve2_weights)),
	      update_first(run.load("update_convolutions", update_convolutions)), update_rest(run.load("update_dense", update_dense)), chunks(int(max(1L, min(batch / 4, 8L * run.multiprocessors)))),
	      splits(int(max(1L, min(batch / 256, 16L))))
	{
	}

	float *p = nullptr, *gradient = nullptr, *logits = nullptr;

	void allocate(size_t batch)
	{
		p = run.allocate<float>(parameters, "the parameters");
		mean1 = run.allocate<float>(batch * 6 * 196, "the first means");
		mean2 = run.allocate<float>(batch * 400, "the second means");
		h3 = run.allocate<float>(batch * 120, "the third layer");
		h4 = run.allocate<float>(batch * 84, "the fourth layer");
		logits = run.allocate<float>(batch * classes, "the logits");
		if (!training)
			return;
		active1 = run.allocate<float>(batch * 6 * 784, "the first convolution");
		active2 = run.allocate<float>(batch * 1600, "the second convolution");
		d3 = run.allocate<float>(batch * 120, "gradients");
		d4 = run.allocate<float>(batch * 84, "gradients");
		d5 = run.allocate<float>(batch * classes, "gradients");
		gradient = run.allocate<float>(parameters, "the gradient");
		convolution_parts = run.allocate<float>(size_t(w3) * size_t(chunks), "parts of the gradient");
		dense_parts = run.allocate<float>(size_t(parameters - w3) * size_t(splits), "parts of the gradient");
	}

	// forward puts a batch through, up to the logits.
	void forward(const float *pictures, int batch)
	{
		const double n = batch, kept = training ? 1 : 0;

		first(run.stream, parts_of(196L * batch, 128), 128, { 4 * n * (1024 + 6 * 196 + kept * 4704), 235200 * n }, pictures, p, batch, active1, mean1);
		second(run.stream, dim3(parts_of(25L * batch, 128), 2), 128, { 4 * n * (6 * 196 + 400 + kept * 1600), 480000 * n }, mean1, p, batch, active2, mean2);
		layer(squashed, batch, 400, 120, mean2, p + w3, h3, p + b3);
		layer(squashed, batch, 120, 84, h3, p + w4, h4, p + b4);
		layer(forwards, batch, 84, 10, h4, p + w5, logits, p + b5);
	}

	// blocks is how many sums of losses a batch has.
	static unsigned blocks(int batch) { return parts_of(batch, 256); }

	void evaluate(const unsigned char *labels, int batch, float *losses, int *right)
	{
		judging(run.stream, blocks(batch), 256, { (training ? 81.0 : 41.0) * batch, 0 }, logits, labels, batch, d5, losses, right);
	}

	// backward makes the gradient of a batch that was put through and evaluated, and takes a
	// step against it.
	void backward(const float *pictures, int batch, float rate)
	{
		const double n = batch;

		layer_weights(batch, 84, 10, d5, h4, w5);
		layer(backwards, batch, 10, 84, d5, p + w5, d4, h4);
		layer_weights(batch, 120, 84, d4, h3, w4);
		layer(backwards, batch, 84, 120, d4, p + w4, d3, h3);
		layer_weights(batch, 400, 120, d3, mean2, w3);
		through_means(run.stream, dim3(parts_of(400, dense_tile), parts_of(batch, dense_tile)), 256, { 4 * (n * (120 + 3200) + 48000), 96000 * n }, batch, 400, 120, 120, d3, 120, p + w3, 400, nullptr, active2);
		second_weights(run.stream, unsigned(used(batch)), 192, { 4 * n * (6 * 196 + 1600), 480000 * n }, mean1, active2, batch, convolution_parts);
		back(run.stream, parts_of(49L * batch, 128), 128, { 4 * n * (1600 + 2 * 4704), 480000 * n }, active2, p, batch, active1);
		first_weights(run.stream, unsigned(used(batch)), 168, { 4 * n * (1024 + 4704), 235200 * n }, pictures, active1, batch, convolution_parts);
		update_first(run.stream, parts_of(w3, 8), 256, { 4.0 * w3 * (used(batch) + 3), 0 }, convolution_parts, used(batch), rate, gradient, p);
		update_rest(run.stream, parts_of(parameters - w3, 256), 256, { 4.0 * (parameters - w3) * (splits + 3), 0 }, dense_parts, splits, rate, gradient, p);
	}

private:
	using Full = Kernel<int, int, int, int, const float *, int, const float *, int, float *, float *>;

	Run &run;
	const bool training;
	float *mean1 = nullptr, *mean2 = nullptr, *h3 = nullptr, *h4 = nullptr, *active1 = nullptr, *active2 = nullptr;
	float *d3 = nullptr, *d4 = nullptr, *d5 = nullptr, *convolution_parts = nullptr, *dense_parts = nullptr;
	Kernel<const float *, const float *, int, float *, float *> first, second;
	Full squashed, forwards;
	Kernel<const float *, const unsigned char *, int, float *, float *, int *> judging;
	Full backwards, through_means, weights;
	Kernel<const float *, const float *, int, float *> back, first_weights, second_weights;
	Kernel<const float *, int, float, float *, float *> update_first, update_rest;
	const int chunks, splits; // how many parts the gradients come in

	// used is how many blocks share a batch for the convolutions' gradients, 4 pictures or more
	// each.
	int used(int batch) const { return min(chunks, max(1, batch / 4)); }

	// layer puts rows of ins numbers through a layer to rows of outs.
	void layer(const Full &kernel, int batch, int ins, int outs, const float *in, const float *w, float *out, float *extra)
	{
		const bool forward = &kernel != &backwards;
		const double n = batch;

		kernel(run.stream, dim3(parts_of(outs, dense_tile), parts_of(batch, dense_tile)), 256, { 4 * (n * (ins + (forward ? 1 : 2) * outs) + double(ins) * outs), 2.0 * ins * outs * n },
		       batch, outs, ins, ins, in, ins, w, forward ? ins : outs, out, extra);
	}

	void layer_weights(int batch, int ins, int outs, const float *d, const float *in, int at)
	{
		const int stretch = int(parts_of(batch, splits));
		const double n = batch;

		weights(run.stream, dim3(parts_of(ins + 1, dense_tile), parts_of(outs, dense_tile), unsigned(splits)), 256, { 4 * (n * (ins + outs) + double(splits) * (ins + 1) * outs), 2.0 * ins * outs * n },
			outs, ins + 1, batch, stretch, d, outs, in, ins, dense_parts + at - w3, nullptr);
	}
};

static const Program program = {
	"lenet",
	"LeNet-5 on digits that it draws: training by gradient descent, or inference.\n",
	4096, 1, 65536, "pictures of a batch", false,
	100, "batches, of four that are taken in turn", "training",
	"lenet --task training --size 4096 --iterations 100 --check",
};

int main(int argc, char **argv)
{
	Run run(program, argc, argv);
	const bool training = strcmp(run.options.task, "training") == 0;
	const int batch = int(run.options.size[0]);
	const size_t pixels = size_t(batch) * picture * picture, steps = size_t(run.options.iterations), blocks = Net::blocks(batch);
	Net net(run, batch, training);
	float *pictures = run.host<float>(batches * pixels, "the pictures"), *start = run.host<float>(parameters, "the parameters");
	unsigned char *labels = run.host<unsigned char>(size_t(batches) * batch, "the labels");
	float *losses = run.host<float>(steps * blocks, "the losses"), *result = run.host<float>(max(size_t(parameters), size_t(batch) * classes), "the result");
	int *right = run.host<int>(steps * blocks, "the right answers");

	{
		Timed t(run.prepare_seconds);
		for (size_t i = 0; i < size_t(batches) * batch; i++)
			labels[i] = static_cast<unsigned char>(draw_digit(pictures + i * picture * picture, run.options.seed, i));
		for (int i = 0; i < parameters; i++)
			start[i] = first_parameter(~run.options.seed, i);
	}
	float *device_pictures = run.allocate<float>(batches * pixels, "the pictures"), *device_start = run.allocate<float>(parameters, "the parameters");
	unsigned char *device_labels = run.allocate<unsigned char>(size_t(batches) * batch, "the labels");
	float *device_losses = run.allocate<float>(steps * blocks, "the losses");
	int *device_right = run.allocate<int>(steps * blocks, "the right answers");
	net.allocate(size_t(batch));
	run.to_device(device_pictures, pictures, batches * pixels);
	run.to_device(device_labels, labels, size_t(batches) * batch);
	run.to_device(device_start, start, size_t(parameters));

	auto reset = [&] { run.within_device(net.p, device_start, size_t(parameters)); };
	run.bound = "compute";
	run.basis = "2 operations a weight and point of a convolution, a weight and picture of a full layer: 833040 a picture forward, 1430880 more backward; tanh, means and biases count for none";
	reset();
	run.iterate(reset, [](long) {}, [&](long i) {
		const size_t turn = size_t(i) % batches;
		net.forward(device_pictures + turn * pixels, batch);
		net.evaluate(device_labels + turn * batch, batch, device_losses + size_t(i) * blocks, device_right + size_t(i) * blocks);
		if (training)
			net.backward(device_pictures + turn * pixels, batch, learning_rate);
	});
	if (training)
		run.from_device(result, net.p, size_t(parameters));
	else
		run.from_device(result, net.logits, size_t(batch) * classes);
	run.from_device(losses, device_losses, steps * blocks);
	run.from_device(right, device_right, steps * blocks);

	// loss gives the mean loss of some steps.
	auto loss = [&](size_t from, size_t count) {
		double sum = 0;
		for (size_t i = from * blocks; i < (from + count) * blocks; i++)
			sum += double(losses[i]);
		return sum / double(count) / batch;
	};
	const size_t ends = min(steps, size_t(batches));
	double answers = 0;
	for (size_t i = (steps - ends) * blocks; i < steps * blocks; i++)
		answers += right[i];
	run.figures = { { "loss_first", loss(0, 1) }, { "loss_last", loss(steps - ends, ends) }, { "accuracy_last", answers / double(ends) / batch } };

	run.check([&]() -> Checked {
		// Logits of up to 256 pictures of the first batch, by the parameters as they are now.
		LeNetReference reference;
		std::vector<float> now(parameters), got(size_t(batch) * classes);
		Worst worst;
		run.from_device(now.data(), net.p, size_t(parameters));
		net.forward(device_pictures, batch);
		run.from_device(got.data(), net.logits, got.size());
		const int apart = (batch + 255) / 256;
		for (int b = 0; b < batch; b += apart) {
			const double *expected = reference.forward(now.data(), pictures + size_t(b) * picture * picture);
			for (int i = 0; i < classes; i++)
				worst.see(std::fabs(double(got[size_t(b) * classes + i]) - expected[i]) / max(1.0, std::fabs(expected[i])));
		}
		// Loss and right answers of the first pictures by the first parameters; in training the
		// gradient and the step, too.
		const int some = min(batch, 64);
		std::vector<double> gradient(parameters, 0);
		std::vector<float> some_losses(blocks);
		std::vector<int> some_right(blocks);
		double expected_loss = 0;
		int expected_right = 0, close = 0;
		for (int b = 0; b < some; b++) {
			const double *logits = reference.forward(start, pictures + size_t(b) * picture * picture);
			double rival = -INFINITY; // the best of the wrong ones
			for (int i = 0; i < classes; i++)
				rival = i == labels[b] ? rival : max(rival, logits[i]);
			expected_loss += reference.loss(labels[b]) / some;
			expected_right += logits[labels[b]] > rival;
			close += std::fabs(logits[labels[b]] - rival) < 1e-4;
			if (training)
				reference.backward(start, labels[b], 1.0 / some, gradient.data());
		}
		reset();
		net.forward(device_pictures, some);
		net.evaluate(device_labels, some, device_losses, device_right);
		run.from_device(some_losses.data(), device_losses, blocks);
		run.from_device(some_right.data(), device_right, blocks);
		worst.see(std::fabs(double(some_losses[0]) / some - expected_loss));
		if (std::abs(some_right[0] - expected_right) > close)
			worst.see(INFINITY);
		if (training) {
			std::vector<float> gradient_got(parameters), stepped(parameters);
			net.backward(device_pictures, some, learning_rate);
			run.from_device(gradient_got.data(), net.gradient, size_t(parameters));
			run.from_device(stepped.data(), net.p, size_t(parameters));
			int i = 0;
			for (int end : layer_ends) {
				const double rounding = std::ldexp(1, -22); // of a parameter, over the rate
				double largest = 0;
				Worst layer;
				for (; i < end; i++) {
					largest = max(largest, std::fabs(gradient[i]));
					layer.see(std::fabs(double(gradient_got[i]) - gradient[i]));
					layer.see(std::fabs((double(start[i]) - double(stepped[i])) / double(learning_rate) - gradient[i]) - rounding);
				}
				worst.see(layer.error / largest);
			}
			// What is trained long enough must have learned.
			if (steps >= 50 && !(loss(steps - ends, ends) < loss(0, 1)))
				worst.see(INFINITY);
		}
		return { worst.error, 2e-4, "sums of up to 50176 products round by about the root of their number times 2^-24, 1.4e-5, through five layers; a product that is wrong or missing is off by more than 1e-3",
			 training ? "logits of up to 256 pictures, relative to 1 or themselves; the mean loss of up to 64, their right answers, their gradient and the step by it, relative to the largest of each layer; against the CPU in double precision; and 50 steps or more must lower the loss"
				  : "logits of up to 256 pictures, relative to 1 or themselves, the mean loss of up to 64 and their right answers, against the CPU in double precision" };
	});
	return run.end();
}
