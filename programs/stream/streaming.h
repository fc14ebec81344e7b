/*
 * The kernels with stores that go past the caches, and so spare the fetch of lines
 * that are wholly overwritten.
 */
#ifndef STREAM_STREAMING_H
#define STREAM_STREAMING_H

#include "kernels.h"

/* have_streaming tells whether they are written for this kind of CPU. */
extern const bool have_streaming;

/* streaming does as many of n elements as whole steps hold, and gives how many; the
 * arrays begin on cache lines. */
size_t streaming(enum kernel k, double *a, double *b, double *c, size_t n);

#endif
