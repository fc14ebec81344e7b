// LeNet-5 on the CPU, in double precision and as plainly as it can be said: what the kernels are
// compared with, and whose gradient a test compares with differences of its loss.
//
//   32 x 32 -> convolution 5 x 5, 6 channels, tanh -> mean of 2 x 2 -> 14 x 14
//           -> convolution 5 x 5, 16 channels, tanh -> mean of 2 x 2 -> 5 x 5
//           -> 120, tanh -> 84, tanh -> 10, softmax
//
// (LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document recognition",
// Proceedings of the IEEE 86, 1998; with every channel of the second convolution connected to
// all of the first, and softmax in place of the radial output, as is usual now.)
#pragma once

#include <cmath>
#include <vector>

#include "digits.h"

// Where each layer's weights and biases begin among all parameters.
enum Parameter {
	w1 = 0,                // [6][5][5]
	b1 = w1 + 6 * 25,      // [6]
	w2 = b1 + 6,           // [16][6][5][5]
	b2 = w2 + 16 * 6 * 25, // [16]
	w3 = b2 + 16,          // [120][400]
	b3 = w3 + 120 * 400,   // [120]
	w4 = b3 + 120,         // [84][120]
	b4 = w4 + 84 * 120,    // [84]
	w5 = b4 + 84,          // [10][84]
	b5 = w5 + 10 * 84,     // [10]
	parameters = b5 + 10,
};

// layer_ends are where each layer's parameters end, weights and biases together.
const int layer_ends[] = { w2, w3, w4, w5, parameters };

const float learning_rate = 0.1f;

// first_parameter gives a parameter to begin with: uniform about 0, by the layer's inputs and
// outputs (Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural
// networks", AISTATS 2010); biases are 0.
inline float first_parameter(uint64_t seed, int i)
{
	static const struct {
		int begin, end, in, out;
	} layers[] = { { w1, b1, 25, 150 }, { w2, b2, 150, 400 }, { w3, b3, 400, 120 }, { w4, b4, 120, 84 }, { w5, b5, 84, 10 } };

	for (const auto &l : layers)
		if (i >= l.begin && i < l.end)
			return std::sqrt(6.0f / float(l.in + l.out)) * (2 * uniform(seed, uint64_t(i)) - 1);
	return 0;
}

class LeNetReference {
public:
	// forward gives the 10 logits of a picture; pixels and parameters are any numbers.
	template <class P, class X>
	const double *forward(const P *p, const X *pixels)
	{
		for (int i = 0; i < picture * picture; i++)
			input[i] = double(pixels[i]);
		convolve(input, 1, picture, p + w1, p + b1, 6, a1, s1);
		convolve(s1, 6, 14, p + w2, p + b2, 16, a2, s2);
		dense(s2, 400, p + w3, p + b3, h3, 120, true);
		dense(h3, 120, p + w4, p + b4, h4, 84, true);
		dense(h4, 84, p + w5, p + b5, logits, 10, false);
		return logits;
	}

	// loss gives the cross entropy of the picture that was last put forward.
	double loss(int label) const
	{
		double most = logits[0], sum = 0;
		for (double l : logits)
			most = l > most ? l : most;
		for (double l : logits)
			sum += std::exp(l - most);
		return std::log(sum) + most - logits[label];
	}

