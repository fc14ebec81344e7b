#include "serve.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* A command is at most so long, and has so many words. */
#define MOST_COMMAND 8192
#define MOST_WORDS 8
/* An answer is not longer than a command: a value and what it is wrapped in. */
#define MOST_VALUE (MOST_COMMAND - 64)
/* Commands are not taken from whoever does not take the answers. */
#define MOST_WAITING 65536

struct server {
	struct store *store;
	const char *info;
};

struct client {
	int fd;
	size_t held; /* bytes of input */
	char input[MOST_COMMAND];
	size_t sent, waiting; /* of output */
	char output[MOST_WAITING + MOST_COMMAND];
	bool full;    /* commands wait for room in the output */
	bool blocked; /* until the socket takes more */
};

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

int serve_listen(struct in_addr address, unsigned short port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = address, .sin_port = htons(port) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, SOMAXCONN) != 0) {
		int cause = errno;

		close(fd);
		errno = cause;
		return -1;
	}
	return fd;
}

static void say(struct client *c, const char *text)
{
	size_t size = strlen(text);

	memcpy(c->output + c->waiting, text, size);
	c->waiting += size;
}

static void say_bulk(struct client *c, struct bytes value)
{
	if (!value.at) {
		say(c, "$-1\r\n");
		return;
	}
	if (value.size > MOST_VALUE) {
		say(c, "-ERR the value is longer than an answer\r\n");
		return;
	}
	c->waiting += (size_t)sprintf(c->output + c->waiting, "$%zu\r\n", value.size);
	memcpy(c->output + c->waiting, value.at, value.size);
	c->waiting += value.size;
	say(c, "\r\n");
}

static void say_error(struct client *c, int error)
{
	c->waiting += (size_t)sprintf(c->output + c->waiting, "-ERR %s\r\n", store_error(error));
}

static bool named(struct bytes word, const char *name)
{
	return word.size == strlen(name) && strncasecmp(word.at, name, word.size) == 0;
}

static void answer(struct client *c, const struct server *server, const struct bytes *words, size_t count)
{
	struct bytes value;
	int error;

	if (count == 1 && named(words[0], "PING")) {
		say(c, "+PONG\r\n");
	} else if (count == 1 && named(words[0], "INFO")) {
		say_bulk(c, (struct bytes){ server->info, strlen(server->info) });
	} else if (count == 2 && named(words[0], "GET") && words[1].size > 0) {
		error = store_get(server->store, words[1], &value);
		if (error)
			say_error(c, error);
		else
			say_bulk(c, value);
	} else if (count == 3 && named(words[0], "SET") && words[1].size > 0) {
		error = store_put(server->store, words[1], words[2]);
		if (error == EACCES)
			say(c, "-READONLY the store is opened for reading (serve --writable)\r\n");
		else if (error)
			say_error(c, error);
		else
			say(c, "+OK\r\n");
	} else {
		say(c, "-ERR want PING, INFO, GET key or SET key value\r\n");
	}
}

/*
 * length reads a line of a sign and a number. It gives what follows the line,
 * NULL where the line is not there whole, and *value = -1 where it is none.
 */
static const char *length(const char *at, const char *end, char sign, long *value)
{
	const char *line = memchr(at, '\n', (size_t)(end - at));
	long n = 0;

	*value = -1;
	if (!line) {
		/* What is too long for a length is none, however it goes on. */
		if (end - at < 16)
			*value = 0;
		return NULL;
	}
	if (*at != sign || line - at < 3 || line - at > 8 || line[-1] != '\r')
		return line + 1;
	for (const char *digit = at + 1; digit < line - 1; digit++) {
		if (*digit < '0' || *digit > '9')
			return line + 1;
		n = n * 10 + (*digit - '0');
	}
	*value = n;
	return line + 1;
}

enum parsed { WHOLE, PART, WRONG };

/* parse reads a command: an array of bulk strings. */
static enum parsed parse(const char **from, const char *end, struct bytes *words, size_t *count)
{
	long n, size;
	const char *at = length(*from, end, '*', &n);

