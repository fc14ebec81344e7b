/*
 * Samples of times in nanoseconds: counted in bars of at most a thousandth of
 * their value, with the exact sum and extremes beside them.
 */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stdint.h>
#include <stdio.h>

struct sample;

/* now is the monotonic clock, in nanoseconds. */
uint64_t now(void);

/* clock_cost is the least that two readings of the clock are apart. */
uint64_t clock_cost(void);

/* sample_new makes an empty sample; NULL where there is no memory. */
struct sample *sample_new(void);

/* sample_add counts one time. */
void sample_add(struct sample *s, uint64_t nanoseconds);

/* sample_print writes count, sum, extremes and bars as members of a JSON object. */
void sample_print(const struct sample *s, FILE *to);

void sample_free(struct sample *s);

#endif
