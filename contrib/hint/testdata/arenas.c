/*
 * arenas calls what annex_hint.h declares, and fails, with a line, where something does not
 * do what it says there. With the argument "off" the library is to be off.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "annex_hint.h"

static void want(int line, int true, const char *what)
{
	if (!true) {
		fprintf(stderr, "arenas: line %d: %s (errno %d)\n", line, what, errno);
		exit(1);
	}
}

#define WANT(what) want(__LINE__, (what), #what)
#define FAILS(call, why) (errno = 0, (call) == -1 && errno == (why))

/* cancelled is ended at the first cancellation point that it comes to. */
static void *cancelled(void *arg)
{
	int before;

	pthread_cancel(pthread_self());
	annex_request();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return arg;
}

int main(int argc, char **argv)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = 4 * page;
	char *start = mmap(NULL, (ANNEX_ARENAS + 1) * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int status;
	pthread_t thread;
	void *joined;
	pid_t child;

	(void)argv;
	WANT(start != MAP_FAILED);
	if (argc > 1) {
		WANT(FAILS(annex_arena(start, size), ENOTSUP));
		WANT(FAILS(annex_forget(start), ENOTSUP));
		annex_request();
		return 0;
	}
	annex_request(); /* of nothing */
	WANT(FAILS(annex_arena(start, page - 1), EINVAL));
	WANT(FAILS(annex_arena(start + 1, 2 * page - 2), EINVAL));
	WANT(FAILS(annex_arena(start, SIZE_MAX), EINVAL));
	WANT(FAILS(annex_arena((void *)(UINTPTR_MAX - 8), 4), EINVAL));
	WANT(annex_arena(start + 1, 2 * page - 1) == 0); /* one page is whole within */
	WANT(FAILS(annex_forget(start), ENOENT));
	WANT(annex_forget(start + 1) == 0);
	WANT(FAILS(annex_forget(start + 1), ENOENT));
	for (size_t i = 0; i < ANNEX_ARENAS; i++)
		WANT(annex_arena(start + i * size, size) == 0);
	WANT(FAILS(annex_arena(start + ANNEX_ARENAS * size, size), ENOSPC));
	WANT(annex_arena(start, 2 * page) == 0); /* another length of the first */
	WANT(annex_forget(start + size) == 0);
	WANT(annex_arena(start + ANNEX_ARENAS * size, size) == 0);
	usleep(20000); /* in which no look follows another */
	errno = EDOM;
	annex_request();
	WANT(errno == EDOM);
	/* A hole, and memory that is no more, harm nobody. */
	WANT(munmap(start + 2 * size + page, page) == 0 && munmap(start + 3 * size, size) == 0);
	start[0] = 1;
	usleep(20000);
	annex_request();
	WANT(start[0] == 1);
	/* A thread that was cancelled does not end within, where it would leave the library held. */
	usleep(20000);
	WANT(pthread_create(&thread, NULL, cancelled, start) == 0 && pthread_join(thread, &joined) == 0 && joined == start);
	child = fork();
	WANT(child >= 0);
	if (child == 0) {
		usleep(20000);
		annex_request();
		_exit(annex_forget(start) == 0 && annex_arena(start, size) == 0 ? 0 : 1);
	}
	WANT(waitpid(child, &status, 0) == child && status == 0);
	WANT(annex_forget(start) == 0);
	return 0;
}
