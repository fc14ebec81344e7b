/*
 * A server of one thing over TCP, for one client at a time: it answers each byte that
 * it receives with a line.
 */
#ifndef STREAM_SERVE_H
#define STREAM_SERVE_H

#include <netinet/in.h>
#include <stddef.h>

/* MOST_LINE is the size of the longest line, its end included. */
#define MOST_LINE 1024

/* serving_place reads ADDRESS:PORT, an address of IPv4, or ends the program with 2. */
struct sockaddr_in serving_place(const char *text);

/* serve has answer write a line, its end included, for each byte of a connection, until that
 * closes, and then takes the next connection. Answer gives the line's length. It ends the
 * program when it is told to terminate, and returns only with an error, which it has printed. */
int serve(struct sockaddr_in at, size_t (*answer)(void *of, char line[MOST_LINE]), void *of);

#endif
