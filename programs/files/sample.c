#include "sample.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * Bars are one nanosecond wide below twice HALF, and above that double in width
 * with each power of two, of which each has HALF bars.
 */
#define HALF_BITS 10
#define HALF (1u << HALF_BITS)
#define LARGEST_BITS 42 /* above an hour */
#define BARS ((LARGEST_BITS - HALF_BITS + 1) * HALF)

struct sample {
	uint64_t count, sum, least, most;
	uint64_t bars[BARS];
};

uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t clock_cost(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 1000; i++) {
		uint64_t began = now(), took = now() - began;

		if (took < least)
			least = took;
	}
	return least;
}

struct sample *sample_new(void)
{
	struct sample *s = malloc(sizeof(*s));

	if (s) {
		/* Written now, so that no page of it is first touched between two times. */
		memset(s, 0, sizeof(*s));
		s->least = UINT64_MAX;
	}
	return s;
}

/* shift_of is by how many bits a bar's width exceeds one. */
static unsigned shift_of(uint64_t value)
{
	unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);

	return bits > HALF_BITS + 1 ? bits - (HALF_BITS + 1) : 0;
}

void sample_add(struct sample *s, uint64_t nanoseconds)
{
	uint64_t kept = nanoseconds < 1ull << LARGEST_BITS ? nanoseconds : (1ull << LARGEST_BITS) - 1;
	unsigned shift = shift_of(kept);

	s->count++;
	s->sum += nanoseconds;
	if (nanoseconds < s->least)
		s->least = nanoseconds;
	if (nanoseconds > s->most)
		s->most = nanoseconds;
	s->bars[shift * HALF + (kept >> shift)]++;
}

/* middle is a bar's middle. */
static uint64_t middle(unsigned bar)
{
	unsigned shift = bar < 2 * HALF ? 0 : bar / HALF - 1;
	uint64_t from = (uint64_t)(bar - shift * HALF) << shift;

	return from + ((1ull << shift) - 1) / 2;
}

void sample_print(const struct sample *s, FILE *to)
{
	const char *gap = "";

	fprintf(to, "\"count\":%" PRIu64 ",\"sum_ns\":%" PRIu64 ",\"min_ns\":%" PRIu64 ",\"max_ns\":%" PRIu64 ",\"bars_ns\":[",
		s->count, s->sum, s->count ? s->least : 0, s->most);
	for (unsigned i = 0; i < BARS; i++) {
		if (!s->bars[i])
			continue;
		fprintf(to, "%s[%" PRIu64 ",%" PRIu64 "]", gap, middle(i), s->bars[i]);
		gap = ",";
	}
	fputs("]", to);
}

void sample_free(struct sample *s) { free(s); }
