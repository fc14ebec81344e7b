// A process whose page tables are known by construction, for probe/pagetable's
// tests. It is told a scenario by name, says what it has made, a line an item,
// and ends the list with a line of one dot; then it waits for a line on standard input
// before it goes a step on, and ends with the input.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <unistd.h>

#define PAGE 4096ul
#define HUGE (2ul << 20)
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#define GUARD_INSTALL 102

static void need(int ok, const char *what)
{
	if (!ok) {
		printf("cannot %s: %s\n", what, strerror(errno));
		fflush(stdout);
		exit(1);
	}
}

static void tell(const char *name, void *at, size_t pages) { printf("%s %lx %zu\n", name, (long)at, pages); }

static void process(const char *name, pid_t pid) { printf("%s pid %d\n", name, pid); }

static void step(void)
{
	char line[16];

	printf(".\n");
	fflush(stdout);
	for (;;) {
		ssize_t n = read(0, line, 1);
		if (n == 1)
			return;
		if (n == 0)
			_exit(0);
	}
}

static volatile char *map(size_t pages, int protection, int flags, int fd, off_t offset)
{
	void *p = mmap(0, pages * PAGE, protection, flags, fd, offset);
	need(p != MAP_FAILED, "map");
	madvise(p, pages * PAGE, MADV_NOHUGEPAGE);
	return p;
}

#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

static void anonymous(void)
{
	volatile char *p = map(16, RW, ANON, -1, 0);

	for (int i = 0; i < 3; i++)
		p[i * PAGE] = 1;
	p[10 * PAGE] = 1;
	tell("touched", (void *)p, 16);
	tell("untouched", (void *)map(16, RW, ANON, -1, 0), 16);
	p = map(8, RW, ANON, -1, 0);
	for (int i = 0; i < 4; i++)
		(void)p[i * PAGE];
	p[3 * PAGE] = 1;
	tell("zero", (void *)p, 8);
	step();
}

static void file(const char *path)
{
	int fd = open(path, O_RDWR);
	need(fd >= 0, "open the file");
	volatile char *private = map(8, RW, MAP_PRIVATE, fd, 0);
	volatile char *shared = map(8, RW, MAP_SHARED, fd, 0);
	volatile char *code = map(4, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 4 * PAGE);

	for (int i = 0; i < 8; i++)
		(void)private[i * PAGE], (void)shared[i * PAGE];
	for (int i = 0; i < 4; i++)
		(void)code[i * PAGE];
	private[3 * PAGE] = 1;
	private[5 * PAGE] = 1;
	shared[2 * PAGE] = 1;
	tell("private", (void *)private, 8);
	tell("shared", (void *)shared, 8);
	tell("code", (void *)code, 4);
	step();
}

static pid_t self; // the helper's own

// with_parent ends a child when the helper ends, or has ended.
static void with_parent(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != self)
		_exit(0);
}

static pid_t child(void (*run)(void))
{
	pid_t pid = fork();
	need(pid >= 0, "fork");
	if (!pid) {
		with_parent();
		run();
		_exit(0);
	}
	return pid;
}

static int to_child[2], from_child[2];
static volatile char *forked;

static void writer(void)
{
	char c = 0;

	while (read(to_child[0], &c, 1) == 1) {
		forked[1 * PAGE] = 2;
		if (write(from_child[1], &c, 1) != 1)
			return;
	}
}

static void fork_and_write(void)
{
	char c = 0;

	forked = map(8, RW, ANON, -1, 0);
	for (int i = 0; i < 4; i++)
		forked[i * PAGE] = 1;
	need(!pipe(to_child) && !pipe(from_child), "make pipes");
	process("child", child(writer));
	tell("forked", (void *)forked, 8);
	step();
	need(write(to_child[1], &c, 1) == 1 && read(from_child[0], &c, 1) == 1, "have the child write");
	step();
}

