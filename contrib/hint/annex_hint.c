//go:build ignore

/*
 * The line above is for Go's tools, which would refuse a source in C beside the tests.
 *
 * annex_hint asks for what is in swap of a program's memory when a request comes after
 * sleep. The header says what the functions do; README.md has the variables of the
 * environment by which programs that call none of them have the same by LD_PRELOAD.
 *
 * What is away is found in two steps. mincore(2) tells for each page whether it is in
 * memory. Of private anonymous memory it looks at the page table, and for an entry of
 * swap into the swap cache (mincore_pte_range of mm/mincore.c): a page that has been
 * written to swap and is still in memory counts as resident, as does one that was read
 * and not touched since. A page that was never touched is not resident either, and is
 * nothing to bring: /proc/self/pagemap tells those two apart (bit 62), and is read of
 * what is not resident alone, since it costs more. Where it cannot be read, advice is
 * given on both, and the kernel passes by what was never touched (swapin_walk_pmd_entry
 * of mm/madvise.c).
 *
 * Nothing here waits for a thread of the program, allocates memory or holds a lock of the
 * C library, so that all of it may run in a signal handler: the state is in static tables
 * behind two flags that are tried, and passed by where another has them. What is lost then
 * is a hint. Files are read by system calls of its own, since the C library's end a thread
 * that was cancelled, here with a flag in its hand.
 *
 * Sources: mincore(2), madvise(2), mmap(2), proc(5), signal-safety(7).
 */
#undef _FORTIFY_SOURCE   /* whose inline functions would take the place of those below */
#undef _FILE_OFFSET_BITS /* by which mmap would be another name of mmap64 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "annex_hint.h"

#if __SIZEOF_POINTER__ != 8
#error "libannexhint is for machines of 64 bits: build it for one"
#endif

enum {
	WINDOW = 4096,    /* pages that are looked at in one go */
	ENTRIES = 512,    /* of the page map that are read in one go */
	CHUNK = 64,       /* pages at most in one call: other faults of the program come between */
	GAP = 2,          /* pages that are in memory and are bridged: what lies apart costs more */
	SPARE_MS = 10,    /* after a look there is no other for so long */
	REREAD_MS = 1000, /* nor another reading of the mappings */
};

/* Settings, made once before the program's own main, and constant then. */
static bool off;                 /* a variable has a bad value */
static bool preloading;          /* ANNEX_HINT is 1 */
static uint64_t least = 1 << 20; /* bytes of a mapping that is registered by itself */
static uint64_t most = 64 << 20; /* bytes of such that are asked for at a time */
static uint64_t idle_ms = 1000;  /* of waiting after which a program has slept */

/* An arena is a range of whole pages; of an empty place the length is 0. */
struct arena {
	uintptr_t start;
	size_t length; /* bytes */
	bool told;     /* by annex_arena, not found */
};

static struct arena table[ANNEX_ARENAS];
static atomic_bool held;        /* somebody is at the table */
static atomic_bool looking;     /* somebody looks for what is away */
static _Atomic uint64_t looked; /* when, last; ms */

static bool hold(void) { return !atomic_exchange_explicit(&held, true, memory_order_acquire); }

static void release(void) { atomic_store_explicit(&held, false, memory_order_release); }

static size_t page_size(void)
{
	static _Atomic size_t known;
	size_t size = atomic_load_explicit(&known, memory_order_relaxed);

	if (size == 0) {
		size = (size_t)sysconf(_SC_PAGESIZE);
		atomic_store_explicit(&known, size, memory_order_relaxed);
	}
	return size;
}

