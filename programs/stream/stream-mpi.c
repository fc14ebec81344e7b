/*
 * stream-mpi is stream on the ranks of an MPI program, as the benchmark's own MPI
 * version is: the same four kernels and rules (see stream.c).
 *
 * The elements are of each whole array: every rank has its part of them in memory of
 * its own, so that more ranks share the same work. An iteration takes from the moment
 * at which the first rank leaves the barrier before it to that at which the last one
 * has done its part, by the one monotonic clock that all ranks of a host read: ranks
 * that must take turns on a CPU do not look as fast as ranks side by side.
 *
 * Each rank checks its own results; the errors told are the largest of any rank.
 * The first rank prints, as stream does, with "processes" for "threads".
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "cache.h"
#include "kernels.h"
#include "result.h"

struct options {
	size_t elements;
	long repetitions;
	enum stores stores;
};

static const char help[] =
	"usage: mpiexec -n RANKS stream-mpi [--elements N] [--repetitions N] [--stores auto|plain|streaming]\n"
	"\n"
	"  --elements     of each of the three arrays, 8 bytes each, over all ranks;\n"
	"                 default: four times the caches reached, 10 million at least\n"
	"  --repetitions  2 to 250, default 10; the first is shown but not counted\n"
	"  --stores       auto: past the caches where the arrays exceed them\n"
	"\n"
	"Example: mpiexec -n 2 stream-mpi --elements 20000000 --repetitions 20\n";

static struct options parse(int argc, char **argv)
{
	static const struct option flags[] = {
		{ "elements", required_argument, NULL, 'n' },
		{ "repetitions", required_argument, NULL, 'r' },
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

/* part is how many of n elements a rank has: the first ones have one more where they
 * do not divide. */
static size_t part(size_t n, int ranks, int rank)
{
	return n / (size_t)ranks + ((size_t)rank < n % (size_t)ranks ? 1 : 0);
}

/* crowded tells whether there are more ranks than CPUs that this one may use. */
static bool crowded(int ranks)
{
	cpu_set_t allowed;

	return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 && CPU_COUNT(&allowed) < ranks;
}

/*
 * meet waits for all ranks. MPICH waits by polling, which is quickest where each rank
 * has a CPU; where it has none, a rank that polls takes the time of one that works, and
 * so it gives way instead.
 */
static void meet(bool yield)
{
	MPI_Request all;
	int done = 0;

	if (!yield) {
		MPI_Barrier(MPI_COMM_WORLD);
		return;
	}
	MPI_Ibarrier(MPI_COMM_WORLD, &all);
	for (MPI_Test(&all, &done, MPI_STATUS_IGNORE); !done; MPI_Test(&all, &done, MPI_STATUS_IGNORE))
		sched_yield();
}

/* mean_error is of one rank's part; infinite where it is no number, so that the
 * largest of all ranks is told. */
static double mean_error(const double *x, size_t n, double want)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += fabs(x[i] - want);
	sum = sum / (double)n / fabs(want);
	return isfinite(sum) ? sum : INFINITY;
}

/* measure does all iterations on this rank's n elements and leaves their times, and the
 * errors, with the first rank. */
static void measure(struct result *r, size_t n, int rank)
{
	double *a = array(n), *b = array(n), *c = array(n);
	double *ends[KERNELS], want[ARRAYS], errors[ARRAYS];
	bool yield = crowded(r->count);

	for (int k = 0; k < KERNELS; k++) {
		r->seconds[k] = times(r->repetitions);
		ends[k] = times(r->repetitions);
	}
	set_initial(a, b, c, n);
	for (long i = 0; i < r->repetitions; i++) {
		for (int k = 0; k < KERNELS; k++) {
			meet(yield);
			r->seconds[k][i] = now();
			run_kernel((enum kernel)k, r->stores, a, b, c, n);
			ends[k][i] = now();
		}
	}
	meet(yield);
#ifdef STREAM_INJECT_ERROR
	/* For the test of the check below: one element of the array that it names, of
	 * the last rank. */
	if (rank == r->count - 1)
		STREAM_INJECT_ERROR[n / 3] *= 1.5;
#endif
	expected(r->repetitions, want);
	errors[0] = mean_error(a, n, want[0]);
	errors[1] = mean_error(b, n, want[1]);
	errors[2] = mean_error(c, n, want[2]);
	MPI_Reduce(errors, r->errors, ARRAYS, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);

	for (int k = 0; k < KERNELS; k++) {
		double *starts = r->seconds[k];
		int count = (int)r->repetitions;

		MPI_Reduce(rank == 0 ? MPI_IN_PLACE : starts, starts, count, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
		MPI_Reduce(rank == 0 ? MPI_IN_PLACE : ends[k], ends[k], count, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
		for (long i = 0; i < r->repetitions; i++)
			starts[i] = ends[k][i] - starts[i];
	}
}

int main(int argc, char **argv)
{
	struct options o = parse(argc, argv);
	struct result r = { .workers = "processes" };
	int rank, status = 0;

	/* MPI ends the program itself where one of its calls fails. */
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &r.count);
	r.cache = largest_cache();
	r.caches = caches_reached(r.count);
	r.elements = o.elements > 0 ? o.elements : elements_for(r.cache, r.caches);
	if (r.elements < (size_t)r.count) {
		if (rank == 0)
			fprintf(stderr, "stream: %zu elements on %d ranks: want an element for each\n", r.elements, r.count);
		MPI_Finalize();
		return 2;
	}
	r.repetitions = o.repetitions;
	r.stores = o.stores != AUTO ? o.stores : stores_for(r.elements * sizeof(double), r.cache * (size_t)r.caches);
	measure(&r, part(r.elements, r.count, rank), rank);
	if (rank == 0)
		status = print_result(&r);
	/* The others end as the first does: a launcher tells of one status. */
	MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
	MPI_Finalize();
	return status;
}
