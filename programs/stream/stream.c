/*
 * stream measures sustainable memory bandwidth with four vector kernels, as
 * McCalpin defined them ("Memory Bandwidth and Machine Balance in Current High
 * Performance Computers", IEEE TCCA Newsletter, December 1995):
 *
 *     copy   c = a            16 bytes an element
 *     scale  b = q c          16
 *     add    c = a + b        24
 *     triad  a = b + q c      24
 *
 * and by his rules: each array at least four times the caches that are reached, two
 * iterations or more, the first of which counts for nothing but is shown,
 * results checked to an average relative error of 1e-13. The bytes are those
 * that the kernel names; a cache that fetches a line before it overwrites it
 * moves more.
 *
 * It prints one line of JSON a kernel with every iteration, so that whoever
 * reads it may choose best, mean or spread. Exit status: 0, 1 where the results
 * are wrong or memory does not suffice, 2 for wrong usage.
 */
#include <getopt.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "cache.h"
#include "kernels.h"
#include "result.h"

struct options {
	size_t elements;
	long repetitions;
	int threads;
	enum stores stores;
};

/* share gives the range of n elements that thread t of threads works on: whole cache
 * lines, so that threads share none. */
static void share(size_t n, int threads, int t, size_t *from, size_t *count)
{
	size_t lines = (n + LINE - 1) / LINE;
	size_t first = lines * (size_t)t / (size_t)threads * LINE;
	size_t end = lines * (size_t)(t + 1) / (size_t)threads * LINE;

	if (end > n)
		end = n;
	*from = first;
	*count = end - first;
}

/* run does one iteration of a kernel on all threads and gives its seconds. */
static double run(enum kernel k, double *a, double *b, double *c, const struct options *o)
{
	double start = now();

#pragma omp parallel
	{
		size_t from, n;

		share(o->elements, omp_get_num_threads(), omp_get_thread_num(), &from, &n);
		run_kernel(k, o->stores, a + from, b + from, c + from, n);
	}
	return now() - start;
}

/* initialise lets each thread touch its own share first, so that the memory
 * lies at the node where it is used. */
static void initialise(double *a, double *b, double *c, const struct options *o)
{
#pragma omp parallel
	{
		size_t from, n;

		share(o->elements, omp_get_num_threads(), omp_get_thread_num(), &from, &n);
		set_initial(a + from, b + from, c + from, n);
	}
}

static double mean_error(const double *x, size_t n, double want)
{
	double sum = 0;

#pragma omp parallel for reduction(+ : sum)
	for (size_t i = 0; i < n; i++)
		sum += fabs(x[i] - want);
	return sum / (double)n / fabs(want);
}

static const char help[] =
	"usage: stream [--elements N] [--repetitions N] [--threads N] [--stores auto|plain|streaming]\n"
	"\n"
	"  --elements     of each of the three arrays, 8 bytes each;\n"
	"                 default: four times the caches reached, 10 million at least\n"
	"  --repetitions  2 to 250, default 10; the first is shown but not counted\n"
	"  --threads      default: one for each CPU allowed\n"
	"  --stores       auto: past the caches where the arrays exceed them\n"
	"\n"
	"Example: stream --elements 20000000 --repetitions 20 --threads 2\n";

static struct options parse(int argc, char **argv)
{
	static const struct option flags[] = {
		{ "elements", required_argument, NULL, 'n' },
		{ "repetitions", required_argument, NULL, 'r' },
		{ "threads", required_argument, NULL, 't' },
		{ "stores", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct options o = { .repetitions = 10, .stores = AUTO };
	int flag;

	while ((flag = getopt_long(argc, argv, "", flags, NULL)) != -1) {
		switch (flag) {
		case 'n':
			o.elements = (size_t)number("elements", optarg, 1, 1L << 40);
			break;
		case 'r':
			o.repetitions = number("repetitions", optarg, 2, MOST_REPETITIONS);
			break;
		case 't':
			o.threads = (int)number("threads", optarg, 1, 4096);
			break;
		case 's':
			o.stores = store_kind(optarg);
			break;
		case 'h':
			fputs(help, stdout);
			exit(0);
		default:
			fputs(help, stderr);
			exit(2);
		}
	}
	if (optind < argc) {
		fprintf(stderr, "stream: %s: no such argument\n%s", argv[optind], help);
		exit(2);
	}
	return o;
}

int main(int argc, char **argv)
{
	struct options o = parse(argc, argv);
	struct result r = { .workers = "threads", .cache = largest_cache() };
	double *a, *b, *c, want[ARRAYS];

	if (o.threads > 0) {
		omp_set_dynamic(0);
		omp_set_num_threads(o.threads);
	}
	o.threads = omp_get_max_threads();
	r.caches = caches_reached(o.threads);
	if (o.elements == 0)
		o.elements = elements_for(r.cache, r.caches);
	if (o.stores == AUTO)
		o.stores = stores_for(o.elements * sizeof(double), r.cache);

	a = array(o.elements);
	b = array(o.elements);
	c = array(o.elements);
	for (int k = 0; k < KERNELS; k++)
		r.seconds[k] = times(o.repetitions);
	initialise(a, b, c, &o);
	for (long i = 0; i < o.repetitions; i++)
		for (int k = 0; k < KERNELS; k++)
			r.seconds[k][i] = run((enum kernel)k, a, b, c, &o);

#ifdef STREAM_INJECT_ERROR
	/* For the test of the check below: one element of the array that it names. */
	STREAM_INJECT_ERROR[o.elements / 3] *= 1.5;
#endif
	expected(o.repetitions, want);
	r.errors[0] = mean_error(a, o.elements, want[0]);
	r.errors[1] = mean_error(b, o.elements, want[1]);
	r.errors[2] = mean_error(c, o.elements, want[2]);
	r.count = o.threads;
	r.elements = o.elements;
	r.repetitions = o.repetitions;
	r.stores = o.stores;
	return print_result(&r);
}