static void shared_memory(void)
{
	int fd = memfd_create("of a test", 0);
	need(fd >= 0 && !ftruncate(fd, 8 * PAGE), "make a memfd");
	volatile char *one = map(8, RW, MAP_SHARED, fd, 0), *two = map(8, RW, MAP_SHARED, fd, 0);
	volatile char *nameless = map(8, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int id = shmget(IPC_PRIVATE, 8 * PAGE, IPC_CREAT | 0600);
	need(id >= 0, "make shared memory");
	volatile char *sysv = shmat(id, 0, 0);
	shmctl(id, IPC_RMID, 0);
	need(sysv != (void *)-1, "attach shared memory");
	for (int i = 0; i < 4; i++)
		one[i * PAGE] = two[i * PAGE] = nameless[i * PAGE] = sysv[i * PAGE] = 1;
	tell("one", (void *)one, 8);
	tell("two", (void *)two, 8);
	tell("nameless", (void *)nameless, 8);
	tell("sysv", (void *)sysv, 8);
	step();
}

static volatile char *aligned(size_t bytes)
{
	char *p = mmap(0, bytes + HUGE, RW, ANON, -1, 0);
	need(p != MAP_FAILED, "map");
	p = (char *)(((uintptr_t)p + HUGE - 1) & ~(HUGE - 1));
	need(!madvise(p, bytes, MADV_HUGEPAGE), "ask for huge pages");
	return p;
}

// Each lies between stretches that are not huge, since neighbours would merge.
static void huge(void)
{
	volatile char *whole = aligned(HUGE), *protected = aligned(HUGE), *given = aligned(HUGE), *part = aligned(HUGE), *zero = aligned(HUGE);

	whole[0] = protected[0] = given[0] = part[0] = 1;
	(void)zero[0];
	tell("whole", (void *)whole, HUGE / PAGE);
	tell("protected", (void *)protected, HUGE / PAGE);
	tell("given", (void *)given, HUGE / PAGE);
	tell("part", (void *)part, HUGE / PAGE);
	tell("zero", (void *)zero, HUGE / PAGE);
	step();
	need(!mprotect((void *)(protected + 7 * PAGE), PAGE, PROT_READ), "protect");
	need(!madvise((void *)(given + 9 * PAGE), PAGE, MADV_DONTNEED), "give back");
	need(!munmap((void *)(part + 11 * PAGE), PAGE), "unmap");
	need(!mprotect((void *)whole, HUGE, PROT_NONE), "forbid");
	step();
}

static void forbidden(void)
{
	volatile char *p = map(8, RW, ANON, -1, 0), *g = map(8, RW, ANON, -1, 0);

	for (int i = 0; i < 4; i++)
		p[i * PAGE] = g[i * PAGE] = 1;
	tell("none", (void *)p, 8);
	tell("guarded", (void *)g, 8);
	step();
	need(!mprotect((void *)p, 8 * PAGE, PROT_NONE), "forbid");
	int installed = !madvise((void *)(g + PAGE), 4 * PAGE, GUARD_INSTALL);
	printf("guards %s\n", installed ? "yes" : "no");
	step();
}

static void swapped(void)
{
	volatile char *p = map(64, RW, ANON, -1, 0);

	for (int i = 0; i < 64; i++)
		p[i * PAGE] = i + 1;
	tell("swapped", (void *)p, 64);
	step();
	need(!madvise((void *)p, 32 * PAGE, MADV_PAGEOUT), "page out");
	step();
	(void)p[5 * PAGE];
	step();
}

static void far(void)
{
	// The last two pages below a boundary of the topmost table, and the first two above.
	char *at = (char *)(0x200000000000ul - 2 * PAGE);
	volatile char *p = mmap(at, 4 * PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	need(p == at, "map across a boundary");
	for (int i = 0; i < 4; i++)
		p[i * PAGE] = 1;
	tell("across", (void *)p, 4);
	size_t pages = 1ul << 28; // 1 TiB
	p = mmap(0, pages * PAGE, RW, ANON | MAP_NORESERVE, -1, 0);
	need(p != MAP_FAILED, "reserve");
	madvise((void *)p, pages * PAGE, MADV_NOHUGEPAGE);
	for (int i = 0; i < 32; i++)
		p[((uint64_t)i << 35) + 3 * PAGE] = 1; // one each 32 GiB
	tell("sparse", (void *)p, pages);
	step();
}

static int pausing(void *unused)
{
	with_parent();
	for (;;)
		pause();
	return 0;
}

static void twin(void)
{
	static char stack[65536];
	pid_t pid = clone(pausing, stack + sizeof(stack), CLONE_VM | SIGCHLD, 0);
	need(pid > 0, "clone");
	process("twin", pid);
	printf(".\n");
	fflush(stdout);
	while (read(0, stack, 1) == 1)
		;
	kill(pid, SIGKILL);
	_exit(0);
}

static void *waiting(void *unused)
{
	step();
	_exit(0);
}

// The first thread ends, and the process lives on.
static void headless(void)
{
	pthread_t t;
	volatile char *p = map(8, RW, ANON, -1, 0);

	p[0] = 1;
	tell("touched", (void *)p, 8);
	need(!pthread_create(&t, 0, waiting, 0), "make a thread");
	pthread_exit(0);
}

static void *mapping(void *unused)
{
	for (;;) {
		volatile char *p = mmap(0, 700 * PAGE, RW, ANON, -1, 0);
		for (int i = 0; i < 700; i += 7)
			p[i * PAGE] = 1;
		munmap((void *)p, 700 * PAGE);
	}
	return 0;
}

static void restless(void)
{
	pthread_t t;
	volatile char *p = map(1000, RW, ANON, -1, 0);

	for (int i = 0; i < 1000; i++)
		p[i * PAGE] = 1;
	tell("still", (void *)p, 1000);
	need(!pthread_create(&t, 0, mapping, 0), "make a thread");
	step();
	_exit(0);
}

static void idle(void) { pausing(0); }

static void many(int n)
{
	volatile char *p = map(64, RW, ANON, -1, 0);

	for (int i = 0; i < 64; i++)
		p[i * PAGE] = 1;
	tell("forked", (void *)p, 64);
	for (int i = 0; i < n; i++)
		process("child", child(idle));
	step();
}

// Executes itself again and again, or ends and begins.
static void executing(char *self)
{
	fcntl(0, F_SETFL, O_NONBLOCK);
	char c;
	if (read(0, &c, 1) == 0)
		_exit(0);
	execl("/proc/self/exe", self, "executing again", (char *)0);
}

static void born(void) { _exit(0); }

static void ending(void)
{
	printf(".\n");
	fflush(stdout);
	signal(SIGCHLD, SIG_IGN);
	fcntl(0, F_SETFL, O_NONBLOCK);
	char c;
	while (read(0, &c, 1) != 0) {
		process("born", child(born));
		fflush(stdout);
	}
	_exit(0);
}

static void big(size_t mebibytes, int processes)
{
	size_t pages = mebibytes << 8;
	for (int i = 1; i < processes; i++) {
		int done[2];
		char c = 0;
		need(!pipe(done), "make a pipe");
		pid_t pid = fork();
		need(pid >= 0, "fork");
		if (!pid) {
			with_parent();
			volatile char *p = map(pages, RW, ANON, -1, 0);
			for (size_t j = 0; j < pages; j++)
				p[j * PAGE] = 1;
			if (write(done[1], &c, 1) == 1)
				pausing(0);
			_exit(1);
		}
		process("child", pid);
		need(read(done[0], &c, 1) == 1, "have a child touch its memory");
		close(done[0]);
		close(done[1]);
	}
	volatile char *p = map(pages, RW, ANON, -1, 0);
	for (size_t j = 0; j < pages; j++)
		p[j * PAGE] = 1;
	tell("big", (void *)p, pages);
	step();
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	self = getpid();

	if (!strcmp(what, "anonymous")) anonymous();
	else if (!strcmp(what, "file")) file(argv[2]);
	else if (!strcmp(what, "fork")) fork_and_write();
	else if (!strcmp(what, "shared")) shared_memory();
	else if (!strcmp(what, "huge")) huge();
	else if (!strcmp(what, "forbidden")) forbidden();
	else if (!strcmp(what, "swapped")) swapped();
	else if (!strcmp(what, "far")) far();
	else if (!strcmp(what, "twin")) twin();
	else if (!strcmp(what, "headless")) headless();
	else if (!strcmp(what, "restless")) restless();
	else if (!strcmp(what, "many")) many(atoi(argv[2]));
	else if (!strcmp(what, "big")) big(atoi(argv[2]), atoi(argv[3]));
	else if (!strcmp(what, "ending")) ending();
	else if (!strncmp(what, "executing", 9)) {
		if (!strcmp(what, "executing")) {
			printf(".\n");
			fflush(stdout);
		}
		executing(argv[0]);
	} else {
		fprintf(stderr, "no scenario %s\n", what);
		return 2;
	}
	return 0;
}
