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
 *
 * With --serve it prints nothing, listens on TCP once its arrays are laid out, and
 * passes over them on demand. For each byte that it receives it does one pass over the
 * four kernels, checks all results, and sends one line of JSON: the seconds of each
 * kernel, the bytes that it moves, and whether the results are right. It serves
 * one connection at a time, until it is told to terminate.
 */
#include <getopt.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "cache.h"
#include "kernels.h"
#include "result.h"
#include "serve.h"

struct options {
	size_t elements;
	long repetitions;
	int threads;
	enum stores stores;
	bool serves;
	struct sockaddr_in at; /* where it serves */
};

/* arrays are the three, and the passes over them since they were set. */
struct arrays {
	double *a, *b, *c;
	long passes;
	const struct options *of;
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

/* check gives the average relative error of each array after so many passes. */
static void check(const struct arrays *x, double errors[ARRAYS])
{
	size_t n = x->of->elements;
	double want[ARRAYS];

#ifdef STREAM_INJECT_ERROR
	/* For the test of the check below: one element of the array that it names. */
	x->STREAM_INJECT_ERROR[n / 3] *= 1.5;
#endif
	expected(x->passes, want);
	errors[0] = mean_error(x->a, n, want[0]);
	errors[1] = mean_error(x->b, n, want[1]);
	errors[2] = mean_error(x->c, n, want[2]);
}

/* pass does one pass over the kernels, and writes its line. Neither the check nor a
 * setting of the arrays, before their numbers exceed what a double holds, is timed. */
static size_t pass(void *of, char line[MOST_LINE])
{
	struct arrays *x = of;
	double seconds[KERNELS], errors[ARRAYS];
	int length;

	if (x->passes == MOST_REPETITIONS) {
		initialise(x->a, x->b, x->c, x->of);
		x->passes = 0;
	}
	for (int k = 0; k < KERNELS; k++)
		seconds[k] = run((enum kernel)k, x->a, x->b, x->c, x->of);
	x->passes++;
	check(x, errors);
	length = snprintf(line, MOST_LINE, "{\"elements\":%zu,\"threads\":%d,\"stores\":\"%s\",\"kernels\":[", x->of->elements,
			  x->of->threads, x->of->stores == STREAMING ? "streaming" : "plain");
	for (int k = 0; k < KERNELS; k++)
		length += snprintf(line + length, MOST_LINE - (size_t)length, "%s{\"kernel\":\"%s\",\"bytes\":%zu,\"seconds\":%.9f}",
				   k ? "," : "", kernels[k].name, kernels[k].bytes * x->of->elements, seconds[k]);
	length += snprintf(line + length, MOST_LINE - (size_t)length, "],\"valid\":%s}\n",
			   right(errors[0]) && right(errors[1]) && right(errors[2]) ? "true" : "false");
	return (size_t)length;
}

static const char help[] =
	"usage: stream [--elements N] [--repetitions N] [--threads N] [--stores auto|plain|streaming] [--serve ADDRESS:PORT]\n"
	"\n"
	"  --elements     of each of the three arrays, 8 bytes each;\n"
	"                 default: four times the caches reached, 10 million at least\n"
	"  --repetitions  2 to 250, default 10; the first is shown but not counted\n"
	"  --threads      default: one for each CPU allowed\n"
	"  --stores       auto: past the caches where the arrays exceed them\n"
	"  --serve        listen there for TCP, and do one pass for each byte received;\n"
	"                 without --repetitions\n"
	"\n"
	"Example: stream --elements 20000000 --repetitions 20 --threads 2\n";

static struct options parse(int argc, char **argv)
{
	static const struct option flags[] = {
		{ "elements", required_argument, NULL, 'n' },
		{ "repetitions", required_argument, NULL, 'r' },
		{ "threads", required_argument, NULL, 't' },
		{ "stores", required_argument, NULL, 's' },
		{ "serve", required_argument, NULL, 'l' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct options o = { .stores = AUTO };
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
		case 'l':
			o.at = serving_place(optarg);
			o.serves = true;
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
	if (o.serves && o.repetitions > 0) {
		fputs("stream: --repetitions: --serve passes as often as it is asked to\n", stderr);
		exit(2);
	}
	if (o.repetitions == 0)
		o.repetitions = 10;
	return o;
}

int main(int argc, char **argv)
{
	struct options o = parse(argc, argv);
	struct result r = { .workers = "threads", .cache = largest_cache() };
	struct arrays x = { .of = &o };

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

	x.a = array(o.elements);
	x.b = array(o.elements);
	x.c = array(o.elements);
	for (int k = 0; k < KERNELS; k++)
		r.seconds[k] = times(o.repetitions);
	initialise(x.a, x.b, x.c, &o);
	if (o.serves)
		return serve(o.at, pass, &x);
	for (; x.passes < o.repetitions; x.passes++)
		for (int k = 0; k < KERNELS; k++)
			r.seconds[k][x.passes] = run((enum kernel)k, x.a, x.b, x.c, &o);
	check(&x, r.errors);
	r.count = o.threads;
	r.elements = o.elements;
	r.repetitions = o.repetitions;
	r.stores = o.stores;
	return print_result(&r);
}