	if (!at)
		return n < 0 ? WRONG : PART;
	if (n < 1 || n > MOST_WORDS)
		return WRONG;
	for (long i = 0; i < n; i++) {
		at = length(at, end, '$', &size);
		if (!at)
			return size < 0 ? WRONG : PART;
		if (size < 0)
			return WRONG;
		if (end - at < size + 2)
			return PART;
		words[i] = (struct bytes){ at, (size_t)size };
		if (memcmp(at + size, "\r\n", 2) != 0)
			return WRONG;
		at += size + 2;
	}
	*from = at;
	*count = (size_t)n;
	return WHOLE;
}

/*
 * answer_all answers the whole commands that are there, as long as there is room
 * for answers; false is for what is no command, or too long for one.
 */
static bool answer_all(struct client *c, const struct server *server)
{
	const char *at = c->input, *end = c->input + c->held;
	struct bytes words[MOST_WORDS];
	size_t count;
	enum parsed parsed = WHOLE;

	while (at < end && c->waiting < MOST_WAITING && parsed == WHOLE) {
		parsed = parse(&at, end, words, &count);
		if (parsed == WRONG)
			return false;
		if (parsed == WHOLE)
			answer(c, server, words, count);
	}
	c->full = c->waiting >= MOST_WAITING;
	c->held = (size_t)(end - at);
	memmove(c->input, at, c->held);
	return c->full || c->held < sizeof(c->input);
}

/* send_all sends what is waiting; false is for a client that has gone. */
static bool send_all(struct client *c)
{
	while (c->sent < c->waiting) {
		ssize_t n = send(c->fd, c->output + c->sent, c->waiting - c->sent, MSG_NOSIGNAL);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return true;
		if (n < 0)
			return false;
		c->sent += (size_t)n;
	}
	c->sent = c->waiting = 0;
	return true;
}

/* attend does what a client's socket allows; false is for one to be left. */
static bool attend(struct client *c, const struct server *server)
{
	for (;;) {
		ssize_t n;

		if (!answer_all(c, server) || !send_all(c))
			return false;
		if (c->waiting > 0)
			return true;
		if (c->full)
			continue;
		n = recv(c->fd, c->input + c->held, sizeof(c->input) - c->held, 0);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		if (n == 0)
			return false;
		c->held += (size_t)n;
	}
}

static void leave(struct client *c)
{
	close(c->fd);
	free(c);
}

static bool take(int poll, int listening)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct client *c;
	int one = 1, fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) /* whoever has gone again is no failure */
		return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
	c = calloc(1, sizeof(*c));
	if (!c) {
		close(fd);
		return false;
	}
	c->fd = fd;
	event.data.ptr = c;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) != 0) {
		leave(c);
		return false;
	}
	return true;
}

/* watch waits for what a client does next: take answers, or ask. */
static bool watch(int poll, struct client *c)
{
	struct epoll_event event = { .events = c->waiting ? EPOLLOUT : EPOLLIN, .data.ptr = c };

	if (c->blocked == (c->waiting > 0))
		return true;
	c->blocked = c->waiting > 0;
	return epoll_ctl(poll, EPOLL_CTL_MOD, c->fd, &event) == 0;
}

int serve(int listening, struct store *store, const char *info)
{
	const struct server server = { store, info };
	struct sigaction on = { .sa_handler = stop };
	struct epoll_event event = { .events = EPOLLIN }, events[64];
	int poll = epoll_create1(EPOLL_CLOEXEC);

	if (poll < 0 || sigaction(SIGTERM, &on, NULL) != 0 || sigaction(SIGINT, &on, NULL) != 0 ||
	    epoll_ctl(poll, EPOLL_CTL_ADD, listening, &event) != 0)
		return -1;
	while (!stopped) {
		int count = epoll_wait(poll, events, sizeof(events) / sizeof(events[0]), -1);

		if (count < 0 && errno != EINTR)
			return -1;
		for (int i = 0; i < count; i++) {
			struct client *c = events[i].data.ptr;

			if (!c) {
				if (!take(poll, listening))
					return -1;
			} else if (!attend(c, &server) || !watch(poll, c)) {
				leave(c);
			}
		}
	}
	close(poll);
	return 0;
}
