#include "serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct sockaddr_in serving_place(const char *text)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	const char *colon = strrchr(text, ':');
	char address[INET_ADDRSTRLEN] = "", *end;
	unsigned long port;

	if (colon != NULL && (size_t)(colon - text) < sizeof(address) && colon[1] >= '0' && colon[1] <= '9') {
		memcpy(address, text, (size_t)(colon - text));
		port = strtoul(colon + 1, &end, 10);
		if (*end == '\0' && port >= 1 && port <= 65535 && inet_pton(AF_INET, address, &at.sin_addr) == 1) {
			at.sin_port = htons((unsigned short)port);
			return at;
		}
	}
	fprintf(stderr, "stream: --serve %s: want ADDRESS:PORT, such as 127.0.0.1:9095\n", text);
	exit(2);
}

static void stop(int signal)
{
	(void)signal;
	_exit(0);
}

static bool send_all(int fd, const char *text, size_t size)
{
	while (size > 0) {
		ssize_t sent = send(fd, text, size, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return false;
		text += sent;
		size -= (size_t)sent;
	}
	return true;
}

/* attend answers a client until it closes, or does not take what it is sent. */
static void attend(int fd, size_t (*answer)(void *of, char line[MOST_LINE]), void *of)
{
	char line[MOST_LINE], byte;

	for (;;) {
		ssize_t got = recv(fd, &byte, 1, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got != 1 || !send_all(fd, line, answer(of, line)))
			return;
	}
}

int serve(struct sockaddr_in at, size_t (*answer)(void *of, char line[MOST_LINE]), void *of)
{
	int one = 1, client, listening = socket(AF_INET, SOCK_STREAM, 0);

	if (listening < 0 || setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
	    bind(listening, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(listening, 16) != 0) {
		perror("stream: listen");
		return 1;
	}
	/* The first process of a container gets no signal that it does not ask for. */
	signal(SIGTERM, stop);
	signal(SIGINT, stop);
	for (;;) {
		client = accept(listening, NULL, NULL);
		if (client < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (client < 0) {
			perror("stream: accept");
			return 1;
		}
		/* A line is not to wait until the one before it is acknowledged. */
		setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		attend(client, answer, of);
		close(client);
	}
}
