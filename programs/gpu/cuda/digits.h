// Pictures of digits that nobody wrote: each of ten letter forms of 5 x 7 dots, turned, shifted,
// stretched and blurred by chance, on 32 x 32 pixels, with noise. The scale is LeNet's: about
// -0.1 for paper, 1.1 for ink.
#pragma once

#include <cmath>
#include <cstdint>

#include "random.h"

const int picture = 32; // pixels an edge
const int classes = 10;

// dot tells whether a digit's form has ink at a dot; outside of it there is none.
inline float dot(int digit, int row, int column)
{
	static const unsigned char forms[classes][7] = {
		{ 14, 17, 17, 17, 17, 17, 14 },
		{ 4, 12, 4, 4, 4, 4, 14 },
		{ 14, 17, 1, 2, 4, 8, 31 },
		{ 31, 2, 4, 2, 1, 17, 14 },
		{ 2, 6, 10, 18, 31, 2, 2 },
		{ 31, 16, 30, 1, 1, 17, 14 },
		{ 6, 8, 16, 30, 17, 17, 14 },
		{ 31, 1, 2, 4, 8, 8, 8 },
		{ 14, 17, 17, 14, 17, 17, 14 },
		{ 14, 17, 17, 15, 1, 2, 12 },
	};

	if (row < 0 || row >= 7 || column < 0 || column >= 5)
		return 0;
	return float(forms[digit][row] >> (4 - column) & 1);
}

// draw_digit draws the n-th picture of a seed, and gives its digit.
inline int draw_digit(float *pixels, uint64_t seed, uint64_t n)
{
	const uint64_t own = draw(seed, n);
	const int digit = int(draw(own, 0) % classes);
	const float turn = 0.5f * (uniform(own, 1) - 0.5f), scale = 0.24f + 0.08f * uniform(own, 2);
	const float dx = 6 * (uniform(own, 3) - 0.5f), dy = 6 * (uniform(own, 4) - 0.5f), ink = 0.8f + 0.4f * uniform(own, 5);
	const float c = std::cos(turn) * scale, s = std::sin(turn) * scale;

	for (int y = 0; y < picture; y++)
		for (int x = 0; x < picture; x++) {
			// Back from the picture to the form, and there between its dots.
			const float px = float(x) - 15.5f - dx, py = float(y) - 15.5f - dy;
			const float column = c * px + s * py + 2, row = c * py - s * px + 3;
			const int left = int(std::floor(column)), top = int(std::floor(row));
			const float right = column - float(left), low = row - float(top);
			const float value = (1 - low) * ((1 - right) * dot(digit, top, left) + right * dot(digit, top, left + 1)) +
					    low * ((1 - right) * dot(digit, top + 1, left) + right * dot(digit, top + 1, left + 1));
			pixels[y * picture + x] = 1.2f * ink * value - 0.1f + 0.2f * (uniform(own, uint64_t(6 + y * picture + x)) - 0.5f);
		}
	return digit;
}
