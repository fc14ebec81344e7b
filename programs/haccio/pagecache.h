/*
 * What the kernel keeps of a file in its page cache.
 */
#ifndef PAGECACHE_H
#define PAGECACHE_H

#include <stdint.h>

/* pagecache_drop brings a file to its storage and then lets its pages go. -1 with
 * errno on failure. Where the file system keeps files nowhere else, as tmpfs, they
 * stay: pagecache_count tells. */
int pagecache_drop(const char *path);

/* pagecache_count counts the pages of a file, and those of them that are in the page
 * cache. -1 with errno on failure. */
int pagecache_count(const char *path, uint64_t *pages, uint64_t *cached);

#endif
