/*
 * A trace is written without locks and without system calls but for one chunk in a
 * thousand records: each thread has a chunk of its own mapped, and what it wrote is in
 * the page cache, so that it outlives a process that is killed. The file is opened
 * anew for each chunk, since programs close descriptors that they do not know; it is
 * written with zeros before it is mapped, since a mapping that the disk has no room for would
 * end the program.
 */
#define _GNU_SOURCE
#include "trace.h"
#include "oldest.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPARE = 64, NAMES = 1 << 13, TEXT = 3072 };

/* thread is what a thread has of the trace. */
struct thread {
	struct chunk *chunk;
	uint32_t id;
	bool busy; /* a signal handler came between */
	bool keyed;
};

static _Thread_local struct thread me __attribute__((tls_model("initial-exec")));

static struct header *_Atomic head;
static char path[4096];
static dev_t device;
static ino_t inode;
static pthread_key_t key;
static _Atomic bool key_made;
static struct chunk *_Atomic spare[SPARE]; /* chunks of threads that ended, with room left */
static _Atomic uint64_t names[NAMES];      /* hashes of the names that have a number: their place + 1 */
static _Atomic uint32_t correlations;
static _Atomic bool stuck; /* the file cannot grow: it is not tried again */

uint64_t now(void)
{
	struct timespec t = { 0, 0 };

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint32_t thread_id(void)
{
	if (me.id == 0)
		me.id = (uint32_t)syscall(SYS_gettid);
	return me.id;
}

uint32_t next_correlation(void) { return atomic_fetch_add_explicit(&correlations, 1, memory_order_relaxed) + 1; }

void count_lost(enum lost what, uint64_t n)
{
	struct header *h = atomic_load_explicit(&head, memory_order_acquire);

	if (h != NULL)
		atomic_fetch_add_explicit(&h->losses[what], n, memory_order_relaxed);
}

static void lose(struct header *h, const struct record *r)
{
	switch (r->type) {
	case RECORD_CALL: {
		const struct call_record *c = (const struct call_record *)r;

		atomic_fetch_add_explicit(&h->losses[LOST_CALLS], 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&h->losses[LOST_CALLS_NS], c->duration, memory_order_relaxed);
		if (r->id < CALLS_COUNTED) {
			atomic_fetch_add_explicit(&h->lost_calls[r->id].count, 1, memory_order_relaxed);
			atomic_fetch_add_explicit(&h->lost_calls[r->id].ns, c->duration, memory_order_relaxed);
		}
		return;
	}
	case RECORD_WORK:
		atomic_fetch_add_explicit(&h->losses[LOST_WORK], 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&h->losses[LOST_WORK_NS], ((const struct work_record *)r)->duration, memory_order_relaxed);
		return;
	}
	atomic_fetch_add_explicit(&h->losses[LOST_OTHER], 1, memory_order_relaxed);
}

/* leave hands on the chunk of a thread that ends. */
static void leave(void *chunk)
{
	me.chunk = NULL;
	for (int i = 0; i < SPARE; i++) {
		struct chunk *none = NULL;

		if (atomic_compare_exchange_strong(&spare[i], &none, chunk))
			return;
	}
	munmap(chunk, CHUNK);
}

/*
 * reserve has the file hold zeros where it will be mapped, which makes sure of the room, and
 * costs a third of what the same pages do that are first touched in the mapping.
 */
static bool reserve(int fd, off_t at, off_t length)
{
	static const char zeros[CHUNK];
	ssize_t n;

	for (off_t done = 0; done < length; done += n) {
		n = pwrite(fd, zeros, (size_t)(length - done), at + done);
		if (n <= 0)
			return false;
	}
	return true;
}

/* map maps a part of the file, which has to be the one that was made. */
static void *map(off_t at, size_t length)
{
	struct stat s;
	void *p = MAP_FAILED;
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return MAP_FAILED;
	if (syscall(SYS_fstat, fd, &s) == 0 && s.st_dev == device && s.st_ino == inode && reserve(fd, at, (off_t)length))
		p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
	close(fd);
	return p;
}

static struct chunk *claim(struct header *h)
{
	struct chunk *c;
	uint64_t n;

	if (atomic_load_explicit(&stuck, memory_order_relaxed))
		return NULL;

	for (int i = 0; i < SPARE; i++)
		if (atomic_load_explicit(&spare[i], memory_order_relaxed) != NULL &&
		    (c = atomic_exchange(&spare[i], NULL)) != NULL)
			return c;
	if (atomic_load_explicit(&h->chunks, memory_order_relaxed) >= h->most_chunks)
		return NULL;
	n = atomic_fetch_add(&h->chunks, 1);
	if (n >= h->most_chunks)
		return NULL;
	c = map((off_t)(HEADER + n * CHUNK), CHUNK);
	if (c == MAP_FAILED) {
		atomic_store(&stuck, true);
		return NULL;
	}
	atomic_store_explicit(&c->used, sizeof(*c), memory_order_relaxed);
	c->magic = CHUNK_MAGIC;
	return c;
}

/* room gives where so many bytes can be written; NULL where there is no room. */
static void *room(struct header *h, size_t bytes)
{
	const int kept = errno;
	struct chunk *c = me.chunk;

	if (c != NULL && atomic_load_explicit(&c->used, memory_order_relaxed) + bytes > CHUNK) {
		munmap(c, CHUNK);
		c = me.chunk = NULL;
	}
	while (c == NULL) {
		c = claim(h);
		if (c == NULL) {
			errno = kept;
			return NULL;
		}
		if (atomic_load_explicit(&c->used, memory_order_relaxed) + bytes > CHUNK) {
			munmap(c, CHUNK);
			c = NULL;
			continue;
		}
		me.chunk = c;
		pthread_setspecific(key, c);
		errno = kept;
	}
	return (unsigned char *)c + atomic_load_explicit(&c->used, memory_order_relaxed);
}

static void put(const struct record *r, const void *text, size_t length)
{
	struct header *h = atomic_load_explicit(&head, memory_order_acquire);
	unsigned char *to;

	if (h == NULL || atomic_load_explicit(&h->closed, memory_order_relaxed))
		return;
	if (me.busy || (to = (me.busy = true, room(h, r->size))) == NULL) {
		lose(h, r);
		me.busy = false;
		return;
	}
	if (length == 0) {
		memcpy(to, r, r->size);
	} else {
		memcpy(to, r, sizeof(struct name_record));
		memcpy(to + sizeof(struct name_record), text, length);
		memset(to + sizeof(struct name_record) + length, 0, r->size - sizeof(struct name_record) - length);
	}
	atomic_store_explicit(&me.chunk->used, (uint64_t)(to - (unsigned char *)me.chunk) + r->size, memory_order_release);
	me.busy = false;
}

void trace_put(const struct record *record) { put(record, NULL, 0); }

void trace_text(enum name_space space, uint32_t id, const char *text, size_t length)
{
	struct name_record n = { { RECORD_NAME, 0, 0, id }, space, 0 };

	if (length > TEXT)
		length = TEXT;
	n.length = (uint32_t)length;
	n.head.size = (uint16_t)(sizeof(n) + (length + 7) / 8 * 8);
	put(&n.head, text, length);
}

static void say(enum name_space space, const char *format, va_list args)
{
	char text[512];
	int n = vsnprintf(text, sizeof(text), format, args);

	if (n > 0)
		trace_text(space, 0, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

void complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(NAME_COMPLAINT, format, args);
	va_end(args);
}

void fact(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(NAME_FACT, format, args);
	va_end(args);
}

/* FNV-1a; 0 stands for none. */
static uint64_t hash(const char *text)
{
	uint64_t h = 14695981039346656037u;

	for (; *text != '\0'; text++)
		h = (h ^ (unsigned char)*text) * 1099511628211u;
	return h == 0 ? 1 : h;
}

uint32_t function_name(const char *name)
{
	const uint64_t h = hash(name);

	for (uint32_t i = 0; i < 64; i++) {
		uint32_t at = (uint32_t)(h + i) % NAMES;
		uint64_t there = atomic_load_explicit(&names[at], memory_order_acquire);

		if (there == 0 && atomic_compare_exchange_strong(&names[at], &there, h)) {
			trace_text(NAME_FUNCTION, at + 1, name, strlen(name));
			return at + 1;
		}
		if (there == h)
			return at + 1;
	}
	return 0;
}

/* tell appends a file of /proc/self. */
static void tell(enum name_space space, const char *file)
{
	char text[TEXT];
	ssize_t n;

	if (space == NAME_PROGRAM) {
		n = readlink(file, text, sizeof(text));
	} else {
		int fd = open(file, O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			return;
		n = read(fd, text, sizeof(text));
		close(fd);
	}
	if (n > 0)
		trace_text(space, 0, text, (size_t)n);
}

static bool refuse(const char *dir, const char *what)
{
	fprintf(stderr, "tare: no trace of the GPU in %s: %s: %s\n", dir, what, strerror(errno));
	return false;
}

bool trace_open(const char *dir, uint64_t most_bytes, uint32_t sample)
{
	struct header *h;
	struct timespec real = { 0, 0 };
	struct stat s;
	int fd = -1;

	if (dir[0] != '/') {
		errno = EINVAL;
		return refuse(dir, "TARE_GPU_TRACE is not an absolute path");
	}
	if (!atomic_load(&key_made)) {
		if (pthread_key_create(&key, leave) != 0)
			return refuse(dir, "no key for a thread's own");
		atomic_store(&key_made, true);
	}
	for (unsigned try = 0; fd < 0 && try < 16; try++) {
		int n = snprintf(path, sizeof(path), "%s/%ld-%llu.gputrace", dir, (long)getpid(), (unsigned long long)now() + try);

		if (n < 0 || n >= (int)sizeof(path)) {
			errno = ENAMETOOLONG;
			return refuse(dir, "the path is too long");
		}
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
		if (fd < 0 && errno != EEXIST)
			return refuse(dir, "no file can be made");
	}
	if (fd < 0)
		return refuse(dir, "no file can be made");
	if (syscall(SYS_fstat, fd, &s) != 0 || !reserve(fd, 0, HEADER) ||
	    (h = mmap(NULL, HEADER, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) {
		refuse(dir, "its head cannot be written");
		close(fd);
		unlink(path);
		return false;
	}
	close(fd);
	device = s.st_dev;
	inode = s.st_ino;

	clock_gettime(CLOCK_REALTIME, &real);
	h->header_bytes = HEADER;
	h->chunk_bytes = CHUNK;
	h->pid = (uint32_t)getpid();
	h->parent = (uint32_t)getppid();
	h->began = now();
	h->began_real = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
	h->most_chunks = most_bytes / CHUNK;
	h->sample = sample;
	h->version = FORMAT;
	memcpy(h->magic, "TAREGPU", sizeof(h->magic));
	atomic_store_explicit(&head, h, memory_order_release);

	tell(NAME_PROGRAM, "/proc/self/exe");
	tell(NAME_ARGUMENTS, "/proc/self/cmdline");
	return true;
}

void trace_method(enum method method)
{
	struct header *h = atomic_load(&head);

	if (h != NULL)
		atomic_store(&h->method, (uint32_t)method);
}

/* Threads may be at their chunks: what is mapped stays so until the process ends. */
void trace_close(bool at_once)
{
	struct header *h = atomic_load(&head);

	if (h == NULL || atomic_load(&h->closed))
		return;
	atomic_store(&h->ended, now());
	atomic_store(&h->closed, at_once ? 2 : 1);
}

bool trace_is_ours(void)
{
	struct header *h = atomic_load(&head);

	return h != NULL && h->pid == (uint32_t)getpid();
}

void trace_forget(void)
{
	struct header *h = atomic_exchange(&head, NULL);

	for (int i = 0; i < SPARE; i++) {
		struct chunk *c = atomic_exchange(&spare[i], NULL);

		if (c != NULL)
			munmap(c, CHUNK);
	}
	if (me.chunk != NULL)
		munmap(me.chunk, CHUNK);
	if (atomic_load(&key_made))
		pthread_setspecific(key, NULL);
	memset(&me, 0, sizeof(me));
	for (int i = 0; i < NAMES; i++)
		atomic_store_explicit(&names[i], 0, memory_order_relaxed);
	atomic_store(&correlations, 0);
	atomic_store(&stuck, false);
	if (h != NULL)
		munmap(h, HEADER);
}
