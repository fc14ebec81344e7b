#include "operations.h"
#include "sample.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file that is written is cut to nothing when it has grown to this. */
#define LARGEST_FILE (64ul << 20)

/* Files that are made before they are removed, outside of the times. */
#define MADE_AT_ONCE 1000

char failed_at[4400];

__attribute__((format(printf, 1, 2))) static int failed(const char *format, ...)
{
	va_list arguments;
	int why = errno;

	va_start(arguments, format);
	vsnprintf(failed_at, sizeof(failed_at), format, arguments);
	va_end(arguments);
	errno = why;
	return -1;
}

/* noise fills a buffer with what does not compress, always the same. */
static void noise(unsigned char *to, size_t size)
{
	uint64_t state = 1;

	for (size_t i = 0; i < size; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		to[i] = (unsigned char)(state >> 56);
	}
}

/* write_times does the writes; what it opened and took the caller gives back. */
static int write_times(const struct request *r, int fd, const unsigned char *buffer, struct sample *times)
{
	size_t written = 0;

	for (uint64_t i = 0; i < r->count; i++) {
		uint64_t began;
		ssize_t n;

		if (written + r->size > LARGEST_FILE) {
			if (ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0)
				return failed("cut the file in %s", r->directory);
			written = 0;
		}
		began = now();
		/* What flush() hands to the kernel, it hands over by this. */
		n = write(fd, buffer, r->size);
		if (r->sync && n == (ssize_t)r->size && fsync(fd) != 0)
			return failed("fsync in %s", r->directory);
		sample_add(times, now() - began);
		if (n != (ssize_t)r->size) {
			if (n >= 0)
				errno = ENOSPC; /* a part fitted */
			return failed("write in %s", r->directory);
		}
		written += r->size;
	}
	return 0;
}

int measure_write(const struct request *r, FILE *to)
{
	char path[PATH_MAX];
	unsigned char *buffer = malloc(r->size);
	struct sample *times = sample_new();
	int fd, result;

	if (!buffer || !times) {
		free(buffer);
		sample_free(times);
		return failed("memory for writes");
	}
	noise(buffer, r->size);
	snprintf(path, sizeof(path), "%s/tare-written", r->directory);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	result = fd < 0 ? failed("open %s", path) : write_times(r, fd, buffer, times);
	if (fd >= 0) {
		int why = errno;

		close(fd);
		unlink(path);
		errno = why;
	}
	if (result == 0) {
		fprintf(to, "{\"operation\":\"write\",\"size\":%zu,\"sync\":\"%s\",", r->size, r->sync ? "fsync" : "none");
		sample_print(times, to);
		fputs("}", to);
	}
	free(buffer);
	sample_free(times);
	return result;
}

/* open_once gives the time of an opening, and closes again; 0 where it failed. */
static uint64_t open_once(const char *path, int flags)
{
	uint64_t began = now(), took;
	int fd = open(path, flags | O_CLOEXEC);

	took = now() - began;
	if (fd < 0)
		return 0;
	close(fd);
	return took ? took : 1;
}

int measure_open(const struct request *r, FILE *to)
{
	int flags = r->writable ? O_WRONLY : O_RDONLY;
	struct sample *times = sample_new();
	uint64_t first = open_once(r->file, flags);
	int result = 0;

	if (!times)
		return failed("memory for times");
	if (!first)
		result = failed("open %s", r->file);
	for (uint64_t i = 0; result == 0 && i < r->count; i++) {
		uint64_t took = open_once(r->file, flags);

		if (took)
			sample_add(times, took);
		else
			result = failed("open %s", r->file);
	}
	if (result == 0) {
		fprintf(to, "{\"operation\":\"open\",\"mode\":\"%s\",\"first_ns\":%" PRIu64 ",", r->writable ? "write" : "read", first);
		sample_print(times, to);
		fputs("}", to);
	}
	sample_free(times);
	return result;
}

/* remove_made removes the files that create_times has made. */
static void remove_made(int directory, uint64_t made)
{
	char name[32];

	while (made > 0) {
		snprintf(name, sizeof(name), "tare-made-%" PRIu64, --made);
		unlinkat(directory, name, 0);
	}
}

static int create_times(const struct request *r, int directory, struct sample *times)
{
	uint64_t made = 0;
	int result = 0;

	for (uint64_t i = 0; i < r->count; i++) {
		char name[32];
		uint64_t began;
		int fd;

		if (made == MADE_AT_ONCE) {
			remove_made(directory, made);
			made = 0;
		}
		snprintf(name, sizeof(name), "tare-made-%" PRIu64, made);
		began = now();
		fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (fd >= 0)
			close(fd);
		if (fd < 0) {
			result = failed("make %s in %s", name, r->directory);
			break;
		}
		sample_add(times, now() - began);
		made++;
	}
	int why = errno;

	remove_made(directory, made);
	errno = why;
	return result;
}

int measure_create(const struct request *r, FILE *to)
{
	struct sample *times = sample_new();
	int directory, result;

	if (!times)
		return failed("memory for times");
	directory = open(r->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	result = directory < 0 ? failed("open %s", r->directory) : create_times(r, directory, times);
	if (directory >= 0)
		close(directory);
	if (result == 0) {
		fputs("{\"operation\":\"create\",", to);
		sample_print(times, to);
		fputs("}", to);
	}
	sample_free(times);
	return result;
}

int measure_copyup(const struct request *r, FILE *to)
{
	fputs("{\"operation\":\"copyup\",\"files\":[", to);
	for (size_t i = 0; i < r->n_files; i++) {
		const char *path = r->files[i];
		uint64_t began, opened, written, second;
		struct stat status;
		int fd;

		if (stat(path, &status) != 0)
			return failed("look at %s", path);
		began = now();
		fd = open(path, O_WRONLY | O_CLOEXEC);
		opened = now();
		if (fd < 0)
			return failed("open %s for writing", path);
		if (write(fd, "x", 1) != 1) {
			int why = errno;

			close(fd);
			errno = why;
			return failed("write to %s", path);
		}
		written = now();
		close(fd);
		second = open_once(path, O_WRONLY);
		if (!second)
			return failed("open %s again", path);
		fprintf(to, "%s{\"size\":%lld,\"first_open_ns\":%" PRIu64 ",\"first_write_ns\":%" PRIu64 ",\"second_open_ns\":%" PRIu64 "}",
			i ? "," : "", (long long)status.st_size, opened - began, written - opened, second);
	}
	fputs("]}", to);
	return 0;
}