/* now_ms is as exact as the kernel's tick, and costs no more than reading memory. */
static uint64_t now_ms(void)
{
	struct timespec t = { 0, 0 };

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* --- The table ------------------------------------------------------------------------ */

static uintptr_t end_of(struct arena a) { return a.start + a.length; }

static bool inside(struct arena a, struct arena b) { return a.start >= b.start && end_of(a) <= end_of(b); }

/* touches tells whether two ranges overlap or lie side by side. */
static bool touches(struct arena a, struct arena b) { return a.start <= end_of(b) && b.start <= end_of(a); }

/*
 * put registers a range. Found ranges that touch become one; what was told replaces what
 * lies within it. Where all places are taken the shortest found one gives way, to a longer
 * one or to one that was told. False is that there was no place.
 */
static bool put(struct arena to[ANNEX_ARENAS], struct arena range)
{
	struct arena *place = NULL;

	for (struct arena *a = to; a < to + ANNEX_ARENAS; a++) {
		if (a->length == 0)
			continue;
		if (a->told) {
			if (!range.told && inside(range, *a))
				return true;
			if (range.told && range.start == a->start)
				a->length = 0;
		} else if (range.told ? inside(*a, range) : touches(*a, range)) {
			if (!range.told) {
				uintptr_t end = end_of(*a) > end_of(range) ? end_of(*a) : end_of(range);

				if (a->start < range.start)
					range.start = a->start;
				range.length = end - range.start;
			}
			a->length = 0;
		}
	}
	for (struct arena *a = to; a < to + ANNEX_ARENAS; a++) {
		if (a->length == 0) {
			place = a;
			break;
		}
		if (!a->told && (place == NULL || a->length < place->length))
			place = a;
	}
	if (place == NULL || (place->length > 0 && !range.told && place->length >= range.length))
		return false;
	*place = range;
	return true;
}

/*
 * take takes a range out of those that were found; of one that it cuts in two the longer
 * part stays. True is that there was something to take. What was told stays until it is
 * forgotten.
 */
static bool take(struct arena from[ANNEX_ARENAS], uintptr_t start, size_t length)
{
	uintptr_t end = start + length;
	bool took = false;

	if (length == 0)
		return false;

	for (struct arena *a = from; a < from + ANNEX_ARENAS; a++) {
		uintptr_t last = end_of(*a);
		size_t before, behind;

		if (a->length == 0 || a->told || start >= last || end <= a->start)
			continue;
		took = true;
		before = start > a->start ? start - a->start : 0;
		behind = end < last ? last - end : 0;
		if (before >= behind) {
			a->length = before;
		} else {
			a->start = end;
			a->length = behind;
		}
		if (a->length < least)
			a->length = 0;
	}
	return took;
}

/* --- What the program has mapped ------------------------------------------------------ */

/* hexadecimal and decimal read a number and leave text behind it. */
static uint64_t hexadecimal(const char **text)
{
	uint64_t n = 0;

	for (;; (*text)++) {
		char c = **text;

		if (c >= '0' && c <= '9')
			n = n << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			n = n << 4 | (uint64_t)(c - 'a' + 10);
		else
			return n;
	}
}

static uint64_t decimal(const char **text)
{
	uint64_t n = 0;

	for (; **text >= '0' && **text <= '9'; (*text)++)
		n = n * 10 + (uint64_t)(**text - '0');
	return n;
}

static void pass_spaces(const char **text)
{
	while (**text == ' ')
		(*text)++;
}

static void pass_field(const char **text)
{
	pass_spaces(text);
	while (**text != ' ' && **text != '\0')
		(*text)++;
}

/*
 * private_anonymous reads a line of /proc/self/maps, and tells whether it is of memory that
 * leaves for swap and is the program's own to write: its heap, what malloc and mmap give,
 * and not its stack.
 */
static bool private_anonymous(const char *line, struct arena *range)
{
	uint64_t start, end;

	start = hexadecimal(&line);
	if (*line != '-')
		return false;
	line++;
	end = hexadecimal(&line);
	if (*line != ' ' || end <= start)
		return false;
	line++;
	/* rwxp */
	if (line[0] == '\0' || line[1] != 'w' || line[2] == '\0' || line[3] != 'p')
		return false;
	line += 4;
	pass_field(&line); /* the offset */
	pass_field(&line); /* the device */
	pass_spaces(&line);
	if (*line != '0') /* the inode */
		return false;
	line++;
	pass_spaces(&line);
	*range = (struct arena){ (uintptr_t)start, (size_t)(end - start), false };
	return *line == '\0' || strcmp(line, "[heap]") == 0 || strncmp(line, "[anon:", 6) == 0;
}

static int open_own(const char *path) { return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC); }

static void close_own(int fd) { (void)syscall(SYS_close, fd); }

/* fill reads more of a file. */
static ssize_t fill(int fd, char *to, size_t room)
{
	long n;

	do
		n = syscall(SYS_read, fd, to, room);
	while (n < 0 && errno == EINTR);
	return (ssize_t)n;
}

