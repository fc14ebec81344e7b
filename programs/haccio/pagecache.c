#include "pagecache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* window is how much of a file is mapped at once, to be looked at. */
static const off_t window = 1 << 30;

/* tries bounds how often dropping is tried: a page that another CPU has just put
 * down is missed the first time. */
enum { TRIES = 4 };

/* done closes a file without losing what went wrong before. */
static int done(int fd, int result)
{
	int why = errno;

	close(fd);
	errno = why;
	return result;
}

static int count(int fd, uint64_t *pages, uint64_t *cached)
{
	struct stat status;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *present;

	*pages = *cached = 0;
	if (fstat(fd, &status) != 0)
		return -1;
	present = malloc((size_t)window / page);
	if (!present)
		return -1;
	for (off_t at = 0; at < status.st_size; at += window) {
		size_t length = (size_t)(status.st_size - at < window ? status.st_size - at : window);
		void *map = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, at);
		int failed = map == MAP_FAILED || mincore(map, length, present) != 0;
		int why = errno;

		if (map != MAP_FAILED)
			munmap(map, length);
		if (failed) {
			free(present);
			errno = why;
			return -1;
		}
		for (size_t i = 0; i < (length + page - 1) / page; i++)
			*cached += present[i] & 1;
		*pages += (length + page - 1) / page;
	}
	free(present);
	return 0;
}

int pagecache_count(const char *path, uint64_t *pages, uint64_t *cached)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -1 : done(fd, count(fd, pages, cached));
}

int pagecache_drop(const char *path)
{
	/* Opened for writing: some file systems bring to storage only what was. */
	int fd = open(path, O_RDWR | O_CLOEXEC);
	uint64_t pages, cached;

	if (fd < 0)
		return -1;
	if (fsync(fd) != 0)
		return done(fd, -1);
	for (int i = 0; i < TRIES; i++) {
		int code = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);

		if (code != 0) {
			errno = code;
			return done(fd, -1);
		}
		if (count(fd, &pages, &cached) != 0)
			return done(fd, -1);
		if (cached == 0)
			break;
	}
	return done(fd, 0);
}
