#include "transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* file is one that is open, in either way. */
struct file {
	const struct transfer *how;
	int fd;
	MPI_File mpi;
};

/* failure is what is told of a call that failed: errno's text, or MPI's. */
static int failure(const struct transfer *t, const char *doing, int code, char *why, size_t room)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int length;

	if (t->api == POSIX) {
		const char *mend = "";

		if (errno == EINVAL && t->bypassed)
			mend = " (the file system may have no way past the page cache)";
		snprintf(why, room, "%s %s: %s%s", doing, t->path, strerror(errno), mend);
	} else {
		MPI_Error_string(code, text, &length);
		snprintf(why, room, "%s %s by MPI: %s", doing, t->path, text);
		/* One line is what a reader of standard error gets. */
		for (char *c = why; *c; c++)
			if (*c == '\n')
				*c = ' ';
	}
	return -1;
}

static int file_open(struct file *f, char *why, size_t room)
{
	const struct transfer *t = f->how;

	if (t->api == POSIX) {
		int flags = (t->write ? O_WRONLY | O_CREAT : O_RDONLY) | O_CLOEXEC | (t->bypassed ? O_DIRECT : 0);

		f->fd = open(t->path, flags, 0644);
		return f->fd >= 0 ? 0 : failure(t, "open", 0, why, room);
	}
	int code = MPI_File_open(t->shared ? MPI_COMM_WORLD : MPI_COMM_SELF, t->path,
		t->write ? MPI_MODE_WRONLY | MPI_MODE_CREATE : MPI_MODE_RDONLY, MPI_INFO_NULL, &f->mpi);

	return code == MPI_SUCCESS ? 0 : failure(t, "open", code, why, room);
}

/* move_posix moves all of a piece, in as many calls as the kernel makes of it. */
static int move_posix(struct file *f, unsigned char *at, size_t length, off_t offset, char *why, size_t room)
{
	while (length > 0) {
		ssize_t n = f->how->write ? pwrite(f->fd, at, length, offset) : pread(f->fd, at, length, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failure(f->how, f->how->write ? "write" : "read", 0, why, room);
		if (n == 0) {
			snprintf(why, room, "%s %s: it ends at byte %lld, %zu too early", f->how->write ? "write" : "read", f->how->path,
				(long long)offset, length);
			return -1;
		}
		at += n;
		length -= (size_t)n;
		offset += n;
	}
	return 0;
}

static int move_mpi(struct file *f, unsigned char *at, size_t length, off_t offset, char *why, size_t room)
{
	const struct transfer *t = f->how;
	bool all = t->api == MPIIO_COLLECTIVE;
	MPI_Status status;
	int code, moved = 0;

	if (t->write)
		code = (all ? MPI_File_write_at_all : MPI_File_write_at)(f->mpi, offset, at, (int)length, MPI_BYTE, &status);
	else
		code = (all ? MPI_File_read_at_all : MPI_File_read_at)(f->mpi, offset, at, (int)length, MPI_BYTE, &status);
	if (code != MPI_SUCCESS)
		return failure(t, t->write ? "write" : "read", code, why, room);
	MPI_Get_count(&status, MPI_BYTE, &moved);
	if ((size_t)moved != length) {
		snprintf(why, room, "%s %s by MPI: %d bytes of %zu at byte %lld", t->write ? "write" : "read", t->path, moved, length, (long long)offset);
		return -1;
	}
	return 0;
}

/* move moves one stretch of a checkpoint, a buffer's length at a time. In a collective
 * call every rank is waited for, so that one that has failed goes on calling. */
static int move(struct file *f, struct checkpoint *c, size_t offset, size_t size, char *why, size_t room)
{
	const struct transfer *t = f->how;
	size_t most = t->buffer ? t->buffer : size;
	int result = 0;

	if (t->api != POSIX && most > (1u << 30))
		most = 1u << 30; /* MPI counts in int */
	for (size_t at = 0; at < size; at += most) {
		size_t length = size - at < most ? size - at : most;
		char ignored[2];
		char *say = result == 0 ? why : ignored;
		size_t words = result == 0 ? room : sizeof(ignored);
		int code = t->api == POSIX ? move_posix(f, c->at + offset + at, length, t->base + (off_t)(offset + at), say, words) :
					     move_mpi(f, c->at + offset + at, length, t->base + (off_t)(offset + at), say, words);

		if (code != 0)
			result = -1;
		if (result != 0 && t->api != MPIIO_COLLECTIVE)
			break;
	}
	return result;
}

/* move_all moves a checkpoint field by field. Past the page cache nothing is moved
 * but whole blocks, which fields do not end with: there the pieces are cut anywhere. */
static int move_all(struct file *f, struct checkpoint *c, char *why, size_t room)
{
	int result = 0;

	if (f->how->bypassed)
		return move(f, c, 0, c->room, why, room);
	for (int s = 0; s < SECTIONS; s++) {
		char ignored[2];

		if (move(f, c, c->sections[s].offset, c->sections[s].size, result == 0 ? why : ignored, result == 0 ? room : sizeof(ignored)) != 0)
			result = -1;
		if (result != 0 && f->how->api != MPIIO_COLLECTIVE)
			break;
	}
	return result;
}

static int file_sync(struct file *f, char *why, size_t room)
{
	if (f->how->api == POSIX)
		return fsync(f->fd) == 0 ? 0 : failure(f->how, "fsync", 0, why, room);
	int code = MPI_File_sync(f->mpi);

	return code == MPI_SUCCESS ? 0 : failure(f->how, "sync", code, why, room);
}

static int file_close(struct file *f, char *why, size_t room)
{
	if (f->how->api == POSIX)
		return close(f->fd) == 0 ? 0 : failure(f->how, "close", 0, why, room);
	int code = MPI_File_close(&f->mpi);

	return code == MPI_SUCCESS ? 0 : failure(f->how, "close", code, why, room);
}

int transfer(const struct transfer *t, struct checkpoint *c, struct steps *s, char *why, size_t room)
{
	struct file f = { .how = t, .fd = -1 };
	bool collective = t->api != POSIX && t->shared;
	char ignored[2];
	int result;

	MPI_Barrier(MPI_COMM_WORLD);
	s->begun = now();
	result = file_open(&f, why, room);
	s->opened = s->moved = s->synced = s->closed = now();
	if (result != 0)
		return -1; /* where opening is collective, it fails for all */
	result = move_all(&f, c, why, room);
	s->moved = s->synced = now();
	/* MPI syncs and closes a shared file together. */
	if (t->write && t->sync && (result == 0 || collective)) {
		if (file_sync(&f, result == 0 ? why : ignored, result == 0 ? room : sizeof(ignored)) != 0)
			result = -1;
		s->synced = now();
	}
	if (file_close(&f, result == 0 ? why : ignored, result == 0 ? room : sizeof(ignored)) != 0)
		result = -1;
	s->closed = now();
	return result;
}
