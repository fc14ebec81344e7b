/*
 * What a function is: it makes its input's records, and takes them one after
 * the other. function.c does the rest, the same for each.
 */
#ifndef FUNCTION_H
#define FUNCTION_H

#include "input.h"

struct function {
	const char *name;
	writer write_record;
	/*
	 * take works on one record; offset is where it begins in the input. It
	 * is false where memory does not suffice.
	 */
	bool (*take)(const char *record, size_t length, size_t offset);
	/* results and checksum describe what all records came to. */
	size_t (*results)(void);
	uint64_t (*checksum)(void);
};

/* Each program links one. */
extern const struct function function;

/* fold adds a number to a checksum (FNV-1a, eight bytes at once). */
#define FOLD_START 0xcbf29ce484222325UL
static inline uint64_t fold(uint64_t checksum, uint64_t number)
{
	return (checksum ^ number) * 0x100000001b3UL;
}

/*
 * grow makes room for one more element in an array that has count of room
 * elements, or gives NULL. An array that doubles is remapped, not copied, once
 * it is large.
 */
void *grow(void *array, size_t count, size_t *room, size_t element);

#endif
