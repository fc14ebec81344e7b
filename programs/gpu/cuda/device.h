// What kernels are written in: CUDA C++, or, where EMULATE is defined, the same names on the
// CPU (see emulate/emulate.h). Two things are said in one manner for both:
//
//   SHARED(name, type)   an array in the block's shared memory: SHARED(tile, float[8][33]);
//   start(...)           begins a kernel in a stream
//
// UNROLL stands before a loop whose arrays are to live in registers.
#pragma once

#ifdef EMULATE

#include "../emulate/emulate.h"

#define CUDART_VERSION 13000
#define UNROLL

#define SHARED(name, ...)                 \
	static const char site_of_##name = 0; \
	auto &name = emulate::shared_array<__VA_ARGS__>(&site_of_##name)

template <class... P, class... A>
void start(const char *name, void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream, A... arguments)
{
	auto body = [=] { kernel(static_cast<P>(arguments)...); };
	emulate::launch(name, new emulate::BodyOf<decltype(body)>(body), grid, block, stream);
}

#else

#include <cuda_runtime.h>

#ifdef __CUDA_ARCH__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL
#endif

template <class T>
using Same = T;

#define SHARED(name, ...) __shared__ __align__(16) Same<__VA_ARGS__> name

template <class... P, class... A>
void start(const char *, void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream, A... arguments)
{
	kernel<<<grid, block, 0, stream>>>(static_cast<P>(arguments)...);
}

#endif

// warp_sum and warp_most combine the values of a warp's 32 lanes; all lanes have the result.
template <class T>
__device__ inline T warp_sum(T value)
{
	for (int by = 16; by > 0; by /= 2)
		value += __shfl_xor_sync(0xffffffffu, value, by);
	return value;
}

template <class T>
__device__ inline T warp_most(T value)
{
	for (int by = 16; by > 0; by /= 2) {
		T other = __shfl_xor_sync(0xffffffffu, value, by);
		value = other > value ? other : value;
	}
	return value;
}
