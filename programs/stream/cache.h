/* The caches that the program's CPUs reach. */
#ifndef STREAM_CACHE_H
#define STREAM_CACHE_H

#include <stddef.h>

/* largest_cache is the size of the largest cache that one CPU reaches; 0 where
 * nobody tells. */
size_t largest_cache(void);

/* caches_reached is how many caches of that size the CPUs lie on that this process
 * may use, and no more than so many processes can fill; 1 where nobody tells. */
int caches_reached(int processes);

#endif
