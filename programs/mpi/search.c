/*
 * mpi-search searches an array for a number, on the ranks of an MPI program, again and
 * again: what S2 (2006.02055) calls MPI_Search, whose communication dominates.
 *
 * A round: the first rank plants the wanted number in up to three places of its array,
 * tells all ranks the number (MPI_Bcast), hands each its part (MPI_Scatter); each looks
 * at every element of it; how often it was found (MPI_Reduce, the sum) and where first
 * (MPI_Reduce, the least) goes back. What is planted is drawn from the seed alone, so
 * that it can be worked out without the program. All else in the array is even, and
 * what is wanted odd: nothing is found that was not planted.
 *
 * Rounds say how long it runs, elements how much of that is computing: each element
 * costs a comparison, and each round the same four calls.
 */
#include "exchange.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { MOST_PLANTED = 3 };

struct options {
	long elements;
	long rounds;
	uint64_t seed;
};

static const char help[] =
	"usage: mpiexec -n RANKS mpi-search [--elements N] [--rounds N] [--seed N|random]\n"
	"\n"
	"  --elements  of the array, 4 bytes each, over all ranks; default 256\n"
	"  --rounds    searches, each for another number; default 500000\n"
	"  --seed      of what is planted; random: drawn by the first rank, which prints it;\n"
	"              default 1\n"
	"\n"
	"Example: mpiexec -n 2 mpi-search --elements 4096 --rounds 20000\n";

static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* draw is splitmix (Steele, Lea, Flood, OOPSLA 2014). */
static uint64_t draw(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15;
	return mix(*state);
}

static uint64_t seed_of(const char *text)
{
	uint64_t seed;

	if (strcmp(text, "random") != 0)
		return (uint64_t)number("mpi-search", "seed", text, 0, INT64_MAX);
	/* Every rank draws, and the first one's counts. Of so few bytes none is missing. */
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) {
		perror("mpi-search: --seed random: ask the kernel for a number");
		exit(1);
	}
	return seed >> 1;
}

