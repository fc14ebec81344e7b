// A program whose touches are known: it does what it is told, a line at a time.
//
//	out              has all its pages leave memory
//	touch 3 1 2      writes to pages, in that order
//	fill 3 1 2       has the kernel write to them, by read(2)
//	child 3 1 2      has a child that it forks do so, and awaits its end
//	stay             forks a child that stays until its parent ends; tells its id
//	fresh 8          writes to that many pages that never were there
//	burn 50          takes so many milliseconds of CPU time
//	pong 1000        hands a byte to a child and back so many times, both on CPU 0; tells the
//	                 nanoseconds of the fastest of ten rounds
//	again            executes itself
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096 };

static char *area;
static int pages, zero;

static void touch(char *list, int by_kernel)
{
	for (char *word = strtok(list, " \n"); word; word = strtok(NULL, " \n")) {
		char *page = area + (long)atoi(word) * PAGE;
		if (!by_kernel)
			*(volatile char *)page = 1;
		else if (read(zero, page, 1) != 1)
			_exit(3);
	}
}

// present counts the pages that have not left.
static int present(void)
{
	unsigned long long word;
	int n = 0, map = open("/proc/self/pagemap", O_RDONLY);
	for (int i = 0; i < pages; i++)
		n += pread(map, &word, 8, ((long)area / PAGE + i) * 8) == 8 && word >> 63;
	close(map);
	return n;
}

// out has all pages leave. The kernel passes by one that is being written still, from
// when it left last, and by one that waits with few others on the CPU on which it came in to
// be listed, for as long as nothing happens there: so each CPU has its turn.
static int out(void)
{
	cpu_set_t all, one;
	sched_getaffinity(0, sizeof(all), &all);
	for (int i = 0; i < 5000; i++) {
		if (madvise(area, (long)pages * PAGE, MADV_PAGEOUT))
			return 2;
		if (!present()) {
			sched_setaffinity(0, sizeof(all), &all);
			return 0;
		}
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		CPU_ZERO(&one);
		CPU_SET(i % sysconf(_SC_NPROCESSORS_CONF), &one);
		CPU_AND(&one, &one, &all);
		if (CPU_COUNT(&one))
			sched_setaffinity(0, sizeof(one), &one);
	}
	return 2;
}

static double used(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void swing(int n, int from, int to)
{
	char byte = 0;
	while (n-- > 0)
		if (write(to, &byte, 1) != 1 || read(from, &byte, 1) != 1)
			_exit(5);
}

static unsigned long pong(int n)
{
	enum { ROUNDS = 10 };
	int there[2], back[2];
	unsigned long best = -1;
	cpu_set_t before, first;
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	sched_getaffinity(0, sizeof(before), &before);
	sched_setaffinity(0, sizeof(first), &first);
	if (pipe(there) || pipe(back))
		_exit(5);
	pid_t child = fork();
	if (!child) {
		char byte;
		while (read(there[0], &byte, 1) == 1 && byte != 'e')
			if (write(back[1], &byte, 1) != 1)
				break;
		_exit(0);
	}
	for (int i = 0; i < ROUNDS; i++) {
		struct timespec a, b;
		clock_gettime(CLOCK_MONOTONIC, &a);
		swing(n, back[0], there[1]);
		clock_gettime(CLOCK_MONOTONIC, &b);
		unsigned long took = (b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec;
		best = took < best ? took : best;
	}
	if (write(there[1], "e", 1) != 1)
		_exit(5);
	waitpid(child, NULL, 0);
	for (int i = 0; i < 2; i++) {
		close(there[i]);
		close(back[i]);
	}
	sched_setaffinity(0, sizeof(before), &before);
	return best;
}

int main(int argc, char **argv)
{
	static char line[1 << 16];
	pages = argc > 1 ? atoi(argv[1]) : 64;
	zero = open("/dev/zero", O_RDONLY);
	// The input is read without stdio's buffer, which would be forgotten when it executes itself.
	setvbuf(stdin, NULL, _IONBF, 0);
	area = mmap(NULL, (long)pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED || zero < 0)
		return 1;
	madvise(area, (long)pages * PAGE, MADV_NOHUGEPAGE);
	for (long i = 0; i < pages; i++) {
		// No two pages are alike, or all of one byte.
		long *word = (long *)(area + i * PAGE);
		for (int j = 0; j < PAGE / 8; j++)
			word[j] = i * 7919 + j;
	}
	printf("ready %d %lu\n", getpid(), (unsigned long)area / PAGE);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		char *rest = strchr(line, ' ');
		rest = rest ? rest + 1 : line + strlen(line);
		int child = 0;
		if (!strncmp(line, "out", 3)) {
			if (out())
				return 2;
		} else if (!strncmp(line, "touch", 5)) {
			touch(rest, 0);
		} else if (!strncmp(line, "fill", 4)) {
			touch(rest, 1);
		} else if (!strncmp(line, "child", 5)) {
			if (!(child = fork())) {
				touch(rest, 0);
				_exit(0);
			}
			waitpid(child, NULL, 0);
		} else if (!strncmp(line, "stay", 4)) {
			pid_t parent = getpid();
			if (!(child = fork())) {
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				if (getppid() != parent)
					_exit(0);
				for (;;)
					pause();
			}
		} else if (!strncmp(line, "fresh", 5)) {
			int n = atoi(rest);
			char *more = mmap(NULL, (long)n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			madvise(more, (long)n * PAGE, MADV_NOHUGEPAGE);
			for (long i = 0; i < n; i++)
				more[i * PAGE] = 1;
			printf("done %lu\n", (unsigned long)more / PAGE);
			fflush(stdout);
			continue;
		} else if (!strncmp(line, "pong", 4)) {
			printf("done %lu\n", pong(atoi(rest)));
			fflush(stdout);
			continue;
		} else if (!strncmp(line, "burn", 4)) {
			for (double until = used() + atof(rest); used() < until;)
				;
		} else if (!strncmp(line, "again", 5)) {
			execl("/proc/self/exe", "toucher", argc > 1 ? argv[1] : NULL, NULL);
			return 4;
		}
		printf("done %d\n", child);
		fflush(stdout);
	}
	return 0;
}
