/*
 * A rank's part in the writing or the reading of a checkpoint, from the opening of its
 * file to the closing, by the C library's calls or by MPI's.
 */
#ifndef TRANSFER_H
#define TRANSFER_H

#include "checkpoint.h"

#include <stdbool.h>
#include <sys/types.h>

enum api { POSIX, MPIIO, MPIIO_COLLECTIVE };

struct transfer {
	enum api api;
	bool shared;   /* one file for all ranks */
	bool bypassed; /* O_DIRECT */
	bool sync;     /* after a write */
	bool write;
	size_t buffer; /* the most of one call; 0: a section */
	const char *path;
	off_t base;    /* where the rank's share begins */
};

/* steps are moments, in seconds: what came between is a step's time. */
struct steps {
	double begun, opened, moved, synced, closed;
};

/* transfer does it. Where it fails it returns -1 and says of what; all ranks call it
 * and all return, whichever of them fails. */
int transfer(const struct transfer *t, struct checkpoint *c, struct steps *s, char *why, size_t room);

#endif
