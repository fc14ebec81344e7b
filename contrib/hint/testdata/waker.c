/*
 * waker holds an arena with a known pattern and sleeps in read(). It is for the tests of
 * libannexhint.
 *
 *     waker mmap|sparse|moved|malloc|heap
 *
 * says how it comes by it: sparse is mmap too, behind memory that is never touched, and moved
 * in the place of as much that is given back, between which it waits for a byte more.
 *
 * A first byte on its standard input has it fill the arena and tell where that is, start
 * and length in bytes. Each byte after that has it touch all pages, in one shuffled order,
 * and tell in a line: nanoseconds of that, nanoseconds of the hint before, major faults
 * of both, and a checksum of all that it read. It ends with its input.
 *
 * Built with -DTOLD it registers the arena and gives the hint itself; otherwise it knows
 * nothing of hints.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#ifdef TOLD
#include "annex_hint.h"
#endif

#define ARENA ((size_t)8 << 20)
#define UNTOUCHED ((size_t)72 << 20)

/* Of the smallest pages. */
static uint16_t order[ARENA / 4096];

/* So that printing takes no memory from malloc. */
static char line[256];

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static int64_t nanoseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static long major_faults(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return used.ru_majflt;
}

/* allocate gives the arena, and as many bytes more as aligning it takes. */
static char *allocate(const char *how, size_t page)
{
	if (strcmp(how, "mmap") == 0 || strcmp(how, "sparse") == 0) {
		const size_t before = how[0] == 's' ? UNTOUCHED : 0;
		char *start = mmap(NULL, before + ARENA + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		return start == MAP_FAILED ? NULL : start + before;
	}
	if (strcmp(how, "moved") == 0) {
		void *before = mmap(NULL, ARENA + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *start;
		char told;

		if (before == MAP_FAILED || read(0, &told, 1) != 1)
			return NULL;
		start = mmap(NULL, ARENA + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (start == MAP_FAILED || munmap(before, ARENA + page) != 0)
			return NULL;
		return start;
	}
	if (strcmp(how, "malloc") == 0)
		return malloc(ARENA + page);
	if (strcmp(how, "heap") == 0) {
		void *start = sbrk((intptr_t)(ARENA + page));

		return start == (void *)-1 ? NULL : start;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = ARENA / page, words = page / sizeof(uint64_t);
	uint64_t state = 88172645463325252u, *arena;
	char told, *start;

	setvbuf(stdout, line, _IOFBF, sizeof(line));
	if (argc != 2 || read(0, &told, 1) != 1)
		return 2;
	start = allocate(argv[1], page);
	if (start == NULL) {
		fprintf(stderr, "waker: no arena by %s\n", argv[1]);
		return 1;
	}
	start = (char *)(((uintptr_t)start + page - 1) & ~(uintptr_t)(page - 1));
	/* Page by page, whatever the host does with large ones. */
	madvise(start, ARENA, MADV_NOHUGEPAGE);
	arena = (uint64_t *)start;
	for (size_t i = 0; i < ARENA / sizeof(uint64_t); i++)
		arena[i] = next(&state);
	for (size_t i = 0; i < pages; i++)
		order[i] = (uint16_t)i;
	for (size_t i = pages - 1; i > 0; i--) {
		const size_t j = next(&state) % (i + 1);
		const uint16_t at = order[i];

		order[i] = order[j];
		order[j] = at;
	}
#ifdef TOLD
	if (annex_arena(start, ARENA) != 0) {
		perror("waker: annex_arena");
		return 1;
	}
#endif
	printf("%ju %zu\n", (uintmax_t)(uintptr_t)start, ARENA);
	fflush(stdout);
	while (read(0, &told, 1) == 1) {
		const long faults = major_faults();
		const int64_t began = nanoseconds();
		int64_t hinted, ended;
		uint64_t sum = 0;

#ifdef TOLD
		annex_request();
#endif
		hinted = nanoseconds();
		for (size_t i = 0; i < pages; i++)
			for (size_t w = 0; w < words; w++)
				sum = (sum ^ arena[order[i] * words + w]) * 1099511628211u;
		ended = nanoseconds();
		printf("%jd %jd %ld %jx\n", (intmax_t)(ended - hinted), (intmax_t)(hinted - began), major_faults() - faults, (uintmax_t)sum);
		fflush(stdout);
	}
	return 0;
}
