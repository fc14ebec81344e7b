/*
 * The input of a function: records in a file, a line each, made from a seed.
 *
 * A page of 4 KiB holds whole records and is filled up with line feeds, so that
 * a function that looks at the first part of each page alone (sparse access)
 * finds whole records there, too. Each page is drawn from a generator of its own,
 * seeded with the file's seed and the page's number: a longer file begins with
 * the shorter one.
 */
#ifndef INPUT_H
#define INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE 4096
/* What sparse access looks at of each page: a fifth. */
#define SPARSE (PAGE / 5)
#define MEBIBYTE (1UL << 20)
#define MOST_RECORD 255

/*
 * The generator is splitmix64 (Steele, Lea, Flood: "Fast splittable
 * pseudorandom number generators", OOPSLA 2014).
 */
struct random {
	uint64_t state;
};

uint64_t draw(struct random *random);

/* below gives a number from 0 to bound - 1. */
static inline unsigned below(struct random *random, unsigned bound)
{
	return (unsigned)(draw(random) % bound);
}

/* letters writes from least to most letters and digits, and gives their end. */
char *letters(struct random *random, char *to, unsigned least, unsigned most);

/* A record's writer writes at most MOST_RECORD bytes and gives their end. */
typedef char *(*writer)(struct random *random, char *to);

/* make_input writes a file of the size, and is false where that failed. */
bool make_input(const char *path, size_t bytes, uint64_t seed, writer write_record);

#endif
