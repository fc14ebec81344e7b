/*
 * matrix multiplies two square matrices again and again, in one thread: the
 * neighbour that S4 has beside a service.
 *
 *     matrix [--size N] [--count N]
 *
 * It prints a line of JSON for each multiplication: the nanoseconds that it took,
 * and those of CPU time that it had meanwhile. It ends after --count of them; with 0,
 * the default, it goes on until a signal ends it.
 *
 * Exit status: 0, 1 where something failed or a product is wrong, 2 for wrong usage.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LEAST 64
#define MOST 2048
/* Three blocks of this many numbers a side fit into a second-level cache. */
#define BLOCK 64

struct options {
	size_t size;
	unsigned long count;
};

/* Each matrix has its rows one after the other. */
struct work {
	size_t size;
	double *a, *b, *product;
	double *vector, *expected; /* expected is A times B times vector */
};

static void usage(void)
{
	fputs("usage: matrix [--size 64..2048] [--count N], with 0 for no end\n", stderr);
	exit(2);
}

static void fail(const char *what)
{
	fprintf(stderr, "matrix: %s: %s\n", what, strerror(errno));
	exit(1);
}

static unsigned long number(const char *text, unsigned long least, unsigned long most)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *text < '0' || *text > '9' || *end || value < least || value > most)
		usage();
	return value;
}

static struct options parse(int argc, char **argv)
{
	static const struct option names[] = {
		{ "size", required_argument, NULL, 's' },
		{ "count", required_argument, NULL, 'c' },
		{ 0 },
	};
	struct options o = { .size = 512 };
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 's':
			o.size = number(optarg, LEAST, MOST);
			break;
		case 'c':
			o.count = number(optarg, 0, UINT32_MAX);
			break;
		default:
			usage();
		}
	}
	if (optind != argc)
		usage();
	return o;
}

/* The first process of a container gets no signal that it does not ask for. */
static void end(int signal)
{
	(void)signal;
	_exit(0);
}

static double *numbers(size_t n)
{
	double *at = calloc(n, sizeof(*at));

	if (!at)
		fail("memory for the matrices");
	return at;
}

/* draw gives numbers below limit by a multiplicative generator (Lehmer, modulus 2^31 - 1). */
static uint64_t draw(uint64_t *state, uint64_t limit)
{
	*state = *state * 48271 % 0x7fffffff;
	return *state % limit;
}

static void times_vector(size_t n, const double *matrix, const double *vector, double *to)
{
	for (size_t i = 0; i < n; i++) {
		double sum = 0;

		for (size_t j = 0; j < n; j++)
			sum += matrix[i * n + j] * vector[j];
		to[i] = sum;
	}
}

/*
 * begin draws the matrices and what the check needs. All numbers are whole, and so
 * small that every sum is exact in a double (at most 2^44): the order of additions
 * changes nothing, and the check has no tolerance.
 */
static struct work begin(size_t n)
{
	struct work w = { .size = n, .a = numbers(n * n), .b = numbers(n * n), .product = numbers(n * n),
			  .vector = numbers(n), .expected = numbers(n) };
	double *between = numbers(n);
	uint64_t state = 1;

	for (size_t i = 0; i < n * n; i++) {
		w.a[i] = (double)draw(&state, 17) - 8;
		w.b[i] = (double)draw(&state, 17) - 8;
	}
	for (size_t i = 0; i < n; i++)
		w.vector[i] = (double)draw(&state, 1 << 16);
	times_vector(n, w.b, w.vector, between);
	times_vector(n, w.a, between, w.expected);
	free(between);
	return w;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* multiply_block adds to the product what one block of each matrix gives. */
static void multiply_block(struct work *w, size_t i0, size_t k0, size_t j0)
{
	size_t n = w->size, i1 = least(i0 + BLOCK, n), k1 = least(k0 + BLOCK, n), j1 = least(j0 + BLOCK, n);

	for (size_t i = i0; i < i1; i++)
		for (size_t k = k0; k < k1; k++) {
			const double factor = w->a[i * n + k];
			const double *restrict from = &w->b[k * n];
			double *restrict to = &w->product[i * n];

			for (size_t j = j0; j < j1; j++)
				to[j] += factor * from[j];
		}
}

static void multiply(struct work *w)
{
	memset(w->product, 0, w->size * w->size * sizeof(*w->product));
	for (size_t i = 0; i < w->size; i += BLOCK)
		for (size_t k = 0; k < w->size; k += BLOCK)
			for (size_t j = 0; j < w->size; j += BLOCK)
				multiply_block(w, i, k, j);
}

/*
 * right tells whether the product is one, by Freivalds' check: a wrong one times
 * the vector is what it should be once in 2^16 times.
 */
static bool right(const struct work *w, double *scratch)
{
	times_vector(w->size, w->product, w->vector, scratch);
	for (size_t i = 0; i < w->size; i++)
		if (scratch[i] != w->expected[i])
			return false;
	return true;
}

static int64_t now(clockid_t clock)
{
	struct timespec t;

	if (clock_gettime(clock, &t) != 0)
		fail("clock");
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int main(int argc, char **argv)
{
	const struct options o = parse(argc, argv);
	const struct sigaction ending = { .sa_handler = end };
	struct work w;
	double *scratch;

	if (sigaction(SIGTERM, &ending, NULL) != 0 || sigaction(SIGINT, &ending, NULL) != 0)
		fail("signals");
	w = begin(o.size);
	scratch = numbers(o.size);
	for (unsigned long done = 0; o.count == 0 || done < o.count; done++) {
		int64_t wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_THREAD_CPUTIME_ID);

		multiply(&w);
		cpu = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
		wall = now(CLOCK_MONOTONIC) - wall;
		if (!right(&w, scratch)) {
			fprintf(stderr, "matrix: product %lu is wrong\n", done + 1);
			return 1;
		}
		printf("{\"wall_ns\":%lld,\"cpu_ns\":%lld}\n", (long long)wall, (long long)cpu);
		if (fflush(stdout) != 0)
			fail("standard output");
	}
	return 0;
}
