/*
 * mpi-primes counts the primes up to a number, on the ranks of an MPI program, for
 * numbers that double: what S2 (2006.02055) calls Prime_MPI.
 *
 * A count: the first rank tells all the number n (MPI_Bcast); of 2 to n each rank
 * tests every so-manieth by dividing it by all smaller numbers, in the plain manner,
 * until one goes; the counts are added up at the first rank (MPI_Reduce). A round has
 * the counts for n = 1, 2, 4, ... up to the limit.
 *
 * Rounds say how long it runs, the limit how much of that is computing: a count costs
 * the same two calls whatever n is, and testing all up to n some n squared over the logarithm
 * of n.
 */
#include "exchange.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* The limit is below 2 to this power, so many counts has a round at most. */
enum { MOST_COUNTS = 25 };

struct options {
	long limit;
	long rounds;
};

static const char help[] =
	"usage: mpiexec -n RANKS mpi-primes [--limit N] [--rounds N]\n"
	"\n"
	"  --limit   up to which n is doubled from 1 on; default 32\n"
	"  --rounds  times that all of these are counted; default 150000\n"
	"\n"
	"Example: mpiexec -n 2 mpi-primes --limit 131072 --rounds 1\n";

static struct options parse(int argc, char **argv)
{
	static const struct option flags[] = {
		{ "limit", required_argument, NULL, 'n' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct options o = { .limit = 32, .rounds = 150000 };
	int flag;

	while ((flag = getopt_long(argc, argv, "", flags, NULL)) != -1) {
		switch (flag) {
		case 'n':
			o.limit = number("mpi-primes", "limit", optarg, 1, (1L << MOST_COUNTS) - 1);
			break;
		case 'r':
			o.rounds = number("mpi-primes", "rounds", optarg, 1, 1000000000);
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
		fprintf(stderr, "mpi-primes: %s: no such argument\n%s", argv[optind], help);
		exit(2);
	}
	return o;
}

static int prime(int32_t n)
{
	for (int32_t d = 2; d < n; d++)
		if (n % d == 0)
			return 0;
	return 1;
}

/* share is how many primes a rank finds among its numbers of 2 to n. */
static int64_t share(const struct exchange *e, int32_t n)
{
	int64_t found = 0;

	for (int64_t i = 2 + e->rank; i <= n; i += e->ranks)
		found += prime((int32_t)i);
	return found;
}

struct counts {
	int n;			   /* counts of a round */
	int64_t found[MOST_COUNTS]; /* up to 1, 2, 4, ..., in the first round */
	long wrong;		   /* counts of later rounds that differ from these */
};

static struct counts run(struct exchange *e, const struct options *o)
{
	struct counts c = { 0 };

	exchange_start(e);
	for (long round = 0; round < o->rounds; round++) {
		c.n = 0;
		for (long limit = 1; limit <= o->limit; limit *= 2, c.n++) {
			int32_t n = e->rank == 0 ? (int32_t)limit : 0;
			int64_t mine, all = 0;

			exchange_enter(e);
			exchange_broadcast(e, &n, 1);
			exchange_leave(e);
			mine = share(e, n);
#ifdef PRIMES_INJECT_ERROR
			/* For the test of the check below. */
			if (round == o->rounds / 2 && e->rank == e->ranks - 1)
				mine++;
#endif
			exchange_enter(e);
			exchange_reduce(e, &mine, &all, MPI_SUM);
			exchange_leave(e);
			if (round == 0)
				c.found[c.n] = all;
			c.wrong += all != c.found[c.n];
		}
	}
	exchange_stop(e);
	return c;
}

int main(int argc, char **argv)
{
	struct options o = parse(argc, argv);
	struct exchange e;
	struct counts c;
	int status;

	exchange_init(&e, &argc, &argv);
	c = run(&e, &o);
	/* The others' are of what they were not told: all nothing. */
	status = e.rank == 0 && c.wrong > 0;
	if (e.rank == 0) {
		printf("{\"program\":\"mpi-primes\",\"limit\":%ld,\"rounds\":%ld,\"primes\":[", o.limit, o.rounds);
		for (int i = 0; i < c.n; i++)
			printf("%s%" PRId64, i ? "," : "", c.found[i]);
		printf("],");
	}
	exchange_print(&e);
	if (e.rank == 0)
		printf(",\"valid\":%s}\n", status == 0 ? "true" : "false");
	if (status != 0)
		fprintf(stderr, "mpi-primes: %ld counts differ between rounds: the figures are not valid\n", c.wrong);
	return exchange_end(&e, status);
}
