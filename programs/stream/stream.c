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
 * and by his rules: each array at least four times the largest cache, two
 * iterations or more, the first of which counts for nothing but is shown,
 * results checked to an average relative error of 1e-13. The bytes are those
 * that the kernel names; a cache that fetches a line before it overwrites it
 * moves more.
 *
 * It prints one line of JSON a kernel with every iteration, so that whoever
 * reads it may choose best, mean or spread. Exit status: 0, 1 where the results
 * are wrong or memory does not suffice, 2 for wrong usage.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <omp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <emmintrin.h>
#endif

enum kernel { COPY, SCALE, ADD, TRIAD, KERNELS };

static const struct {
	const char *name;
	size_t bytes; /* an element */
} kernels[KERNELS] = {
	[COPY] = { "copy", 2 * sizeof(double) },
	[SCALE] = { "scale", 2 * sizeof(double) },
	[ADD] = { "add", 3 * sizeof(double) },
	[TRIAD] = { "triad", 3 * sizeof(double) },
};

static const double q = 3.0;
static const double error_bound = 1e-13;

/* A round multiplies a by q + q + q*q = 15, and 2 * 15^N must stay finite. */
#define MOST_REPETITIONS 250

/* What one cache line holds; threads share none. */
#define LINE (64 / sizeof(double))

enum stores { AUTO, PLAIN, STREAMING };

struct options {
	size_t elements;
	long repetitions;
	int threads;
	enum stores stores;
};

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

/*
 * Streaming stores write past the caches, and so spare the fetch of lines that
 * are wholly overwritten. Sixteen bytes at a time do: memory is the bottleneck.
 */
#ifdef __x86_64__
static const bool have_streaming = true;

static void streaming(enum kernel k, double *a, double *b, double *c, size_t n)
{
	const __m128d factor = _mm_set1_pd(q);
	/* Ranges begin and, but for the last, end on cache lines. */
	const size_t even = n & ~(size_t)1;

	switch (k) {
	case COPY:
		for (size_t i = 0; i < even; i += 2)
			_mm_stream_pd(c + i, _mm_load_pd(a + i));
		break;
	case SCALE:
		for (size_t i = 0; i < even; i += 2)
			_mm_stream_pd(b + i, _mm_mul_pd(factor, _mm_load_pd(c + i)));
		break;
	case ADD:
		for (size_t i = 0; i < even; i += 2)
			_mm_stream_pd(c + i, _mm_add_pd(_mm_load_pd(a + i), _mm_load_pd(b + i)));
		break;
	default:
		for (size_t i = 0; i < even; i += 2)
			_mm_stream_pd(a + i, _mm_add_pd(_mm_load_pd(b + i), _mm_mul_pd(factor, _mm_load_pd(c + i))));
	}
	/* Streaming stores are weakly ordered: finish them before the clock is read. */
	_mm_sfence();
	plain(k, a + even, b + even, c + even, n - even);
}
#else
static const bool have_streaming = false;

static void streaming(enum kernel k, double *a, double *b, double *c, size_t n)
{
	plain(k, a, b, c, n);
}
#endif

/* share gives the range of n elements that thread t of threads works on. */
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

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* run does one iteration of a kernel on all threads and gives its seconds. */
static double run(enum kernel k, double *a, double *b, double *c, const struct options *o)
{
	double start = now();

#pragma omp parallel
	{
		size_t from, n;

		share(o->elements, omp_get_num_threads(), omp_get_thread_num(), &from, &n);
		if (o->stores == STREAMING)
			streaming(k, a + from, b + from, c + from, n);
		else
			plain(k, a + from, b + from, c + from, n);
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
		for (size_t i = from; i < from + n; i++) {
			a[i] = 2.0;
			b[i] = 2.0;
			c[i] = 0.0;
		}
	}
}

