#include "streaming.h"

#ifdef __x86_64__
#include <immintrin.h>

const bool have_streaming = true;

/*
 * One function a vector width. The widest writes a line by one store, which some CPUs
 * combine better than several; a step is four lines, so that a loop's own instructions
 * are few beside those that move data.
 */
#define STEP (4 * LINE)

#define STREAMING_KERNELS(name, isa, vector, width, load, store, set, add, mul)                  \
	__attribute__((noinline, target(isa))) static void name(enum kernel k, double *restrict a, \
								  double *restrict b, double *restrict c, size_t n) \
	{                                                                                          \
		const vector factor = set(q);                                                    \
                                                                                                   \
		switch (k) {                                                                       \
		case COPY:                                                                         \
			for (size_t i = 0; i < n; i += STEP)                                       \
				for (size_t j = i; j < i + STEP; j += (width))                     \
					store(c + j, load(a + j));                                 \
			break;                                                                     \
		case SCALE:                                                                        \
			for (size_t i = 0; i < n; i += STEP)                                       \
				for (size_t j = i; j < i + STEP; j += (width))                     \
					store(b + j, mul(factor, load(c + j)));                    \
			break;                                                                     \
		case ADD:                                                                          \
			for (size_t i = 0; i < n; i += STEP)                                       \
				for (size_t j = i; j < i + STEP; j += (width))                     \
					store(c + j, add(load(a + j), load(b + j)));               \
			break;                                                                     \
		default:                                                                           \
			for (size_t i = 0; i < n; i += STEP)                                       \
				for (size_t j = i; j < i + STEP; j += (width))                     \
					store(a + j, add(load(b + j), mul(factor, load(c + j))));  \
		}                                                                                  \
		/* Streaming stores are weakly ordered: finish them before the clock is read. */   \
		_mm_sfence();                                                                      \
	}

STREAMING_KERNELS(by_line, "avx512f", __m512d, 8, _mm512_load_pd, _mm512_stream_pd, _mm512_set1_pd, _mm512_add_pd, _mm512_mul_pd)
STREAMING_KERNELS(by_half, "avx", __m256d, 4, _mm256_load_pd, _mm256_stream_pd, _mm256_set1_pd, _mm256_add_pd, _mm256_mul_pd)
STREAMING_KERNELS(by_pair, "sse2", __m128d, 2, _mm_load_pd, _mm_stream_pd, _mm_set1_pd, _mm_add_pd, _mm_mul_pd)

size_t streaming(enum kernel k, double *a, double *b, double *c, size_t n)
{
	n -= n % STEP;
	if (__builtin_cpu_supports("avx512f"))
		by_line(k, a, b, c, n);
	else if (__builtin_cpu_supports("avx"))
		by_half(k, a, b, c, n);
	else
		by_pair(k, a, b, c, n);
	return n;
}
#else
const bool have_streaming = false;

size_t streaming(enum kernel k, double *a, double *b, double *c, size_t n)
{
	(void)k, (void)a, (void)b, (void)c, (void)n;
	return 0;
}
#endif
