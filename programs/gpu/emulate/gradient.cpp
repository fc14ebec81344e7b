// gradient compares the reference's gradient of LeNet's loss with differences of that loss, in
// double precision: for the parameters at both ends of every layer's weights and biases, and
// some between. Then it trains as lenet does, in batches of 8 digits. It prints the largest
// difference over the layer's largest gradient, and the mean loss of the first 5 and of the last
// 5 of 30 steps.
#include "../cuda/lenet_reference.h"

#include <cstdio>

// train gives the mean loss of 5 steps at the beginning and at the end.
static void train(double &first, double &last)
{
	const int batch = 8, batches = 4, steps = 30;
	std::vector<double> p(parameters), gradient(parameters);
	std::vector<float> pixels(size_t(batches * batch) * picture * picture);
	int labels[batches * batch];
	LeNetReference net;

	for (int i = 0; i < batches * batch; i++)
		labels[i] = draw_digit(&pixels[size_t(i) * picture * picture], 11, uint64_t(i));
	for (int i = 0; i < parameters; i++)
		p[i] = first_parameter(12, i);
	first = last = 0;
	for (int s = 0; s < steps; s++) {
		double loss = 0;
		gradient.assign(parameters, 0);
		for (int b = s % batches * batch; b < (s % batches + 1) * batch; b++) {
			net.forward(p.data(), &pixels[size_t(b) * picture * picture]);
			loss += net.loss(labels[b]) / batch;
			net.backward(p.data(), labels[b], 1.0 / batch, gradient.data());
		}
		for (int i = 0; i < parameters; i++)
			p[i] -= double(learning_rate) * gradient[i];
		if (s < 5)
			first += loss / 5;
		if (s >= steps - 5)
			last += loss / 5;
	}
}

int main()
{
	const int starts[] = { w1, b1, w2, b2, w3, b3, w4, b4, w5, b5, parameters };
	std::vector<double> p(parameters), gradient(parameters, 0);
	std::vector<float> pixels(picture * picture);
	LeNetReference net;
	double worst = 0;

	for (int i = 0; i < parameters; i++)
		p[i] = double(first_parameter(7, i)) + 0.01;
	const int label = draw_digit(pixels.data(), 3, 1);
	net.forward(p.data(), pixels.data());
	net.backward(p.data(), label, 1, gradient.data());
	for (int part = 0; part < 10; part++) {
		const int begin = starts[part], end = starts[part + 1], apart = (end - begin + 6) / 7;
		double largest = 0;
		for (int i = begin; i < end; i++)
			largest = std::fabs(gradient[i]) > largest ? std::fabs(gradient[i]) : largest;
		for (int n = 0; n <= 7; n++) {
			const int i = n == 7 ? end - 1 : begin + n * apart;
			if (i >= end)
				continue;
			const double was = p[i], by = 1e-4;
			p[i] = was + by;
			net.forward(p.data(), pixels.data());
			const double above = net.loss(label);
			p[i] = was - by;
			net.forward(p.data(), pixels.data());
			const double below = net.loss(label);
			p[i] = was;
			const double off = std::fabs((above - below) / (2 * by) - gradient[i]) / largest;
			if (!(off <= worst))
				worst = off;
		}
	}
	double first, last;
	train(first, last);
	printf("%g %g %g\n", worst, first, last);
	return 0;
}
