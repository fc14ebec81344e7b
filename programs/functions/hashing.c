/*
 * hashing gives each key an index: the hash of sdbm, the database library after
 * ndbm whose function became a commonplace (hash = byte + 65599 * hash), below
 * the number of buckets.
 */
#include "function.h"

#include <stdlib.h>

/* A prime near a million, as tables that divide take. */
#define BUCKETS 1048573

static uint32_t *indexes;
static size_t count, room;

static char *write_key(struct random *random, char *to)
{
	return letters(random, to, 8, 40);
}

static bool take_key(const char *key, size_t length, size_t offset)
{
	uint64_t hash = 0;
	uint32_t *grown = grow(indexes, count, &room, sizeof(*indexes));

	(void)offset;
	if (!grown)
		return false;
	indexes = grown;
	for (size_t i = 0; i < length; i++)
		hash = (unsigned char)key[i] + (hash << 6) + (hash << 16) - hash;
	indexes[count++] = (uint32_t)(hash % BUCKETS);
	return true;
}

static size_t results(void)
{
	return count;
}

static uint64_t checksum(void)
{
	uint64_t sum = FOLD_START;

	for (size_t i = 0; i < count; i++)
		sum = fold(sum, indexes[i]);
	return sum;
}

const struct function function = { "hashing", write_key, take_key, results, checksum };