/* data_pages is how many pages of its own the program has mapped; 0 where it is not told. */
static uint64_t data_pages(void)
{
	char text[128];
	const char *at = text;
	ssize_t n;
	int fd = open_own("/proc/self/statm");

	if (fd < 0)
		return 0;
	n = fill(fd, text, sizeof(text) - 1);
	close_own(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	for (int field = 1; field < 6; field++)
		pass_field(&at);
	pass_spaces(&at);
	return decimal(&at);
}

/* read_maps lists the longest of the program's mappings. Only who looks may call it. */
static bool read_maps(struct arena to[ANNEX_ARENAS])
{
	static char text[4096];
	char line[160]; /* of a longer one the rest is a file's name */
	size_t have = 0;
	ssize_t n;
	int fd = open_own("/proc/self/maps");

	if (fd < 0)
		return false;
	memset(to, 0, ANNEX_ARENAS * sizeof(to[0]));
	while ((n = fill(fd, text, sizeof(text))) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			struct arena range;

			if (text[i] != '\n') {
				if (have < sizeof(line) - 1)
					line[have++] = text[i];
				continue;
			}
			line[have] = '\0';
			have = 0;
			if (private_anonymous(line, &range) && range.length >= least)
				put(to, range);
		}
	}
	close_own(fd);
	return n == 0;
}

/*
 * find registers what the program has mapped, where that has changed since the mappings
 * were last read: the C library's own calls of mmap and brk pass by those below. Only
 * who looks may call it.
 */
static void find(uint64_t now)
{
	static struct arena seen[ANNEX_ARENAS];
	static uint64_t known; /* pages, when they were last read */
	static uint64_t at;    /* ms */
	uint64_t data = data_pages();

	if (data == 0 || data == known || (at != 0 && now - at < REREAD_MS))
		return;
	at = now;
	if (!read_maps(seen) || !hold())
		return;
	for (size_t i = 0; i < ANNEX_ARENAS; i++)
		if (!table[i].told)
			table[i].length = 0;
	for (size_t i = 0; i < ANNEX_ARENAS; i++)
		if (seen[i].length > 0)
			put(table, seen[i]);
	release();
	known = data;
}

/* --- What is away --------------------------------------------------------------------- */

/* What the look that is under way knows of a window: 1 for each page that needs no advice. */
static unsigned char there[WINDOW];

/* The page map, which is opened when it is first wanted in a look. */
enum { UNOPENED = -2 };
static int page_map = UNOPENED;

/* settle marks what is not resident since it was never touched as in need of no advice. */
static void settle(uintptr_t at, size_t pages)
{
	static uint64_t entry[ENTRIES];
	const size_t first = at / page_size();

	if (page_map == UNOPENED)
		page_map = open_own("/proc/self/pagemap");
	if (page_map < 0)
		return;
	for (size_t done = 0; done < pages;) {
		size_t n = pages - done < ENTRIES ? pages - done : ENTRIES;

		if (memchr(there + done, 0, n) != NULL) {
			long got = syscall(SYS_pread64, page_map, entry, n * sizeof(entry[0]), (off_t)((first + done) * sizeof(entry[0])));

			if (got < (long)sizeof(entry[0]))
				return;
			n = (size_t)got / sizeof(entry[0]);
			for (size_t i = 0; i < n; i++)
				if (!(entry[i] >> 62 & 1))
					there[done + i] = 1;
		}
		done += n;
	}
}

/* ask gives advice on what is away of a window, up to about so many pages. */
static size_t ask(uintptr_t at, size_t pages, size_t up_to)
{
	const size_t size = page_size();
	size_t asked = 0;

	for (size_t i = 0; i < pages; i++)
		there[i] &= 1;
	if (memchr(there, 0, pages) == NULL)
		return 0;
	settle(at, pages);
	for (size_t i = 0; i < pages && asked < up_to;) {
		size_t past = i + 1; /* behind the last page that is away */

		if (there[i]) {
			i++;
			continue;
		}
		for (size_t j = past; j < pages && j < i + CHUNK && j - past <= GAP; j++)
			if (!there[j])
				past = j + 1;
		(void)madvise((void *)(at + i * size), (past - i) * size, MADV_WILLNEED);
		asked += past - i;
		i = past;
	}
	return asked;
}

/*
 * bring asks for what is away of a range, up to about so many pages, and gives how many it
 * asked for. A window in which something is not mapped any more is passed by.
 */
static size_t bring(struct arena range, size_t up_to)
{
	const size_t size = page_size();
	size_t asked = 0;

	for (uintptr_t at = range.start; at < end_of(range) && asked < up_to;) {
		size_t pages = (end_of(range) - at) / size;

		if (pages > WINDOW)
			pages = WINDOW;
		if (pages == 0)
			break;
		if (mincore((void *)at, pages * size, there) == 0)
			asked += ask(at, pages, up_to - asked);
		at += pages * size;
	}
	return asked;
}