/* expected goes through the rounds with single numbers. */
static void expected(long repetitions, double *a, double *b, double *c)
{
	*a = 2.0;
	*b = 2.0;
	*c = 0.0;
	for (long i = 0; i < repetitions; i++) {
		*c = *a;
		*b = q * *c;
		*c = *a + *b;
		*a = *b + q * *c;
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

/* right is false for NaN, too. */
static bool right(double error)
{
	return error <= error_bound;
}

#ifdef __x86_64__
/*
 * cache_by_cpuid asks the CPU for its caches, one subleaf each (Intel's leaf 4,
 * AMD's 0x8000001d, the same layout). The C library's own answer is the sum
 * over a whole AMD package, and /sys is not mounted everywhere that we run.
 */
static size_t cache_by_cpuid(void)
{
	unsigned leaf = 4, a, b, c, d;
	size_t most = 0;

	if (__get_cpuid(0x80000001, &a, &b, &c, &d) && (c & 1u << 22) != 0)
		leaf = 0x8000001d;
	for (unsigned i = 0; i < 16 && __get_cpuid_count(leaf, i, &a, &b, &c, &d); i++) {
		size_t size = (size_t)((b >> 22) + 1) * ((b >> 12 & 0x3ff) + 1) * ((b & 0xfff) + 1) * ((size_t)c + 1);

		if ((a & 0x1f) == 0)
			break; /* no more caches */
		if ((a & 0x1f) != 2 && size > most) /* not of instructions */
			most = size;
	}
	return most;
}
#else
static size_t cache_by_cpuid(void)
{
	return 0;
}
#endif

/* largest_cache is the size of the largest cache that one CPU reaches; 0 where
 * nobody tells. */
static size_t largest_cache(void)
{
	static const int names[] = { _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL4_CACHE_SIZE };
	size_t most = cache_by_cpuid();

	if (most > 0)
		return most;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		long size = sysconf(names[i]);

		if (size > 0 && (size_t)size > most)
			most = (size_t)size;
	}
	return most;
}

static const char help[] =
	"usage: stream [--elements N] [--repetitions N] [--threads N] [--stores auto|plain|streaming]\n"
	"\n"
	"  --elements     of each of the three arrays, 8 bytes each;\n"
	"                 default: four times the largest cache, 10 million at least\n"
	"  --repetitions  2 to 250, default 10; the first is shown but not counted\n"
	"  --threads      default: one for each CPU allowed\n"
	"  --stores       auto: past the caches where the arrays exceed them\n"
	"\n"
	"Example: stream --elements 20000000 --repetitions 20 --threads 2\n";

static long number(const char *flag, const char *text, long least, long most)
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

static enum stores store_kind(const char *text)
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

static double *array(size_t elements)
{
	size_t bytes = (elements * sizeof(double) + 4095) / 4096 * 4096;
	double *x = aligned_alloc(4096, bytes);

	if (x == NULL) {
		fprintf(stderr, "stream: no memory for an array of %zu elements: want fewer --elements\n", elements);
		exit(1);
	}
	return x;
}

static void print_list(const char *name, const double *seconds, long n, double over)
{
	printf("\"%s\":[", name);
	for (long i = 0; i < n; i++)
		printf("%s%.9g", i ? "," : "", over > 0 ? over / seconds[i] : seconds[i]);
	printf("],");
}

static void print_kernel(enum kernel k, const double *seconds, const struct options *o, size_t cache, const double error[3])
{
	double bytes = (double)kernels[k].bytes * (double)o->elements;
	double least = INFINITY, most = 0, sum = 0;

	for (long i = 1; i < o->repetitions; i++) {
		least = fmin(least, seconds[i]);
		most = fmax(most, seconds[i]);
		sum += seconds[i];
	}
	printf("{\"kernel\":\"%s\",\"elements\":%zu,\"threads\":%d,\"repetitions\":%ld,\"stores\":\"%s\",",
	       kernels[k].name, o->elements, o->threads, o->repetitions, o->stores == STREAMING ? "streaming" : "plain");
	printf("\"bytes\":%.0f,\"best_bytes_per_second\":%.9g,\"min_seconds\":%.9g,\"mean_seconds\":%.9g,\"max_seconds\":%.9g,",
	       bytes, bytes / least, least, sum / (double)(o->repetitions - 1), most);
	print_list("seconds", seconds, o->repetitions, 0);
	print_list("bytes_per_second", seconds, o->repetitions, bytes);
	printf("\"largest_cache_bytes\":%zu,", cache);
	if (cache == 0)
		printf("\"cache_resident\":null,");
	else
		printf("\"cache_resident\":%s,", o->elements * sizeof(double) < 4 * cache ? "true" : "false");
	/* JSON has no NaN: an error that is none is printed as null. */
	printf("\"errors\":{");
	for (int i = 0; i < 3; i++) {
		printf("%s\"%c\":", i ? "," : "", 'a' + i);
		if (isfinite(error[i]))
			printf("%.3g", error[i]);
		else
			printf("null");
	}
	printf("},\"error_bound\":%.3g,\"valid\":%s}\n", error_bound,
	       right(error[0]) && right(error[1]) && right(error[2]) ? "true" : "false");
}

int main(int argc, char **argv)
{
	struct options o = parse(argc, argv);
	size_t cache = largest_cache();
	double *a, *b, *c, *seconds[KERNELS];
	double want[3], error[3];

	if (o.elements == 0) {
		o.elements = 10000000;
		if (4 * cache / sizeof(double) > o.elements)
			o.elements = 4 * cache / sizeof(double);
	}
	if (o.threads > 0) {
		omp_set_dynamic(0);
		omp_set_num_threads(o.threads);
	}
	o.threads = omp_get_max_threads();
	if (o.stores == AUTO)
		o.stores = have_streaming && o.elements * sizeof(double) >= cache ? STREAMING : PLAIN;

	a = array(o.elements);
	b = array(o.elements);
	c = array(o.elements);
	for (int k = 0; k < KERNELS; k++) {
		seconds[k] = calloc((size_t)o.repetitions, sizeof(double));
		if (seconds[k] == NULL) {
			fprintf(stderr, "stream: no memory for the times of %ld repetitions\n", o.repetitions);
			return 1;
		}
	}
	initialise(a, b, c, &o);
	for (long i = 0; i < o.repetitions; i++)
		for (int k = 0; k < KERNELS; k++)
			seconds[k][i] = run((enum kernel)k, a, b, c, &o);

#ifdef STREAM_INJECT_ERROR
	/* For the test of the check below: one element of the array that it names. */
	STREAM_INJECT_ERROR[o.elements / 3] *= 1.5;
#endif
	expected(o.repetitions, &want[0], &want[1], &want[2]);
	error[0] = mean_error(a, o.elements, want[0]);
	error[1] = mean_error(b, o.elements, want[1]);
	error[2] = mean_error(c, o.elements, want[2]);
	for (int k = 0; k < KERNELS; k++)
		print_kernel((enum kernel)k, seconds[k], &o, cache, error);
	if (fflush(stdout) != 0) {
		perror("stream: write the results");
		return 1;
	}
	for (int i = 0; i < 3; i++) {
		if (!right(error[i])) {
			fprintf(stderr, "stream: array %c is off by %g on average, more than %g: the figures are not valid\n",
				'a' + i, error[i], error_bound);
			return 1;
		}
	}
	return 0;
}
