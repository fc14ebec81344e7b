/*
 * The four kernels of the memory bandwidth programs, and what their results must
 * be. Both forms, on threads and on ranks, run these.
 */
#ifndef STREAM_KERNELS_H
#define STREAM_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

enum kernel { COPY, SCALE, ADD, TRIAD, KERNELS };

/* ARRAYS are a, b and c. */
enum { ARRAYS = 3 };

extern const struct kernel_facts {
	const char *name;
	size_t bytes; /* an element */
} kernels[KERNELS];

/* A round multiplies a by q + q + q*q = 15, and 2 * 15^N must stay finite. */
#define MOST_REPETITIONS 250

/* What one cache line holds. */
#define LINE (64 / sizeof(double))

enum stores { AUTO, PLAIN, STREAMING };

/* elements_for is what each array has where nobody says how many: four times the
 * caches, and 10 million at least. */
size_t elements_for(size_t cache, int caches);

/* stores_for is what AUTO means for arrays of so many bytes each. */
enum stores stores_for(size_t array_bytes, size_t cache);

/* run_kernel does one kernel on n elements; the arrays begin on cache lines. */
void run_kernel(enum kernel k, enum stores stores, double *a, double *b, double *c, size_t n);

/* set_initial writes, and so places, n elements of each array. */
void set_initial(double *a, double *b, double *c, size_t n);

/* expected goes through the rounds with single numbers, for each array. */
void expected(long repetitions, double want[ARRAYS]);

/* q is what scale and triad multiply by. */
static const double q = 3.0;

extern const double error_bound;

/* right tells whether an average relative error is within the bound; false for NaN. */
bool right(double error);

#endif