/* look asks for what is away of every arena, those that were told first. */
static void look(bool slept)
{
	static struct arena here[ANNEX_ARENAS];
	const int kept = errno;
	const uint64_t now = now_ms();
	size_t left = most / page_size();

	if (now - atomic_load_explicit(&looked, memory_order_relaxed) < SPARE_MS)
		return;
	if (atomic_exchange_explicit(&looking, true, memory_order_acquire))
		return;
	if (slept)
		find(now);
	if (hold()) {
		memcpy(here, table, sizeof(here));
		release();
		for (size_t i = 0; i < ANNEX_ARENAS; i++)
			if (here[i].length > 0 && here[i].told)
				bring(here[i], SIZE_MAX);
		for (size_t i = 0; i < ANNEX_ARENAS && left > 0; i++)
			if (here[i].length > 0 && !here[i].told) {
				size_t asked = bring(here[i], left);

				left -= asked < left ? asked : left;
			}
		if (page_map >= 0)
			close_own(page_map);
		page_map = UNOPENED;
	}
	atomic_store_explicit(&looked, now_ms(), memory_order_relaxed);
	atomic_store_explicit(&looking, false, memory_order_release);
	errno = kept;
}

/* --- For programs that call it -------------------------------------------------------- */

static int refuse(int why)
{
	errno = why;
	return -1;
}

/* align_up gives 0 past the end of memory. */
static uintptr_t align_up(uintptr_t address)
{
	return (address + page_size() - 1) & ~(uintptr_t)(page_size() - 1);
}

int annex_arena(void *start, size_t length)
{
	const uintptr_t given = (uintptr_t)start, first = align_up(given);
	const uintptr_t end = (given + length) & ~(uintptr_t)(page_size() - 1);
	bool done;

	if (off)
		return refuse(ENOTSUP);
	if (given + length < given || first < given || end <= first)
		return refuse(EINVAL);
	if (!hold())
		return refuse(EBUSY);
	done = put(table, (struct arena){ first, end - first, true });
	release();
	return done ? 0 : refuse(ENOSPC);
}

int annex_forget(void *start)
{
	const uintptr_t first = align_up((uintptr_t)start);
	bool done = false;

	if (off)
		return refuse(ENOTSUP);
	if (!hold())
		return refuse(EBUSY);
	for (struct arena *a = table; a < table + ANNEX_ARENAS; a++)
		if (a->length > 0 && a->told && a->start == first) {
			a->length = 0;
			done = true;
		}
	release();
	return done ? 0 : refuse(ENOENT);
}

void annex_request(void)
{
	if (!off)
		look(false);
}

/* --- For programs that do not: what they map ------------------------------------------ */

/* The functions behind those below; none until begin has found them. */
static _Atomic(__typeof__(&mmap)) behind_mmap;
static _Atomic(__typeof__(&munmap)) behind_munmap;
static _Atomic(__typeof__(&mremap)) behind_mremap;

static void mapped(void *start, size_t length, int prot, int flags)
{
	if (!preloading || start == MAP_FAILED || length < least || !(prot & PROT_WRITE))
		return;
	if (!(flags & MAP_ANONYMOUS) || (flags & MAP_TYPE) != MAP_PRIVATE || (flags & (MAP_STACK | MAP_GROWSDOWN | MAP_HUGETLB)))
		return;
	if (!hold())
		return;
	put(table, (struct arena){ (uintptr_t)start, align_up(length), false });
	release();
}

void *mmap(void *address, size_t length, int prot, int flags, int fd, off_t offset)
{
	__typeof__(&mmap) behind = atomic_load_explicit(&behind_mmap, memory_order_relaxed);
	void *start;

	if (behind != NULL)
		start = behind(address, length, prot, flags, fd, offset);
	else
		start = (void *)syscall(SYS_mmap, address, length, prot, flags, fd, offset);
	mapped(start, length, prot, flags);
	return start;
}

void *mmap64(void *address, size_t length, int prot, int flags, int fd, off64_t offset)
{
	return mmap(address, length, prot, flags, fd, offset);
}

int munmap(void *start, size_t length)
{
	__typeof__(&munmap) behind = atomic_load_explicit(&behind_munmap, memory_order_relaxed);

	/* Before, since afterwards another thread may be given the same addresses. */
	if (preloading && hold()) {
		take(table, (uintptr_t)start, align_up(length));
		release();
	}
	if (behind != NULL)
		return behind(start, length);
	return (int)syscall(SYS_munmap, start, length);
}

