/*
 * haccio writes a checkpoint of particles from every rank of an MPI program, reads it
 * back, and measures both, as HACC-IO does for the cosmological code HACC: a particle
 * has nine fields, 38 bytes in all, which are written one after the other, each an
 * array.
 *
 *     mpiexec -n RANKS haccio --dir DIR --particles N [OPTION VALUE]...
 *
 *     --phase both|write|read     write leaves its files, for a later read
 *     --api posix|mpiio|mpiio-collective
 *     --layout file-per-rank|shared
 *     --cache kept|dropped|bypassed   the page cache between write and read
 *     --sync none|fsync           fsync: in the time of the write
 *     --buffer BYTES              most of one call; 0: a field by one call
 *     --header BYTES              before each rank's particles
 *     --seed N
 *
 * A rate is the bytes of all ranks over the longest rank's time from before the
 * opening of its file until after the closing. All begin together, or, where they are
 * more than CPUs, one after the other: the span is from the first rank's beginning to
 * the last one's end. What is read is compared with what was written, outside of that
 * time. A line of JSON a phase.
 */
#include "checkpoint.h"
#include "pagecache.h"
#include "transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int rank, ranks;

/* why is what this rank has failed of; empty: nothing. */
static char why[PATH_MAX + 512];

/* path is this rank's file. It is removed by whatever ends the program. */
static char path[PATH_MAX];

enum cache { KEPT, DROPPED, BYPASSED };

struct request {
	const char *directory;
	bool write, read;
	enum api api;
	enum cache cache;
	bool shared, sync;
	uint64_t particles, header, buffer, seed;
};

/* agree tells whether all ranks have succeeded. Where not, the first that has failed
 * says of what. */
static bool agree(void)
{
	int mine = why[0] ? rank : INT_MAX, first;

	MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (first == rank)
		fprintf(stderr, "haccio: %s\n", why);
	return first == INT_MAX;
}

static const char how[] =
	"usage: mpiexec -n RANKS haccio --dir DIR --particles N [--phase both|write|read] [--api posix|mpiio|mpiio-collective]\n"
	"         [--layout file-per-rank|shared] [--cache kept|dropped|bypassed] [--sync none|fsync]\n"
	"         [--buffer BYTES] [--header BYTES] [--seed N]\n";

static int usage(const char *about, const char *value)
{
	if (rank == 0)
		fprintf(stderr, "haccio: %s %s\n%s", about, value, how);
	return 2;
}

static bool number(const char *text, uint64_t most, uint64_t *n)
{
	char *end;

	errno = 0;
	*n = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno && *n <= most;
}

/* word finds one of a few; -1 where it is none. */
static int word(const char *text, const char *const *words)
{
	for (int i = 0; words[i]; i++)
		if (!strcmp(text, words[i]))
			return i;
	return -1;
}

static const char *const phases[] = { "both", "write", "read", NULL };
static const char *const apis[] = { "posix", "mpiio", "mpiio-collective", NULL };
static const char *const layouts[] = { "file-per-rank", "shared", NULL };
static const char *const caches[] = { "kept", "dropped", "bypassed", NULL };
static const char *const syncs[] = { "none", "fsync", NULL };

/* The largest share of a rank: its size stays far from overflow in all sums. */
static const uint64_t most_particles = 100000000000u, most_bytes = (uint64_t)1 << 40;

static int arguments(int argc, char **argv, struct request *r)
{
	int phase = 0, api = 0, layout = 0, cache = 0, sync = 0;

	*r = (struct request){ .seed = 1 };
	for (int i = 1; i < argc; i += 2) {
		const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
		bool right;

		if (!strcmp(name, "--dir"))
			right = *(r->directory = value) == '/' && strlen(value) < sizeof(path) - 32;
		else if (!strcmp(name, "--particles"))
			right = number(value, most_particles, &r->particles) && r->particles > 0;
		else if (!strcmp(name, "--header"))
			right = number(value, most_bytes, &r->header);
		else if (!strcmp(name, "--buffer"))
			right = number(value, most_bytes, &r->buffer);
		else if (!strcmp(name, "--seed"))
			right = number(value, UINT64_MAX, &r->seed);
		else if (!strcmp(name, "--phase"))
			right = (phase = word(value, phases)) >= 0;
		else if (!strcmp(name, "--api"))
			right = (api = word(value, apis)) >= 0;
		else if (!strcmp(name, "--layout"))
			right = (layout = word(value, layouts)) >= 0;
		else if (!strcmp(name, "--cache"))
			right = (cache = word(value, caches)) >= 0;
		else if (!strcmp(name, "--sync"))
			right = (sync = word(value, syncs)) >= 0;
		else
			return usage("no option", name);
		if (!right)
			return usage(name, value);
	}
	if (!r->directory || !r->particles)
		return usage("--dir and --particles", "are needed");
	if (cache == BYPASSED && api != POSIX)
		return usage("MPI has no way past the page cache:", "--cache bypassed is for --api posix");
	if (cache == BYPASSED && r->buffer % BLOCK != 0)
		return usage("past the page cache --buffer is a multiple of 4096, not", "what was given");
	r->write = phase != 2;
	r->read = phase != 1;
	r->api = (enum api)api;
	r->shared = layout == 1;
	r->cache = (enum cache)cache;
	r->sync = sync == 1;
	return 0;
}

/* stride is what a rank's share takes in a file. */
static uint64_t stride(const struct request *r, const struct checkpoint *c) { return r->cache == BYPASSED ? c->room : c->size; }

/* look_for_room fails where the file system is too small for the checkpoint, before
 * any of it is written. */
