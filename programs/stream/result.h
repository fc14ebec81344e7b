/* What both forms are asked for, and what they print. */
#ifndef STREAM_RESULT_H
#define STREAM_RESULT_H

#include "kernels.h"

/* result is a finished measurement. */
struct result {
	const char *workers; /* "threads" or "processes" */
	int count;	     /* of them */
	size_t elements;     /* of each array, all workers' together */
	long repetitions;
	enum stores stores;
	size_t cache; /* largest of one CPU, 0 where unknown */
	int caches;   /* of that size that the workers reach */
	double *seconds[KERNELS];
	double errors[ARRAYS];
};

/* print_result prints a line of JSON a kernel, and says on standard error what is
 * wrong with the arrays. It gives the exit status: 0, or 1. */
int print_result(const struct result *r);

/* array gives so many elements that begin on a page, or ends the program. */
double *array(size_t elements);

/* times gives room for the times of an iteration each, or ends the program. */
double *times(long repetitions);

/* number reads a flag's whole number within bounds, or ends the program with 2. */
long number(const char *flag, const char *text, long least, long most);

/* store_kind reads the flag --stores, or ends the program with 2. */
enum stores store_kind(const char *text);

/* now is the monotonic clock, in seconds. */
double now(void);

#endif
