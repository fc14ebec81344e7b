/*
 * The traversal of a directory tree as `ls -R` does it: every directory is opened,
 * read to its end, and closed, and then those in it are gone into. Types come with
 * the entries; nothing is looked up but directories.
 */
#include "operations.h"
#include "sample.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* list is the directories that a walk has still to go into. */
struct list {
	char **paths;
	size_t n, room;
};

struct seen {
	uint64_t entries, directories;
};

static int put(struct list *l, const char *directory, const char *name)
{
	char *path;

	if (l->n == l->room) {
		size_t room = l->room ? 2 * l->room : 256;
		char **more = realloc(l->paths, room * sizeof(*more));

		if (!more)
			return -1;
		l->paths = more;
		l->room = room;
	}
	path = malloc(strlen(directory) + strlen(name) + 2);
	if (!path)
		return -1;
	strcpy(path, directory);
	if (*name) {
		strcat(path, "/");
		strcat(path, name);
	}
	l->paths[l->n++] = path;
	return 0;
}

/* is_directory asks of the entry itself, and of the file system only where the
 * entry does not tell. -1 is a failure. */
static int is_directory(const char *directory, const struct dirent *entry)
{
	char path[PATH_MAX];
	struct stat status;

	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type == DT_DIR;
	snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
	if (lstat(path, &status) != 0)
		return -1;
	return S_ISDIR(status.st_mode);
}

static int walk_directory(const char *path, struct list *left, struct seen *seen)
{
	DIR *directory = opendir(path);
	int result = 0;

	if (!directory)
		return -1;
	for (;;) {
		struct dirent *entry;
		int below;

		errno = 0;
		entry = readdir(directory);
		if (!entry) {
			result = errno ? -1 : 0;
			break;
		}
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		seen->entries++;
		below = is_directory(path, entry);
		if (below < 0 || (below && put(left, path, entry->d_name) != 0)) {
			result = -1;
			break;
		}
	}
	int why = errno;

	closedir(directory);
	errno = why;
	if (result == 0)
		seen->directories++;
	return result;
}

/* walk goes through a whole tree; its list is kept for the next walk. */
static int walk(const char *top, struct list *left, struct seen *seen)
{
	int result = put(left, top, "");

	*seen = (struct seen){ 0 };
	while (left->n > 0) {
		char *path = left->paths[--left->n];

		if (result == 0 && walk_directory(path, left, seen) != 0) {
			int why = errno;

			snprintf(failed_at, sizeof(failed_at), "walk %s", path);
			errno = why;
			result = -1;
		}
		free(path);
	}
	return result;
}

int measure_walk(const struct request *r, FILE *to)
{
	struct sample *times = sample_new();
	struct list left = { 0 };
	struct seen first, seen;
	uint64_t began = now(), took;
	int result;

	if (!times) {
		snprintf(failed_at, sizeof(failed_at), "memory for times");
		return -1;
	}
	result = walk(r->directory, &left, &first);
	took = now() - began;
	if (result == 0 && r->entries && first.entries != r->entries) {
		snprintf(failed_at, sizeof(failed_at), "walk %s: %" PRIu64 " entries, not %" PRIu64, r->directory, first.entries, r->entries);
		errno = ESTALE;
		result = -1;
	}
	for (uint64_t i = 0; result == 0 && i < r->count; i++) {
		began = now();
		result = walk(r->directory, &left, &seen);
		sample_add(times, now() - began);
		if (result == 0 && (seen.entries != first.entries || seen.directories != first.directories)) {
			snprintf(failed_at, sizeof(failed_at), "walk %s: the tree changed", r->directory);
			errno = ESTALE;
			result = -1;
		}
	}
	int why = errno;

	free(left.paths);
	errno = why;
	if (result == 0) {
		fprintf(to, "{\"operation\":\"walk\",\"entries\":%" PRIu64 ",\"directories\":%" PRIu64 ",\"first_ns\":%" PRIu64 ",",
			first.entries, first.directories, took);
		sample_print(times, to);
		fputs("}", to);
	}
	sample_free(times);
	return result;
}