void *mremap(void *old, size_t old_length, size_t length, int flags, ...)
{
	__typeof__(&mremap) behind = atomic_load_explicit(&behind_mremap, memory_order_relaxed);
	void *address = NULL, *start;
	va_list more;

	if (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) {
		va_start(more, flags);
		address = va_arg(more, void *);
		va_end(more);
	}
	if (behind != NULL)
		start = behind(old, old_length, length, flags, address);
	else
		start = (void *)syscall(SYS_mremap, old, old_length, length, flags, address);
	if (preloading && start != MAP_FAILED && hold()) {
		/* Only what was found is known to be anonymous. */
		if (take(table, (uintptr_t)old, align_up(old_length)) && length >= least)
			put(table, (struct arena){ (uintptr_t)start, align_up(length), false });
		release();
	}
	return start;
}

/* --- For programs that do not: where they wait ---------------------------------------- */

/* How long this thread has waited since the last event, ms. */
static _Thread_local __attribute__((tls_model("initial-exec"))) uint64_t slept;

static uint64_t waits(void) { return preloading ? now_ms() : 0; }

/*
 * waited is called when a wait that began then has ended. One that ran out of time adds to
 * the sleep and does not end it: programs wake so by themselves, many times a second, and
 * what they do then is not a request.
 */
static void waited(uint64_t began, bool event)
{
	if (!preloading)
		return;
	slept += now_ms() - began;
	if (!event)
		return;
	if (slept >= idle_ms)
		look(true);
	slept = 0;
}

/* from_peer tells whether a file is one from which requests come: a socket or a pipe. */
static bool from_peer(int fd)
{
	struct stat st;
	const int kept = errno;
	const bool is = fstat(fd, &st) == 0 && (S_ISSOCK(st.st_mode) || S_ISFIFO(st.st_mode));

	errno = kept;
	return is;
}

/* received is the same for a read: one that did not wait says nothing of sleep. */
static void received(int fd, uint64_t began, bool event)
{
	if (preloading && now_ms() > began && from_peer(fd))
		waited(began, event);
}

/* BEHIND defines the function that finds the one behind that of a name. */
#define BEHIND(name) \
	static __typeof__(&name) behind_##name(void) \
	{ \
		static _Atomic(__typeof__(&name)) known; \
		__typeof__(&name) behind = atomic_load_explicit(&known, memory_order_relaxed); \
\
		if (behind == NULL) { \
			behind = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
			atomic_store_explicit(&known, behind, memory_order_relaxed); \
		} \
		return behind; \
	}

BEHIND(poll)
BEHIND(ppoll)
BEHIND(epoll_wait)
BEHIND(epoll_pwait)
BEHIND(select)
BEHIND(accept)
BEHIND(accept4)
BEHIND(recv)
BEHIND(read)

int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	const uint64_t began = waits();
	const int events = behind_poll()(fds, n, timeout);

	waited(began, events > 0);
	return events;
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	const uint64_t began = waits();
	const int events = behind_ppoll()(fds, n, timeout, mask);

	waited(began, events > 0);
	return events;
}

int epoll_wait(int epoll, struct epoll_event *event, int n, int timeout)
{
	const uint64_t began = waits();
	const int events = behind_epoll_wait()(epoll, event, n, timeout);

	waited(began, events > 0);
	return events;
}

int epoll_pwait(int epoll, struct epoll_event *event, int n, int timeout, const sigset_t *mask)
{
	const uint64_t began = waits();
	const int events = behind_epoll_pwait()(epoll, event, n, timeout, mask);

	waited(began, events > 0);
	return events;
}

int select(int n, fd_set *restrict reading, fd_set *restrict writing, fd_set *restrict failing, struct timeval *restrict timeout)
{
	const uint64_t began = waits();
	const int events = behind_select()(n, reading, writing, failing, timeout);

	waited(began, events > 0);
	return events;
}

int accept(int fd, struct sockaddr *address, socklen_t *length)
{
	const uint64_t began = waits();
	const int peer = behind_accept()(fd, address, length);

	waited(began, peer >= 0);
	return peer;
}

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
	const uint64_t began = waits();
	const int peer = behind_accept4()(fd, address, length, flags);

	waited(began, peer >= 0);
	return peer;
}

ssize_t recv(int fd, void *to, size_t room, int flags)
{
	const uint64_t began = waits();
	const ssize_t got = behind_recv()(fd, to, room, flags);

	received(fd, began, got >= 0);
	return got;
}

