/*
 * The frame of a function as a service of functions runs it: started, given an
 * input, gone when its work is done (Darbaz, "Characterization of containers",
 * Illinois 2018: the functions of its application set).
 *
 *     NAME generate --data MEBIBYTES [--seed N] FILE
 *     NAME [--data MEBIBYTES] [--access dense|sparse] [--seed N] [--scratch FILE] [--hold] FILE
 *
 * The input is mapped, privately and for reading, so that its pages come by
 * faults on the page cache. Dense access takes all records; sparse access looks
 * at the first fifth of each page and at no other byte.
 *
 * Where FILE is shorter than --data, the whole input is made first, in the
 * scratch file; the time that takes is printed apart and is not the function's.
 *
 * It prints one line of JSON. Held, it then waits for a signal with all that it
 * has mapped still mapped, so that its memory can be looked at. Exit status: 0, 1 where something failed, 2 for
 * wrong usage.
 */
#include "function.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Offsets of results have 32 bits. */
#define MOST_MEBIBYTES 4095

struct options {
	bool generate, sparse, hold;
	size_t bytes; /* 0: as many as the file has */
	uint64_t seed;
	const char *scratch, *file;
};

static void usage(void)
{
	fprintf(stderr,
		"usage: %s generate --data MEBIBYTES [--seed N] FILE\n"
		"       %s [--data MEBIBYTES] [--access dense|sparse] [--seed N] [--scratch FILE] [--hold] FILE\n",
		function.name, function.name);
	exit(2);
}

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", function.name, what, strerror(errno));
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
		{ "data", required_argument, NULL, 'd' },
		{ "access", required_argument, NULL, 'a' },
		{ "seed", required_argument, NULL, 's' },
		{ "scratch", required_argument, NULL, 't' },
		{ "hold", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct options o = { .seed = 1 };
	int c;

	if (argc > 1 && strcmp(argv[1], "generate") == 0) {
		o.generate = true;
		argc--;
		argv++;
	}
	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 'd':
			o.bytes = number(optarg, 1, MOST_MEBIBYTES) * MEBIBYTE;
			break;
		case 'a':
			o.sparse = strcmp(optarg, "sparse") == 0;
			if (!o.sparse && strcmp(optarg, "dense") != 0)
				usage();
			break;
		case 's':
			o.seed = number(optarg, 0, UINT64_MAX);
			break;
		case 't':
			o.scratch = optarg;
			break;
		case 'h':
			o.hold = true;
			break;
		default:
			usage();
		}
	}
	if (optind + 1 != argc || (o.generate && o.bytes == 0))
		usage();
	o.file = argv[optind];
	return o;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void *grow(void *array, size_t count, size_t *room, size_t element)
{
	if (count < *room)
		return array;
	*room = *room ? 2 * *room : PAGE;
	return realloc(array, *room * element);
}

static size_t size_of(const char *path)
{
	struct stat s;

	if (stat(path, &s) != 0)
		fail(path);
	return (size_t)s.st_size;
}

/* choose gives the file to read, and how much of it. */
static const char *choose(struct options *o, double *generated)
{
	size_t there = size_of(o->file);
	double began = now();

	*generated = 0;
	if (o->bytes == 0)
		o->bytes = there / PAGE * PAGE;
	if (o->bytes <= there)
		return o->file;
	if (!o->scratch) {
		fprintf(stderr, "%s: %s has %zu bytes of %zu: name a scratch file, in which the input is made\n",
			function.name, o->file, there, o->bytes);
		exit(1);
	}
	if (!make_input(o->scratch, o->bytes, o->seed, function.write_record))
		fail(o->scratch);
	*generated = now() - began;
	return o->scratch;
}

/* run takes the records of one page's part, and counts them. */
static bool run(const char *input, size_t offset, size_t part, size_t *records)
{
	const char *at = input + offset, *end = at + part, *line;

	while ((line = memchr(at, '\n', (size_t)(end - at)))) {
		if (line > at) {
			if (!function.take(at, (size_t)(line - at), (size_t)(at - input)))
				return false;
			++*records;
		}
		at = line + 1;
	}
	return true;
}

int main(int argc, char **argv)
{
	struct options o = parse(argc, argv);
	size_t part = o.sparse ? SPARSE : PAGE, records = 0;
	double generated, began, seconds;
	const char *file, *input;
	int fd;

	if (o.generate) {
		if (!make_input(o.file, o.bytes, o.seed, function.write_record))
			fail(o.file);
		return 0;
	}
	file = choose(&o, &generated);
	began = now();
	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fail(file);
	input = mmap(NULL, o.bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (input == MAP_FAILED)
		fail(file);
	for (size_t page = 0; page < o.bytes; page += PAGE)
		if (!run(input, page, part, &records))
			fail("memory for the results");
	seconds = now() - began;
	printf("{\"function\":\"%s\",\"access\":\"%s\",\"bytes\":%zu,\"touched\":%zu,\"records\":%zu,"
	       "\"results\":%zu,\"checksum\":\"%016llx\",\"seconds\":%.9f,\"generated_seconds\":%.9f}\n",
	       function.name, o.sparse ? "sparse" : "dense", o.bytes, o.bytes / PAGE * part, records,
	       function.results(), (unsigned long long)function.checksum(), seconds, generated);
	if (fflush(stdout) != 0)
		return 1;
	while (o.hold)
		pause();
	return 0;
}