	// backward adds share times the loss' gradient by each parameter, of the picture that was
	// last put forward.
	template <class P>
	void backward(const P *p, int label, double share, double *gradient)
	{
		double d5[10], d4[84] = {}, d3[120] = {}, ds2[400] = {}, ds1[6 * 14 * 14] = {};
		double most = logits[0], sum = 0;

		for (double l : logits)
			most = l > most ? l : most;
		for (int i = 0; i < 10; i++)
			sum += d5[i] = std::exp(logits[i] - most);
		for (int i = 0; i < 10; i++)
			d5[i] = share * (d5[i] / sum - (i == label ? 1 : 0));
		dense_back(h4, 84, p + w5, d5, 10, gradient + w5, gradient + b5, d4);
		for (int i = 0; i < 84; i++)
			d4[i] *= 1 - h4[i] * h4[i];
		dense_back(h3, 120, p + w4, d4, 84, gradient + w4, gradient + b4, d3);
		for (int i = 0; i < 120; i++)
			d3[i] *= 1 - h3[i] * h3[i];
		dense_back(s2, 400, p + w3, d3, 120, gradient + w3, gradient + b3, ds2);
		convolve_back(s1, 6, 14, p + w2, 16, a2, ds2, gradient + w2, gradient + b2, ds1);
		convolve_back(input, 1, picture, p + w1, 6, a1, ds1, gradient + w1, gradient + b1, nullptr);
	}

private:
	double input[picture * picture], a1[6 * 28 * 28], s1[6 * 14 * 14], a2[16 * 10 * 10], s2[400], h3[120], h4[84], logits[10];

	// convolve puts channels of edge x edge through a convolution, tanh and means.
	template <class P>
	static void convolve(const double *in, int channels, int edge, const P *w, const P *b, int outs, double *active, double *mean)
	{
		const int to = edge - 4;

		for (int o = 0; o < outs; o++) {
			for (int y = 0; y < to; y++)
				for (int x = 0; x < to; x++) {
					double sum = double(b[o]);
					for (int c = 0; c < channels; c++)
						for (int ky = 0; ky < 5; ky++)
							for (int kx = 0; kx < 5; kx++)
								sum += double(w[((o * channels + c) * 5 + ky) * 5 + kx]) * in[(c * edge + y + ky) * edge + x + kx];
					active[(o * to + y) * to + x] = std::tanh(sum);
				}
			for (int y = 0; y < to / 2; y++)
				for (int x = 0; x < to / 2; x++) {
					const double *a = active + (o * to + 2 * y) * to + 2 * x;
					mean[(o * to / 2 + y) * (to / 2) + x] = (a[0] + a[1] + a[to] + a[to + 1]) / 4;
				}
		}
	}

	template <class P>
	static void convolve_back(const double *in, int channels, int edge, const P *w, int outs, const double *active, const double *dmean, double *dw, double *db, double *din)
	{
		const int to = edge - 4;

		for (int o = 0; o < outs; o++)
			for (int y = 0; y < to; y++)
				for (int x = 0; x < to; x++) {
					const double a = active[(o * to + y) * to + x];
					const double d = dmean[(o * to / 2 + y / 2) * (to / 2) + x / 2] / 4 * (1 - a * a);
					db[o] += d;
					for (int c = 0; c < channels; c++)
						for (int ky = 0; ky < 5; ky++)
							for (int kx = 0; kx < 5; kx++) {
								dw[((o * channels + c) * 5 + ky) * 5 + kx] += d * in[(c * edge + y + ky) * edge + x + kx];
								if (din != nullptr)
									din[(c * edge + y + ky) * edge + x + kx] += d * double(w[((o * channels + c) * 5 + ky) * 5 + kx]);
							}
				}
	}

	template <class P>
	static void dense(const double *in, int ins, const P *w, const P *b, double *out, int outs, bool squash)
	{
		for (int o = 0; o < outs; o++) {
			double sum = double(b[o]);
			for (int i = 0; i < ins; i++)
				sum += double(w[o * ins + i]) * in[i];
			out[o] = squash ? std::tanh(sum) : sum;
		}
	}

	template <class P>
	static void dense_back(const double *in, int ins, const P *w, const double *dout, int outs, double *dw, double *db, double *din)
	{
		for (int o = 0; o < outs; o++) {
			db[o] += dout[o];
			for (int i = 0; i < ins; i++) {
				dw[o * ins + i] += dout[o] * in[i];
				din[i] += dout[o] * double(w[o * ins + i]);
			}
		}
	}
};