ssize_t read(int fd, void *to, size_t room)
{
	const uint64_t began = waits();
	const ssize_t got = behind_read()(fd, to, room);

	received(fd, began, got >= 0);
	return got;
}

/* --- The environment ------------------------------------------------------------------ */

static void append(char *line, size_t room, const char *text, size_t at_most)
{
	size_t have = strlen(line);

	for (size_t i = 0; text[i] != '\0' && i < at_most && have < room - 1; i++)
		line[have++] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	line[have] = '\0';
}

/* complain writes one line: which variable, what it says, and what to write instead. */
static void complain(const char *name, const char *value, const char *want)
{
	char line[320] = "";
	const size_t room = sizeof(line) - 1; /* and one for the line's end */
	size_t length;

	append(line, room, "libannexhint: ", SIZE_MAX);
	append(line, room, name, SIZE_MAX);
	append(line, room, " is \"", SIZE_MAX);
	append(line, room, value, 60);
	append(line, room, "\": want ", SIZE_MAX);
	append(line, room, want, SIZE_MAX);
	append(line, room, "; no hints are given", SIZE_MAX);
	length = strlen(line);
	line[length++] = '\n';
	if (write(STDERR_FILENO, line, length) < 0)
		return; /* nobody is there to read it */
}

/* number reads digits, eighteen of them at most, and leaves text behind them. */
static bool number(const char **text, uint64_t *n)
{
	const char *first = *text;

	*n = decimal(text);
	return *text > first && *text - first <= 18;
}

/* size_of reads bytes, or a size with its unit. */
static bool size_of(const char *text, uint64_t *bytes)
{
	static const struct {
		const char *unit;
		int shift;
	} units[] = { { "", 0 }, { "B", 0 }, { "KiB", 10 }, { "MiB", 20 }, { "GiB", 30 } };
	uint64_t n;

	if (!number(&text, &n))
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(text, units[i].unit) == 0 && n <= UINT64_MAX >> units[i].shift) {
			*bytes = n << units[i].shift;
			return *bytes >= 4096 && *bytes <= UINT64_C(1) << 40;
		}
	return false;
}

static bool configure(void)
{
	static const char size[] = "bytes, or a size such as 512KiB, from 4KiB to 1024GiB";
	const char *value = getenv("ANNEX_HINT"), *rest;
	bool asked = false;

	if (value != NULL && strcmp(value, "0") != 0 && strcmp(value, "1") != 0) {
		complain("ANNEX_HINT", value, "1, or 0");
		return false;
	}
	asked = value != NULL && *value == '1';
	value = getenv("ANNEX_HINT_LEAST");
	if (value != NULL && !size_of(value, &least)) {
		complain("ANNEX_HINT_LEAST", value, size);
		return false;
	}
	value = getenv("ANNEX_HINT_MOST");
	if (value != NULL && !size_of(value, &most)) {
		complain("ANNEX_HINT_MOST", value, size);
		return false;
	}
	value = rest = getenv("ANNEX_HINT_IDLE_MS");
	if (value != NULL && (!number(&rest, &idle_ms) || *rest != '\0' || idle_ms < 1 || idle_ms > 86400000)) {
		complain("ANNEX_HINT_IDLE_MS", value, "milliseconds from 1 to 86400000");
		return false;
	}
	preloading = asked;
	return true;
}

/* forked sets free in a child what a thread had that is not in it. */
static void forked(void)
{
	atomic_store(&held, false);
	atomic_store(&looking, false);
	page_map = UNOPENED; /* where one is open it stays so: a descriptor, until the child ends */
}

__attribute__((constructor)) static void begin(void)
{
	atomic_store(&behind_mmap, (__typeof__(&mmap))dlsym(RTLD_NEXT, "mmap"));
	atomic_store(&behind_munmap, (__typeof__(&munmap))dlsym(RTLD_NEXT, "munmap"));
	atomic_store(&behind_mremap, (__typeof__(&mremap))dlsym(RTLD_NEXT, "mremap"));
	/* Now, since finding them is not for signal handlers. */
	behind_poll();
	behind_ppoll();
	behind_epoll_wait();
	behind_epoll_pwait();
	behind_select();
	behind_accept();
	behind_accept4();
	behind_recv();
	behind_read();
	if (pthread_atfork(NULL, NULL, forked) != 0)
		return; /* a child may then give no hints */
	off = !configure();
}
