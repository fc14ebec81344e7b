/*
 * files measures what a program's file operations take, by its own clock, where it
 * runs: in a container's layer, in a directory that is mounted into it, on bare
 * metal (Zhang, "The Impact of Docker Containers on Service Latency", 2016, 3.6).
 *
 *     files OPERATION [+ OPERATION]...
 *
 *     write  --dir D --size BYTES --count N --sync none|fsync
 *     open   --file F --count N --mode read|write
 *     create --dir D --count N
 *     copyup --files F...
 *     walk   --dir D --count N [--entries N]
 *
 * write appends to an open file, and either leaves the bytes with the kernel, which
 * is what flush() of Python does, or has them on the disk. The file is cut when it
 * has grown large, outside of the times. open opens and closes, again and again; the
 * first opening, in which a layered file system finds or copies the file, stands
 * apart. create makes files that were not there. copyup opens each file for writing,
 * writes a byte, and opens it a second time. walk goes through a tree as ls -R does.
 *
 * It prints one JSON document, of one object for each operation; times are in
 * nanoseconds, bars of a thousandth of their value. Exit status: 0, 1 where
 * something failed, 2 for wrong usage.
 */
#include "operations.h"
#include "sample.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MOST_COUNT 100000000
#define MOST_SIZE (64ul << 20)

static void usage(void)
{
	fputs("usage: files OPERATION [+ OPERATION]...\n"
	      "       write  --dir D --size BYTES --count N --sync none|fsync\n"
	      "       open   --file F --count N --mode read|write\n"
	      "       create --dir D --count N\n"
	      "       copyup --files F...\n"
	      "       walk   --dir D --count N [--entries N]\n", stderr);
	exit(2);
}

static uint64_t number(const char *text, uint64_t least, uint64_t most)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *text < '0' || *text > '9' || *end || value < least || value > most)
		usage();
	return value;
}

/* either reads one of two words, and tells whether it is the second. */
static bool either(const char *text, const char *first, const char *second)
{
	if (strcmp(text, first) != 0 && strcmp(text, second) != 0)
		usage();
	return strcmp(text, second) == 0;
}

static const char *path(const char *text)
{
	/* Names of files are added to directories. */
	if (!*text || strlen(text) > PATH_MAX - 64)
		usage();
	return text;
}

/* The options that an operation has, all of which it needs but entries. */
enum {
	DIR_OPTION = 1, FILE_OPTION = 2, FILES_OPTION = 4, SIZE_OPTION = 8, COUNT_OPTION = 16,
	SYNC_OPTION = 32, MODE_OPTION = 64, ENTRIES_OPTION = 128,
};

static const struct operation {
	const char *name;
	unsigned options;
	int (*measure)(const struct request *, FILE *);
} operations[] = {
	{ "write", DIR_OPTION | SIZE_OPTION | COUNT_OPTION | SYNC_OPTION, measure_write },
	{ "open", FILE_OPTION | COUNT_OPTION | MODE_OPTION, measure_open },
	{ "create", DIR_OPTION | COUNT_OPTION, measure_create },
	{ "copyup", FILES_OPTION, measure_copyup },
	{ "walk", DIR_OPTION | COUNT_OPTION | ENTRIES_OPTION, measure_walk },
};

/* option reads one option, of which args holds the name and what follows, and
 * returns which it was; used is how many arguments it took. */
static unsigned option(struct request *r, int n, char **args, int *used)
{
	*used = 2;
	if (n < 2)
		usage();
	if (!strcmp(args[0], "--dir")) {
		r->directory = path(args[1]);
		return DIR_OPTION;
	}
	if (!strcmp(args[0], "--file")) {
		r->file = path(args[1]);
		return FILE_OPTION;
	}
	if (!strcmp(args[0], "--size")) {
		r->size = number(args[1], 1, MOST_SIZE);
		return SIZE_OPTION;
	}
	if (!strcmp(args[0], "--count")) {
		r->count = number(args[1], 1, MOST_COUNT);
		return COUNT_OPTION;
	}
	if (!strcmp(args[0], "--entries")) {
		r->entries = number(args[1], 1, MOST_COUNT);
		return ENTRIES_OPTION;
	}
	if (!strcmp(args[0], "--sync")) {
		r->sync = either(args[1], "none", "fsync");
		return SYNC_OPTION;
	}
	if (!strcmp(args[0], "--mode")) {
		r->writable = either(args[1], "read", "write");
		return MODE_OPTION;
	}
	if (strcmp(args[0], "--files") != 0)
		usage();
	r->files = args + 1;
	r->n_files = (size_t)n - 1;
	for (size_t i = 0; i < r->n_files; i++)
		path(r->files[i]);
	*used = n;
	return FILES_OPTION;
}

/* parse reads one operation's words; the request is its. */
static const struct operation *parse(int n, char **args, struct request *r)
{
	const struct operation *operation = NULL;
	unsigned had = 0;

	*r = (struct request){ 0 };
	for (size_t i = 0; n > 0 && i < sizeof(operations) / sizeof(*operations); i++) {
		if (!strcmp(args[0], operations[i].name))
			operation = &operations[i];
	}
	if (!operation)
		usage();
	for (int at = 1, used; at < n; at += used) {
		unsigned is = option(r, n - at, args + at, &used);

		if (!(operation->options & is) || (had & is))
			usage();
		had |= is;
	}
	if ((had | ENTRIES_OPTION) != (operation->options | ENTRIES_OPTION))
		usage();
	return operation;
}

/* each does something with every operation of the command line, in order. */
static void each(int argc, char **argv, void (*with)(const struct operation *, const struct request *))
{
	int from = 1;

	for (int at = 1; at <= argc; at++) {
		if (at < argc && strcmp(argv[at], "+") != 0)
			continue;
		struct request request;
		const struct operation *operation = parse(at - from, argv + from, &request);

		with(operation, &request);
		from = at + 1;
	}
}

static void nothing(const struct operation *operation, const struct request *request)
{
	(void)operation;
	(void)request;
}

static const char *gap = "";

static void measure(const struct operation *operation, const struct request *request)
{
	fputs(gap, stdout);
	gap = ",";
	if (operation->measure(request, stdout) != 0) {
		fprintf(stderr, "files: %s: %s\n", failed_at, strerror(errno));
		exit(1);
	}
}

int main(int argc, char **argv)
{
	/* All is read before anything is measured: a wrong word costs no time. */
	each(argc, argv, nothing);
	printf("{\"clock_ns\":%" PRIu64 ",\"series\":[", clock_cost());
	each(argc, argv, measure);
	fputs("]}\n", stdout);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "files: standard output: %s\n", strerror(errno));
		return 1;
	}
	return 0;
}