static void look_for_room(const struct request *r, const struct checkpoint *c)
{
	struct statvfs status;
	uint64_t need = stride(r, c) * (uint64_t)ranks, have;

	if (statvfs(r->directory, &status) != 0) {
		snprintf(why, sizeof(why), "look at %s: %s", r->directory, strerror(errno));
		return;
	}
	have = (uint64_t)status.f_bavail * status.f_frsize;
	/* A tmpfs without a limit says that it has no blocks at all. */
	if (status.f_blocks > 0 && have < need)
		snprintf(why, sizeof(why), "the checkpoint takes %" PRIu64 " bytes, and %s has %" PRIu64 " free: fewer particles or ranks, or another storage",
			need, r->directory, have);
}

static void remove_file(void)
{
	if (unlink(path) != 0 && errno != ENOENT && !why[0])
		snprintf(why, sizeof(why), "remove %s: %s", path, strerror(errno));
}

/* ended removes the file of a program that is told to end. */
static void ended(int number)
{
	unlink(path);
	_exit(128 + number);
}

/* most_of is the greatest that any rank has. */
static double most_of(double mine)
{
	double most;

	MPI_Reduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	return most;
}

static void print_phase(const char *phase, const struct checkpoint *c, const struct steps *s, const char *more)
{
	double all = most_of(s->closed - s->begun), open = most_of(s->opened - s->begun), move = most_of(s->moved - s->opened),
	       sync = most_of(s->synced - s->moved), close = most_of(s->closed - s->synced);
	/* All ranks are on one host and read the same clock. */
	double span = most_of(s->closed) + most_of(-s->begun);

	if (rank == 0)
		printf("{\"phase\":\"%s\",\"ranks\":%d,\"particles\":%" PRIu64 ",\"bytes\":%" PRIu64
		       ",\"seconds\":%.9f,\"span_seconds\":%.9f,\"open_seconds\":%.9f,\"transfer_seconds\":%.9f,\"sync_seconds\":%.9f,\"close_seconds\":%.9f%s}\n",
			phase, ranks, c->particles, (uint64_t)c->size * (uint64_t)ranks, all, span, open, move, sync, close, more);
}

/* settle makes the page cache what it is to be before the reading, and counts what it
 * then holds of all files. */
static double settle(const struct request *r)
{
	uint64_t counts[2] = { 0, 0 }, sums[2];
	bool mine = !r->shared || rank == 0;

	MPI_Barrier(MPI_COMM_WORLD);
	if (mine && r->cache == DROPPED && pagecache_drop(path) != 0)
		snprintf(why, sizeof(why), "drop %s from the page cache: %s", path, strerror(errno));
	if (mine && !why[0] && pagecache_count(path, &counts[0], &counts[1]) != 0)
		snprintf(why, sizeof(why), "count the pages of %s: %s", path, strerror(errno));
	MPI_Allreduce(counts, sums, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	return sums[0] ? (double)sums[1] / (double)sums[0] : 0;
}

/* run does the phases; false where any rank has failed. */
static bool run(const struct request *r, struct checkpoint *c)
{
	struct transfer t = {
		.api = r->api, .shared = r->shared, .bypassed = r->cache == BYPASSED, .sync = r->sync, .buffer = r->buffer, .path = path,
	};
	struct steps steps;
	char more[64];

	checkpoint_plan(c, r->header, r->particles, r->seed, rank);
	if (r->shared)
		t.base = (off_t)(stride(r, c) * (uint64_t)rank);
	if (r->write) {
		/* What an earlier program has left would be written over, and not made. */
		if (!r->shared || rank == 0)
			remove_file();
		if (!agree())
			return false;
		if (rank == 0)
			look_for_room(r, c);
		if (!agree())
			return false;
	}
	if (checkpoint_make(c) != 0)
		snprintf(why, sizeof(why), "memory for %" PRIu64 " particles of rank %d: %s", r->particles, rank, strerror(errno));
	if (!agree())
		return false;
	if (r->write) {
		t.write = true;
		transfer(&t, c, &steps, why, sizeof(why));
		if (!agree())
			return false;
		print_phase("write", c, &steps, "");
	}
	if (!r->read)
		return true;
	double cached = settle(r);

	if (!agree())
		return false;
	checkpoint_spoil(c);
	t.write = false;
	transfer(&t, c, &steps, why, sizeof(why));
	if (!agree())
		return false;
	checkpoint_verify(c, why, sizeof(why));
	if (!agree())
		return false;
	snprintf(more, sizeof(more), ",\"cached\":%.9f,\"verified\":true", cached);
	print_phase("read", c, &steps, more);
	return true;
}

int main(int argc, char **argv)
{
	struct request r;
	struct checkpoint c = { 0 };
	int code;

	if (argc > 1 && !strcmp(argv[1], "--help")) {
		fputs(how, stdout);
		return 0;
	}
	if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
		return 1;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	code = arguments(argc, argv, &r);
	if (code == 0) {
		if (r.shared)
			snprintf(path, sizeof(path), "%s/haccio", r.directory);
		else
			snprintf(path, sizeof(path), "%s/haccio.%d", r.directory, rank);
		signal(SIGTERM, ended);
		signal(SIGINT, ended);
		code = run(&r, &c) ? 0 : 1;
		if (r.read || code != 0) {
			/* Only when nobody has it open any more. */
			why[0] = '\0';
			MPI_Barrier(MPI_COMM_WORLD);
			if (!r.shared || rank == 0)
				remove_file();
			if (!agree())
				code = 1;
		}
		checkpoint_free(&c);
	}
	MPI_Finalize();
	return code;
}
