#include "result.h"

#include "streaming.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

long number(const char *flag, const char *text, long least, long most)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || v < least || v > most) {
		fprintf(stderr, "stream: --%s %s: want a whole number from %ld to %ld\n", flag, text, least, most);
		exit(2);
	}
	return v;
}

enum stores store_kind(const char *text)
{
	if (strcmp(text, "auto") == 0)
		return AUTO;
	if (strcmp(text, "plain") == 0)
		return PLAIN;
	if (strcmp(text, "streaming") == 0 && have_streaming)
		return STREAMING;
	fprintf(stderr, "stream: --stores %s: want auto, plain%s\n", text, have_streaming ? " or streaming" : "");
	exit(2);
}

double *array(size_t elements)
{
	size_t bytes = (elements * sizeof(double) + 4095) / 4096 * 4096;
	double *x = aligned_alloc(4096, bytes);

	if (x == NULL) {
		fprintf(stderr, "stream: no memory for an array of %zu elements: want fewer --elements\n", elements);
		exit(1);
	}
	return x;
}

double *times(long repetitions)
{
	double *seconds = calloc((size_t)repetitions, sizeof(double));

	if (seconds == NULL) {
		fprintf(stderr, "stream: no memory for the times of %ld repetitions\n", repetitions);
		exit(1);
	}
	return seconds;
}

static void print_list(const char *name, const double *seconds, long n, double over)
{
	printf("\"%s\":[", name);
	for (long i = 0; i < n; i++)
		printf("%s%.9g", i ? "," : "", over > 0 ? over / seconds[i] : seconds[i]);
	printf("],");
}

static bool all_right(const double errors[ARRAYS])
{
	for (int i = 0; i < ARRAYS; i++)
		if (!right(errors[i]))
			return false;
	return true;
}

static void print_kernel(enum kernel k, const struct result *r)
{
	const double *seconds = r->seconds[k];
	double bytes = (double)kernels[k].bytes * (double)r->elements;
	double least = INFINITY, most = 0, sum = 0;

	for (long i = 1; i < r->repetitions; i++) {
		least = fmin(least, seconds[i]);
		most = fmax(most, seconds[i]);
		sum += seconds[i];
	}
	printf("{\"kernel\":\"%s\",\"elements\":%zu,\"%s\":%d,\"repetitions\":%ld,\"stores\":\"%s\",",
	       kernels[k].name, r->elements, r->workers, r->count, r->repetitions, r->stores == STREAMING ? "streaming" : "plain");
	printf("\"bytes\":%.0f,\"best_bytes_per_second\":%.9g,\"min_seconds\":%.9g,\"mean_seconds\":%.9g,\"max_seconds\":%.9g,",
	       bytes, bytes / least, least, sum / (double)(r->repetitions - 1), most);
	print_list("seconds", seconds, r->repetitions, 0);
	print_list("bytes_per_second", seconds, r->repetitions, bytes);
	printf("\"largest_cache_bytes\":%zu,\"caches\":%d,", r->cache, r->caches);
	if (r->cache == 0)
		printf("\"cache_resident\":null,");
	else
		printf("\"cache_resident\":%s,", r->elements * sizeof(double) < 4 * r->cache * (size_t)r->caches ? "true" : "false");
	/* JSON has no NaN: an error that is none is printed as null. */
	printf("\"errors\":{");
	for (int i = 0; i < ARRAYS; i++) {
		printf("%s\"%c\":", i ? "," : "", 'a' + i);
		if (isfinite(r->errors[i]))
			printf("%.3g", r->errors[i]);
		else
			printf("null");
	}
	printf("},\"error_bound\":%.3g,\"valid\":%s}\n", error_bound, all_right(r->errors) ? "true" : "false");
}

int print_result(const struct result *r)
{
	for (int k = 0; k < KERNELS; k++)
		print_kernel((enum kernel)k, r);
	if (fflush(stdout) != 0) {
		perror("stream: write the results");
		return 1;
	}
	for (int i = 0; i < ARRAYS; i++) {
		if (!right(r->errors[i])) {
			fprintf(stderr, "stream: array %c is off by %g on average, more than %g: the figures are not valid\n",
				'a' + i, r->errors[i], error_bound);
			return 1;
		}
	}
	return 0;
}
