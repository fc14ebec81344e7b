/*
 * A rank's share of a checkpoint, as it lies in memory and in a file: a header, and
 * the nine fields of its particles one after the other, each an array. In memory it
 * begins at a page and is filled up to a whole one, so that it can be written past
 * the page cache.
 */
#ifndef CHECKPOINT_H
#define CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

enum {
	SECTIONS = 10, /* the header and the nine fields */
	PARTICLE = 38, /* bytes: seven floats, an int64 and a uint16 */
	BLOCK = 4096,  /* what lengths and addresses past the page cache are multiples of */
};

struct section {
	const char *name;
	size_t offset, size;
	unsigned width; /* of one element */
};

struct checkpoint {
	unsigned char *at;
	size_t size, room; /* room: size, up to a whole block */
	uint64_t header, particles, seed;
	int rank;
	struct section sections[SECTIONS];
};

/* checkpoint_plan says what a rank's share is made of, without any memory for it. */
void checkpoint_plan(struct checkpoint *c, uint64_t header, uint64_t particles, uint64_t seed, int rank);

/* checkpoint_make gets the memory and writes to all of it, so that no page is missing
 * when time is taken. -1 with errno where there is none. */
int checkpoint_make(struct checkpoint *c);

/* checkpoint_spoil makes every byte a wrong one. */
void checkpoint_spoil(struct checkpoint *c);

/* checkpoint_verify looks whether every element is what it was made as. Where one is
 * not, it returns -1 and says which. */
int checkpoint_verify(const struct checkpoint *c, char *why, size_t room);

void checkpoint_free(struct checkpoint *c);

#endif
