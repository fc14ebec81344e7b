/*
 * calls makes the calls that libannexhint stands before, and fails, with a line, where one
 * does not do what its manual page says.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void want(int line, int true, const char *what)
{
	if (!true) {
		fprintf(stderr, "calls: line %d: %s (errno %d)\n", line, what, errno);
		exit(1);
	}
}

#define WANT(what) want(__LINE__, (what), #what)
#define FAILS(call, why) (errno = 0, (call) == -1 && errno == (why))

static void waits(void)
{
	int pair[2], epoll = epoll_create1(0);
	struct epoll_event event = { .events = EPOLLIN };
	const struct timespec moment = { 0, 5000000 };
	struct timeval while_ = { 0, 5000 };
	struct pollfd fd;
	fd_set set;
	char byte = 0;

	WANT(epoll >= 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	WANT(epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &event) == 0);
	fd = (struct pollfd){ pair[0], POLLIN, 0 };
	FD_ZERO(&set);
	FD_SET(pair[0], &set);
	/* Nothing comes. */
	WANT(poll(&fd, 1, 5) == 0);
	WANT(ppoll(&fd, 1, &moment, NULL) == 0);
	WANT(epoll_wait(epoll, &event, 1, 5) == 0);
	WANT(epoll_pwait(epoll, &event, 1, 5, NULL) == 0);
	WANT(select(pair[0] + 1, &set, NULL, NULL, &while_) == 0);
	WANT(FAILS(recv(pair[0], &byte, 1, MSG_DONTWAIT), EAGAIN));
	WANT(FAILS(recv(-1, &byte, 1, 0), EBADF));
	WANT(FAILS(read(-1, &byte, 1), EBADF));
	WANT(FAILS(accept(pair[0], NULL, NULL), EINVAL) || errno == EOPNOTSUPP);
	WANT(FAILS(accept4(-1, NULL, NULL, 0), EBADF));
	WANT(FAILS(epoll_wait(-1, &event, 1, 0), EBADF));
	/* Something is there. */
	WANT(write(pair[1], "ab", 2) == 2);
	FD_SET(pair[0], &set);
	WANT(poll(&fd, 1, -1) == 1 && fd.revents == POLLIN);
	WANT(ppoll(&fd, 1, NULL, NULL) == 1);
	WANT(epoll_wait(epoll, &event, 1, -1) == 1);
	WANT(epoll_pwait(epoll, &event, 1, -1, NULL) == 1);
	WANT(select(pair[0] + 1, &set, NULL, NULL, NULL) == 1 && FD_ISSET(pair[0], &set));
	WANT(recv(pair[0], &byte, 1, 0) == 1 && byte == 'a');
	WANT(read(pair[0], &byte, 1) == 1 && byte == 'b');
	close(pair[0]);
	close(pair[1]);
	close(epoll);
}

/* peers accepts from a child that takes its time. */
static void peers(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX }, from;
	socklen_t length = sizeof(address), room = sizeof(from);
	const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
	char byte;
	pid_t child;
	int peer, status;

	WANT(listener >= 0);
	/* A name that the kernel gives. */
	WANT(bind(listener, (struct sockaddr *)&address, sizeof(sa_family_t)) == 0 && listen(listener, 2) == 0);
	WANT(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
	child = fork();
	WANT(child >= 0);
	if (child == 0) {
		for (int i = 0; i < 2; i++) {
			const int s = socket(AF_UNIX, SOCK_STREAM, 0);

			poll(NULL, 0, 20);
			if (s < 0 || connect(s, (struct sockaddr *)&address, length) != 0)
				_exit(1);
			poll(NULL, 0, 20);
			if (write(s, "x", 1) != 1)
				_exit(1);
			close(s);
		}
		_exit(0);
	}
	peer = accept(listener, (struct sockaddr *)&from, &room);
	WANT(peer >= 0 && from.sun_family == AF_UNIX && room >= sizeof(sa_family_t));
	WANT(read(peer, &byte, 1) == 1 && byte == 'x' && read(peer, &byte, 1) == 0);
	close(peer);
	peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	WANT(peer >= 0);
	WANT(recv(peer, &byte, 1, 0) == 1 && byte == 'x' && recv(peer, &byte, 1, 0) == 0);
	close(peer);
	WANT(waitpid(child, &status, 0) == child && status == 0);
	close(listener);
}

static void maps(void)
{
	const size_t size = (size_t)4 << 20;
	char *start, *moved;

	for (int turn = 0; turn < 200; turn++) {
		start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		WANT(start != MAP_FAILED);
		start[0] = start[size - 1] = (char)turn;
		moved = mremap(start, size, 2 * size, MREMAP_MAYMOVE);
		WANT(moved != MAP_FAILED && moved[0] == (char)turn && moved[size - 1] == (char)turn);
		WANT(munmap(moved + size / 2, size / 2) == 0);
		poll(NULL, 0, turn % 50 == 0 ? 2 : 0);
		WANT(munmap(moved, 2 * size) == 0);
	}
	WANT(FAILS((long)mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), EINVAL));
	WANT(FAILS((long)mremap((void *)1, size, size, 0), EINVAL));
	WANT(FAILS(munmap((void *)1, size), EINVAL));
	for (int turn = 0; turn < 100; turn++) /* more than are registered, and all stay */
		WANT(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
}

int main(void)
{
	maps();
	waits();
	peers();
	waits(); /* after sleep, with all that is registered */
	return 0;
}