static struct options parse(int argc, char **argv)
{
	static const struct option flags[] = {
		{ "elements", required_argument, NULL, 'n' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "seed", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct options o = { .elements = 256, .rounds = 500000, .seed = 1 };
	int flag;

	while ((flag = getopt_long(argc, argv, "", flags, NULL)) != -1) {
		switch (flag) {
		case 'n':
			o.elements = number("mpi-search", "elements", optarg, 1, 1L << 28);
			break;
		case 'r':
			o.rounds = number("mpi-search", "rounds", optarg, 1, 1000000000);
			break;
		case 's':
			o.seed = seed_of(optarg);
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
		fprintf(stderr, "mpi-search: %s: no such argument\n%s", argv[optind], help);
		exit(2);
	}
	return o;
}

static int32_t *array(size_t elements)
{
	int32_t *a = calloc(elements, sizeof(*a));

	if (a == NULL) {
		fprintf(stderr, "mpi-search: no memory for %zu elements: want fewer --elements\n", elements);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	return a;
}

/* planted is what the first rank knows of a round. */
struct planted {
	int32_t wanted;
	int places;
	int64_t at[MOST_PLANTED];
	int32_t before[MOST_PLANTED]; /* what was there */
	int64_t hits;
	int64_t first; /* INT64_MAX where there is none */
};

static void plant(struct planted *p, int32_t *all, const struct options *o, long round)
{
	uint64_t state = mix(o->seed ^ mix((uint64_t)round + 1));

	p->wanted = (int32_t)(draw(&state) >> 33) | 1;
	p->places = (int)(draw(&state) % (MOST_PLANTED + 1));
	p->hits = 0;
	p->first = INT64_MAX;
	for (int i = 0; i < p->places; i++) {
		int64_t at = p->at[i] = (int64_t)(draw(&state) % (uint64_t)o->elements);

		p->before[i] = all[at];
		p->hits += all[at] != p->wanted; /* a place may be drawn twice */
		all[at] = p->wanted;
		if (at < p->first)
			p->first = at;
	}
}

/* Backwards, so that a place that was drawn twice gets back what it first had. */
static void uproot(const struct planted *p, int32_t *all)
{
	for (int i = p->places - 1; i >= 0; i--)
		all[p->at[i]] = p->before[i];
}

/* search looks at every element of a rank's part, which begins at from in the whole. */
static void search(const int32_t *part, int count, int32_t wanted, int64_t from, int64_t *hits, int64_t *first)
{
	*hits = 0;
	*first = INT64_MAX;
	for (int i = 0; i < count; i++) {
		if (part[i] != wanted)
			continue;
		if ((*hits)++ == 0)
			*first = from + i;
	}
}

struct found {
	int64_t hits;
	uint64_t checksum; /* of hits and first places, in order (FNV-1a, eight bytes at once) */
	long wrong;	   /* rounds in which not that was found which was planted */
};

static void fold(struct found *f, uint64_t n) { f->checksum = (f->checksum ^ n) * 0x100000001b3; }

static struct found run(struct exchange *e, const struct options *o)
{
	/* The last part may go beyond the array, into elements that nobody wants. */
	int count = (int)((o->elements + e->ranks - 1) / e->ranks);
	int32_t *all = e->rank == 0 ? array((size_t)count * (size_t)e->ranks) : NULL;
	int32_t *part = array((size_t)count);
	struct found f = { .checksum = 0xcbf29ce484222325 };
	struct planted p = { 0 };
	uint64_t state = mix(o->seed);

	for (long i = 0; e->rank == 0 && i < o->elements; i++)
		all[i] = (int32_t)(draw(&state) >> 33) & ~1;
	exchange_start(e);
	for (long round = 0; round < o->rounds; round++) {
		int64_t hits, first, all_hits = 0, all_first = 0;

		if (e->rank == 0)
			plant(&p, all, o, round);
		exchange_enter(e);
		exchange_broadcast(e, &p.wanted, 1);
		exchange_scatter(e, all, part, count);
		exchange_leave(e);
		search(part, count, p.wanted, (int64_t)e->rank * count, &hits, &first);
#ifdef SEARCH_INJECT_ERROR
		/* For the test of the check below. */
		if (round == o->rounds / 2 && e->rank == e->ranks - 1)
			SEARCH_INJECT_ERROR;
#endif
		exchange_enter(e);
		exchange_reduce(e, &hits, &all_hits, MPI_SUM);
		exchange_reduce(e, &first, &all_first, MPI_MIN);
		exchange_leave(e);
		if (e->rank == 0) {
			uproot(&p, all);
			f.wrong += all_hits != p.hits || all_first != p.first;
			f.hits += all_hits;
			fold(&f, (uint64_t)all_hits);
			fold(&f, (uint64_t)all_first);
		}
	}
	exchange_stop(e);
	free(all);
	free(part);
	return f;
}

int main(int argc, char **argv)
{
	struct options o = parse(argc, argv);
	struct exchange e;
	struct found f;

	exchange_init(&e, &argc, &argv);
	f = run(&e, &o);
	if (e.rank == 0)
		printf("{\"program\":\"mpi-search\",\"elements\":%ld,\"rounds\":%ld,\"seed\":%" PRIu64 ",\"hits\":%" PRId64 ",\"checksum\":%" PRIu64 ",",
		       o.elements, o.rounds, o.seed, f.hits, f.checksum);
	exchange_print(&e);
	if (e.rank == 0)
		printf(",\"valid\":%s}\n", f.wrong == 0 ? "true" : "false");
	if (f.wrong > 0)
		fprintf(stderr, "mpi-search: %ld of %ld rounds found other than what was planted: the figures are not valid\n", f.wrong, o.rounds);
	return exchange_end(&e, f.wrong > 0);
}
