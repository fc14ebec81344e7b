/*
 * A server of a store over Redis' protocol, version 2: PING, INFO, GET, SET. One
 * thread, like Redis' own.
 */
#ifndef SERVE_H
#define SERVE_H

#include "store.h"

#include <netinet/in.h>

/* serve_listen listens on a TCP port of an address, INADDR_ANY for all, or gives -1 and errno. */
int serve_listen(struct in_addr address, unsigned short port);

/*
 * serve goes on until SIGTERM or SIGINT, or gives -1 and errno. INFO is answered by
 * the text.
 */
int serve(int listening, struct store *store, const char *info);

#endif
