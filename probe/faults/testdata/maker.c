// Takes page faults of one kind, a known number of them, for the tests of
// probe/faults. It maps what it needs, says "ready", waits for a line, takes the
// faults, and says where:
//
//	done START LENGTH MINOR MAJOR NANOSECONDS
//
// with the kernel's own count of its faults since "ready", and its CPU time. Then it waits for
// another line, and ends.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

#define PAGE 4096UL
// A read fault maps the pages around it that are in the page cache, in windows of 16.
#define AROUND 16UL

static unsigned long pages;
static volatile char *at;
static unsigned long length;
static char line[256];

static void fail(const char *what)
{
	fprintf(stderr, "maker: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void say(const char *text, size_t size)
{
	if (write(1, text, size) < 0)
		fail("write");
}

static void await(void)
{
	do {
		if (read(0, line, 1) != 1)
			exit(0); // the test is gone
	} while (line[0] != '\n');
}

static void map(size_t size, int protection, int flags, int fd)
{
	at = mmap((void *)0, size, protection, flags, fd, 0);
	if (at == MAP_FAILED)
		fail("mmap");
	length = size;
	madvise((void *)at, size, MADV_NOHUGEPAGE);
}

static void map_at(unsigned long where, size_t size, int protection, int flags, int fd)
{
	at = mmap((void *)where, size, protection, flags | MAP_FIXED, fd, 0);
	if (at == MAP_FAILED)
		fail("mmap");
	length = size;
}

static void reads(unsigned long step)
{
	for (unsigned long i = 0; i < pages; i++)
		(void)at[i * step * PAGE];
}

static void writes(unsigned long step)
{
	for (unsigned long i = 0; i < pages; i++)
		at[i * step * PAGE] = 1;
}

static int file(const char *name, size_t size)
{
	int fd = open(name, O_RDWR | O_CREAT, 0600);
	if (fd < 0)
		fail(name);
	static char page[PAGE];
	memset(page, 7, PAGE);
	for (size_t i = 0; i < size / PAGE; i++)
		if (pwrite(fd, page, PAGE, i * PAGE) != (ssize_t)PAGE)
			fail(name);
	// Clean pages, so that a shared mapping hears of the first write.
	if (fsync(fd))
		fail(name);
	return fd;
}

static sigjmp_buf back;

static void caught(int signal)
{
	(void)signal;
	siglongjmp(back, 1);
}

static void catch(void)
{
	static char stack[65536];
	stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
	memset(stack, 0, sizeof(stack));
	sigaltstack(&other, NULL);
	struct sigaction action = {.sa_handler = caught, .sa_flags = SA_NODEFER | SA_ONSTACK};
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
}

static void refused(int write)
{
	for (volatile unsigned long i = 0; i < pages; i++)
		if (!sigsetjmp(back, 1)) {
			if (write)
				at[i * PAGE] = 1;
			else
				(void)at[i * PAGE];
		}
}

// Touches the pages below what of the stack is in use; it grows for most.
static void grow(void)
{
	char here;
	unsigned long page = (unsigned long)&here & ~(PAGE - 1);
	// What is below may have been used before main.
	page -= 16 * PAGE;
	at = (char *)page;
	for (unsigned long i = 0; i < pages; i++)
		*(at -= PAGE) = 1;
	length = pages * PAGE;
}

// Maps, touches and unmaps 16 pages, as often as there are pages.
static void *loop(void *unused)
{
	for (unsigned long i = 0; i < pages; i++) {
		char *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (int k = 0; k < 16; k++)
			((volatile char *)p)[k * PAGE] = 1;
		munmap(p, 16 * PAGE);
	}
	return unused;
}

static long processor_time(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	const char *kind = argv[1];
	pages = strtoul(argv[2], NULL, 10);
	const char *name = argc > 3 ? argv[3] : NULL;
	unsigned long where = argc > 4 ? strtoul(argv[4], NULL, 0) : 0;
	int fd = -1;
	const int rw = PROT_READ | PROT_WRITE;
	struct rusage before, after;
	// What the two need themselves is there before.
	getrusage(RUSAGE_SELF, &before);
	getrusage(RUSAGE_SELF, &after);
	memset(line, 0, sizeof(line));
	snprintf(line, sizeof(line), "%lx %lx %ld %ld %ld\n", pages, pages, after.ru_minflt, after.ru_majflt, processor_time());

#define IS(k) (!strcmp(kind, k))
	if (IS("anonymous write") || IS("anonymous read write") || IS("fork") || IS("kernel") || IS("swap"))
		map(pages * PAGE, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	else if (IS("private read write"))
		map(pages * AROUND * PAGE, rw, MAP_PRIVATE, file(name, pages * AROUND * PAGE));
	else if (IS("private write"))
		map(pages * PAGE, rw, MAP_PRIVATE, file(name, pages * PAGE));
	else if (IS("shared write"))
		map(pages * PAGE, rw, MAP_SHARED, file(name, pages * PAGE));
	else if (IS("shared read write"))
		map(pages * AROUND * PAGE, rw, MAP_SHARED, file(name, pages * AROUND * PAGE));
	else if (IS("shmem write") || IS("shmem read"))
		map(pages * PAGE, rw, MAP_SHARED | MAP_ANONYMOUS, -1);
	else if (IS("protected") || IS("unmapped") || IS("withdrawn") || IS("guarded"))
		map(pages * PAGE, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	else if (IS("read only"))
		map(pages * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	else if (IS("huge")) {
		map((pages + 1) << 21, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		at = (char *)(((unsigned long)at + (1UL << 21) - 1) & ~((1UL << 21) - 1));
		length = pages << 21;
		if (madvise((void *)at, length, MADV_HUGEPAGE))
			fail("madvise");
	} else if (IS("at")) {
		// A file that exists, read at an address.
		fd = open(name, O_RDONLY);
		if (fd < 0)
			fail(name);
		map_at(where, pages * AROUND * PAGE, PROT_READ, MAP_PRIVATE, fd);
	} else if (!IS("stack") && !IS("exec") && !IS("storm") && !IS("loop") && !IS("threads"))
		return 2;

	if (IS("swap")) {
		writes(1);
		if (madvise((void *)at, length, MADV_PAGEOUT))
			fail("madvise");
	}
	if (IS("fork"))
		writes(1);
	if (IS("protected"))
		mprotect((void *)at, length, PROT_NONE);
	if (IS("withdrawn")) {
		writes(1);
		mprotect((void *)at, length, PROT_NONE);
	}
	if (IS("unmapped"))
		munmap((void *)at, length);
	if (IS("guarded") && madvise((void *)at, length, MADV_GUARD_INSTALL)) {
		say("cannot\n", 7);
		return 0;
	}
	if (IS("kernel")) {
		fd = open("/dev/zero", O_RDONLY);
		if (fd < 0)
			fail("/dev/zero");
	}
	catch();

	say("ready\n", 6);
	await();
	getrusage(RUSAGE_SELF, &before);
	long began = processor_time();

	if (IS("anonymous write") || IS("private write") || IS("shared write") || IS("shmem write"))
		writes(1);
	else if (IS("anonymous read write")) {
		reads(1);
		writes(1);
	} else if (IS("private read write") || IS("shared read write")) {
		reads(AROUND);
		writes(AROUND);
	} else if (IS("shmem read")) {
		// Each makes its page, so there is nothing around it.
		reads(1);
	} else if (IS("at"))
		reads(AROUND);
	else if (IS("fork")) {
		pid_t child = fork();
		if (child == 0) {
			writes(1);
			_exit(0);
		}
		int status;
		if (child < 0 || waitpid(child, &status, 0) < 0)
			fail("fork");
		writes(1);
	} else if (IS("kernel")) {
		if (read(fd, (void *)at, length) != (ssize_t)length)
			fail("read");
	} else if (IS("protected") || IS("unmapped") || IS("withdrawn") || IS("guarded"))
		refused(0);
	else if (IS("read only")) {
		reads(1);
		refused(1);
	} else if (IS("stack"))
		grow();
	else if (IS("huge")) {
		for (unsigned long i = 0; i < pages; i++)
			at[i << 21] = 1;
	} else if (IS("swap"))
		reads(1);
	else if (IS("exec")) {
		char *args[] = {argv[0], "anonymous write", argv[2], NULL};
		execv(argv[0], args);
		fail("execv");
	} else if (IS("storm")) {
		for (unsigned long i = 0; i < pages; i++) {
			pid_t child = fork();
			if (child == 0) {
				map(PAGE * 4, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1);
				for (int p = 0; p < 4; p++)
					at[p * PAGE] = 1;
				_exit(0);
			}
			if (child < 0)
				fail("fork");
		}
		while (wait(NULL) > 0)
			;
	} else if (IS("loop")) {
		loop(NULL);
	} else if (IS("threads")) {
		pthread_t thread[4];
		for (int i = 0; i < 4; i++)
			if (pthread_create(&thread[i], NULL, loop, NULL))
				fail("pthread_create");
		for (int i = 0; i < 4; i++)
			pthread_join(thread[i], NULL);
	}

	getrusage(RUSAGE_SELF, &after);
	int n = snprintf(line, sizeof(line), "done %lx %lx %ld %ld %ld\n", (unsigned long)at, length,
			 after.ru_minflt - before.ru_minflt, after.ru_majflt - before.ru_majflt, processor_time() - began);
	say(line, n);
	await();
	return 0;
}
