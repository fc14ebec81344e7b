/*
 * The store: a file of LMDB's, mapped into memory, in the order of its keys.
 *
 * A store that is opened for reading is mapped read-only and shared, takes no
 * lock and writes nothing: all processes that open one file see the same page
 * frames. One that is opened for writing is mapped for writing, and what is written
 * is written to the map.
 */
#ifndef STORE_H
#define STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;

/* store_make writes a file of so many records. It gives an error number of LMDB's, or 0. */
int store_make(const char *path, uint64_t records);

/* store_open gives an error number of LMDB's, or 0. */
int store_open(const char *path, bool writable, struct store **store);
void store_close(struct store *store);

/* store_records counts the records. */
uint64_t store_records(struct store *store);

struct bytes {
	const char *at;
	size_t size;
};

/*
 * store_get finds a value, which is good until the next call; one that is not
 * there has no address.
 */
int store_get(struct store *store, struct bytes key, struct bytes *value);
int store_put(struct store *store, struct bytes key, struct bytes value);

/* store_error says what an error number means. */
const char *store_error(int error);

#endif
