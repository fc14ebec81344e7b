// Numbers that are drawn by their place, not by their turn, so that the device and the CPU
// draw the same ones in whatever order: the n-th of a seed is a mix of the two (Steele, Lea
// and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
#pragma once

#include <cstdint>

#include "device.h"

__host__ __device__ inline uint64_t draw(uint64_t seed, uint64_t n)
{
	uint64_t z = seed + (n + 1) * 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

// uniform gives floats from 0 to 1, 1 not among them, in steps of 2^-24.
__host__ __device__ inline float uniform(uint64_t seed, uint64_t n)
{
	return float(uint32_t(draw(seed, n) >> 40)) * (1.0f / 16777216.0f);
}
