#include "kernels.h"

#include "streaming.h"

const struct kernel_facts kernels[KERNELS] = {
	[COPY] = { "copy", 2 * sizeof(double) },
	[SCALE] = { "scale", 2 * sizeof(double) },
	[ADD] = { "add", 3 * sizeof(double) },
	[TRIAD] = { "triad", 3 * sizeof(double) },
};

const double error_bound = 1e-13;

/*
 * The best vector width of the CPU at hand is chosen when the program starts,
 * so that one binary is right everywhere.
 */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDEST __attribute__((noinline, target_clones("avx512f", "avx2", "default")))
#else
#define WIDEST __attribute__((noinline))
#endif

WIDEST static void plain_copy(double *restrict out, const double *restrict x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = x[i];
}

WIDEST static void plain_scale(double *restrict out, const double *restrict x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = q * x[i];
}

WIDEST static void plain_add(double *restrict out, const double *restrict x, const double *restrict y, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = x[i] + y[i];
}

WIDEST static void plain_triad(double *restrict out, const double *restrict x, const double *restrict y, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = x[i] + q * y[i];
}

static void plain(enum kernel k, double *a, double *b, double *c, size_t n)
{
	switch (k) {
	case COPY:
		plain_copy(c, a, n);
		break;
	case SCALE:
		plain_scale(b, c, n);
		break;
	case ADD:
		plain_add(c, a, b, n);
		break;
	default:
		plain_triad(a, b, c, n);
	}
}

void run_kernel(enum kernel k, enum stores stores, double *a, double *b, double *c, size_t n)
{
	size_t done = stores == STREAMING ? streaming(k, a, b, c, n) : 0;

	plain(k, a + done, b + done, c + done, n - done);
}

size_t elements_for(size_t cache, int caches)
{
	const size_t least = 10000000;
	size_t elements = 4 * cache * (size_t)caches / sizeof(double);

	return elements > least ? elements : least;
}

enum stores stores_for(size_t array_bytes, size_t cache)
{
	return have_streaming && array_bytes >= cache ? STREAMING : PLAIN;
}

void set_initial(double *a, double *b, double *c, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		a[i] = 2.0;
		b[i] = 2.0;
		c[i] = 0.0;
	}
}

void expected(long repetitions, double want[ARRAYS])
{
	double a = 2.0, b = 2.0, c = 0.0;

	for (long i = 0; i < repetitions; i++) {
		c = a;
		b = q * c;
		c = a + b;
		a = b + q * c;
	}
	want[0] = a;
	want[1] = b;
	want[2] = c;
}

bool right(double error)
{
	return error <= error_bound;
}
