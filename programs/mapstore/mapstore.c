/*
 * A database on memory-mapped storage, as small as it can be: records in a file
 * of LMDB's, served over Redis' protocol (RESP2). It stands for the document
 * databases whose data files were mapped into memory (Darbaz, "Characterization of
 * containers", Illinois 2018: MongoDB's and ArangoDB's engines of that time).
 *
 *     mapstore generate --data MEBIBYTES FILE
 *     mapstore serve [--address A] [--port N] [--data MEBIBYTES] [--writable] [--scratch FILE] FILE
 *
 * It listens on every address of IPv4, or on that of --address.
 *
 * FILE is mapped read-only and shared. Where it has less than --data, or is to be
 * written, the store is made anew in the scratch file, and that is served.
 *
 * It prints one line of JSON when it serves, the same that INFO answers, and goes
 * on until it is told to terminate. Exit status: 0, 1 where something failed, 2 for wrong usage.
 */
#include "record.h"
#include "serve.h"
#include "store.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The names of records have eight digits. */
#define MOST_MEBIBYTES 4096
#define MEBIBYTE (1UL << 20)

struct options {
	bool generate, writable;
	uint64_t records; /* 0: as many as the file has */
	struct in_addr address;
	unsigned short port;
	const char *scratch, *file;
};

static void usage(void)
{
	fputs("usage: mapstore generate --data MEBIBYTES FILE\n"
	      "       mapstore serve [--address A] [--port N] [--data MEBIBYTES] [--writable] [--scratch FILE] FILE\n", stderr);
	exit(2);
}

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "mapstore: %s: %s\n", what, why);
	exit(1);
}

static unsigned long number(const char *text, unsigned long least, unsigned long most)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *text < '0' || *text > '9' || *end || value < least || value > most)
		usage();
	return value;
}

static struct options parse(int argc, char **argv)
{
	static const struct option names[] = {
		{ "address", required_argument, NULL, 'a' },
		{ "data", required_argument, NULL, 'd' },
		{ "port", required_argument, NULL, 'p' },
		{ "scratch", required_argument, NULL, 's' },
		{ "writable", no_argument, NULL, 'w' },
		{ 0 },
	};
	struct options o = { .port = 6379 };
	int c;

	if (argc < 2)
		usage();
	o.generate = strcmp(argv[1], "generate") == 0;
	if (!o.generate && strcmp(argv[1], "serve") != 0)
		usage();
	argc--;
	argv++;
	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 'a':
			if (inet_pton(AF_INET, optarg, &o.address) != 1)
				usage();
			break;
		case 'd':
			o.records = number(optarg, 1, MOST_MEBIBYTES) * MEBIBYTE / FIELD;
			break;
		case 'p':
			o.port = (unsigned short)number(optarg, 1, 65535);
			break;
		case 's':
			o.scratch = optarg;
			break;
		case 'w':
			o.writable = true;
			break;
		default:
			usage();
		}
	}
	if (optind + 1 != argc || (o.generate && o.records == 0))
		usage();
	o.file = argv[optind];
	return o;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void make(const char *path, uint64_t records)
{
	int error = store_make(path, records);

	if (error)
		fail(path, store_error(error));
}

static struct store *open_store(const char *path, bool writable)
{
	struct store *store;
	int error = store_open(path, writable, &store);

	if (error)
		fail(path, store_error(error));
	return store;
}

/* choose opens the file, or makes the scratch file and opens that. */
static struct store *choose(struct options *o, double *generated)
{
	struct store *store = open_store(o->file, false);
	uint64_t there = store_records(store);
	double began = now();

	*generated = 0;
	if (o->records == 0)
		o->records = there;
	if (o->records <= there && !o->writable) {
		o->records = there;
		return store;
	}
	store_close(store);
	if (!o->scratch)
		fail(o->file, "holds less than --data, or is to be written: name a scratch file, in which a store is made");
	make(o->scratch, o->records);
	*generated = now() - began;
	return open_store(o->scratch, o->writable);
}

int main(int argc, char **argv)
{
	struct options o = parse(argc, argv);
	struct store *store;
	char info[256];
	double generated;
	int listening;

	if (o.generate) {
		make(o.file, o.records);
		return 0;
	}
	store = choose(&o, &generated);
	listening = serve_listen(o.address, o.port);
	if (listening < 0)
		fail("listen", strerror(errno));
	snprintf(info, sizeof(info), "{\"port\":%u,\"records\":%llu,\"writable\":%s,\"generated_seconds\":%.9f}", o.port,
		 (unsigned long long)o.records, o.writable ? "true" : "false", generated);
	if (puts(info) < 0 || fflush(stdout) != 0)
		fail("standard output", strerror(errno));
	if (serve(listening, store, info) != 0)
		fail("serve", strerror(errno));
	store_close(store);
	return 0;
}
