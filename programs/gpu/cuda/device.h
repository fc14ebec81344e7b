// What kernels are written in: CUDA C++, or, where EMULATE is defined, the same names on the
// CPU (see emulate/emulate.h). Two things are said in one manner for both:
//
//   SHARED(name, type)   an array in the block's shared memory: SHARED(tile, float[8][33]);
//   start(...)           begins a kernel in a stream
#pragma once

#ifdef EMULATE

#include "../emulate/emulate.h"

#define CUDART_VERSION 13000

#define SHARED(name, ...)                 \
	static const char site_of_##name = 0; \
	auto &name = emulate::shared_array<__VA_ARGS__>(&site_of_##name)

template <class... P, class... A>
void start(const char *name, void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream, A... arguments)
{
	emulate::launch(name, [=] { kernel(static_cast<P>(arguments)...); }, grid, block, stream);
}

#else

#include <cuda_runtime.h>

template <class T>
using Same = T;

#define SHARED(name, ...) __shared__ __align__(16) Same<__VA_ARGS__> name

template <class... P, class... A>
void start(const char *, void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream, A... arguments)
{
	kernel<<<grid, block, 0, stream>>>(static_cast<P>(arguments)...);
}

#endif
