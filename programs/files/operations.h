/*
 * The operations whose times are measured. Each prints one JSON object and
 * returns 0; or it leaves what went wrong in errno, and what it was doing in
 * failed_at, and returns -1.
 */
#ifndef OPERATIONS_H
#define OPERATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct request {
	const char *directory, *file;
	char **files;    /* of copyup */
	size_t n_files;
	size_t size;     /* of one write */
	uint64_t count;
	bool sync;       /* fsync after each write */
	bool writable;   /* open for writing */
	uint64_t entries; /* a walk must see; 0: as many as the first saw */
};

/* failed_at names what an operation was doing when it failed. */
extern char failed_at[4400];

int measure_write(const struct request *r, FILE *to);
int measure_open(const struct request *r, FILE *to);
int measure_create(const struct request *r, FILE *to);
int measure_copyup(const struct request *r, FILE *to);
int measure_walk(const struct request *r, FILE *to);

#endif
