/*
 * pagerank ranks the vertices of a graph that is larger than what it wants to
 * hold, in the manner of GraphChi: the vertices are mapped into memory, the edges
 * are read, a shard at a time, into a buffer that lasts as long as its shard.
 *
 *     pagerank generate --data MEBIBYTES [--degree N] [--seed N] FILE
 *     pagerank [--data MEBIBYTES] [--degree N] [--seed N] [--iterations N]
 *              [--scratch FILE] [--endless] --vertices FILE FILE
 *
 * What each vertex has in memory lies in a file of its own, mapped shared and for
 * writing; the out-degrees are mapped from the graph's file, for reading.
 *
 * Where FILE holds no graph of the size that --data asks for, one is made first, in
 * the scratch file; the time that takes is printed apart and is not the work's.
 *
 * It prints a line of JSON for its results. Endless, it prints one before it when the
 * first iteration begins, and goes on with further iterations until a signal ends it.
 * Exit status: 0, 1 where something failed, 2 for wrong usage.
 */
#include "graph.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MOST_MEBIBYTES 2048
#define DAMPING 0.85
#define BLOCK MEBIBYTE /* of one read */
#define TOP 10

struct vertex {
	double rank;
	double share; /* what it gives along each of its edges */
	double taken;
};

struct options {
	bool generate, endless;
	size_t bytes; /* 0: as many as the file has */
	unsigned degree, iterations;
	uint64_t seed;
	const char *scratch, *vertices, *file;
};

struct graph {
	int fd;
	struct graph_header header;
	const uint32_t *degrees;
	struct vertex *vertices;
	uint64_t read; /* bytes of edges */
};

static void usage(void)
{
	fputs("usage: pagerank generate --data MEBIBYTES [--degree N] [--seed N] FILE\n"
	      "       pagerank [--data MEBIBYTES] [--degree N] [--seed N] [--iterations N]\n"
	      "                [--scratch FILE] [--endless] --vertices FILE FILE\n", stderr);
	exit(2);
}

static void fail(const char *what)
{
	fprintf(stderr, "pagerank: %s: %s\n", what, strerror(errno));
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
		{ "data", required_argument, NULL, 'd' },
		{ "degree", required_argument, NULL, 'g' },
		{ "seed", required_argument, NULL, 's' },
		{ "iterations", required_argument, NULL, 'i' },
		{ "scratch", required_argument, NULL, 't' },
		{ "vertices", required_argument, NULL, 'v' },
		{ "endless", no_argument, NULL, 'e' },
		{ 0 },
	};
	struct options o = { .degree = 16, .iterations = 20, .seed = 1 };
	int c;

	if (argc > 1 && strcmp(argv[1], "generate") == 0) {
		o.generate = true;
		argc--;
		argv++;
	}
	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 'd':
			o.bytes = number(optarg, 1, MOST_MEBIBYTES) * MEBIBYTE;
			break;
		case 'g':
			o.degree = (unsigned)number(optarg, 1, 1024);
			break;
		case 's':
			o.seed = number(optarg, 0, UINT64_MAX);
			break;
		case 'i':
			o.iterations = (unsigned)number(optarg, 1, 1000);
			break;
		case 't':
			o.scratch = optarg;
			break;
		case 'v':
			o.vertices = optarg;
			break;
		case 'e':
			o.endless = true;
			break;
		default:
			usage();
		}
	}
	if (optind + 1 != argc || (o.generate ? o.bytes == 0 : o.vertices == NULL))
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

static void read_at(int fd, void *to, size_t bytes, uint64_t offset, const char *what)
{
	char *at = to;

	while (bytes > 0) {
		ssize_t n = pread(fd, at, bytes < BLOCK ? bytes : BLOCK, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			errno = ENODATA;
		if (n <= 0)
			fail(what);
		at += n;
		offset += (uint64_t)n;
		bytes -= (size_t)n;
	}
}

/* open_graph is false where the file holds no graph. */
static bool open_graph(const char *path, struct graph *g)
{
	g->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (g->fd < 0)
		fail(path);
	if (pread(g->fd, &g->header, sizeof(g->header), 0) == (ssize_t)sizeof(g->header) && g->header.magic == GRAPH_MAGIC &&
	    g->header.shards <= MOST_SHARDS)
		return true;
	close(g->fd);
	return false;
}

/* choose opens the graph to rank, and makes it first where it is not there. */
static void choose(const struct options *o, struct graph *g, double *generated)
{
	struct graph_size size = graph_size(o->bytes, o->degree);
	bool there = open_graph(o->file, g);
	double began = now();

	*generated = 0;
	if (there && (o->bytes == 0 || (g->header.vertices == size.vertices && g->header.edges == size.edges && g->header.seed == o->seed)))
		return;
	if (o->bytes == 0 || !o->scratch) {
		fprintf(stderr, "pagerank: %s %s: say how large one is to be made (--data), and where (--scratch)\n", o->file,
			there ? "holds a graph of another size" : "holds no graph");
		exit(1);
	}
	if (there)
		close(g->fd);
	if (!make_graph(o->scratch, size, o->seed))
		fail(o->scratch);
	*generated = now() - began;
	if (!open_graph(o->scratch, g)) {
		errno = EIO;
		fail(o->scratch);
	}
}

static void map_vertices(struct graph *g, const char *path)
{
	size_t bytes = g->header.vertices * sizeof(*g->vertices);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0)
		fail(path);
	/* Room for all of it: a full disk is told of here, and not by a signal. */
	errno = posix_fallocate(fd, 0, (off_t)bytes);
	if (errno)
		fail(path);
	g->vertices = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (g->vertices == MAP_FAILED)
		fail(path);
	close(fd);
	g->degrees = mmap(NULL, g->header.vertices * sizeof(*g->degrees), PROT_READ, MAP_SHARED, g->fd, PAGE);
	if (g->degrees == MAP_FAILED)
		fail("the vertices' degrees");
}

/* gather reads one shard and has its edges give to its interval. */
static void gather(struct graph *g, const struct shard *s)
{
	size_t bytes = s->edges * sizeof(struct edge);
	struct edge *edges;

	if (bytes == 0)
		return;
	edges = malloc(bytes);
	if (!edges)
		fail("memory for a shard");
	read_at(g->fd, edges, bytes, s->offset, "the edges");
	for (uint64_t i = 0; i < s->edges; i++)
		g->vertices[edges[i].to].taken += g->vertices[edges[i].from].share;
	g->read += bytes;
	free(edges);
}

/* iterate does one step. What vertices without edges have, all vertices get. */
static void iterate(struct graph *g)
{
	uint64_t n = g->header.vertices;
	double lost = 0, all;

	for (uint64_t v = 0; v < n; v++) {
		struct vertex *at = &g->vertices[v];

		at->taken = 0;
		at->share = g->degrees[v] ? at->rank / g->degrees[v] : 0;
		if (!g->degrees[v])
			lost += at->rank;
	}
	for (uint64_t s = 0; s < g->header.shards; s++)
		gather(g, &g->header.shard[s]);
	all = (1 - DAMPING + DAMPING * lost) / (double)n;
	for (uint64_t v = 0; v < n; v++)
		g->vertices[v].rank = all + DAMPING * g->vertices[v].taken;
}

/* print says what the ranks are: their sum, a weighted one, and the highest. */
static void print(const struct graph *g, const struct options *o, double seconds, double generated)
{
	uint64_t top[TOP], found = 0, n = g->header.vertices;
	double sum = 0, checksum = 0;

	for (uint64_t v = 0; v < n; v++) {
		double rank = g->vertices[v].rank;
		uint64_t at;

		sum += rank;
		checksum += rank * ((double)(draw_mix(v + 1) >> 11) * 0x1p-53);
		for (at = found; at > 0 && rank > g->vertices[top[at - 1]].rank; at--)
			if (at < TOP)
				top[at] = top[at - 1];
		if (at < TOP)
			top[at] = v;
		if (found < TOP)
			found++;
	}
	printf("{\"vertices\":%llu,\"edges\":%llu,\"shards\":%llu,\"iterations\":%u,\"sum\":%.17g,\"checksum\":%.17g,\"top\":[",
	       (unsigned long long)n, (unsigned long long)g->header.edges, (unsigned long long)g->header.shards, o->iterations, sum, checksum);
	for (uint64_t i = 0; i < found; i++)
		printf("%s{\"vertex\":%llu,\"rank\":%.17g}", i ? "," : "", (unsigned long long)top[i], g->vertices[top[i]].rank);
	printf("],\"read\":%llu,\"seconds\":%.9f,\"generated_seconds\":%.9f}\n", (unsigned long long)g->read, seconds, generated);
	if (fflush(stdout) != 0)
		exit(1);
}

int main(int argc, char **argv)
{
	struct options o = parse(argc, argv);
	struct graph g = { 0 };
	double generated, began;

	if (o.generate) {
		if (!make_graph(o.file, graph_size(o.bytes, o.degree), o.seed))
			fail(o.file);
		return 0;
	}
	choose(&o, &g, &generated);
	began = now();
	map_vertices(&g, o.vertices);
	for (uint64_t v = 0; v < g.header.vertices; v++)
		g.vertices[v].rank = 1.0 / (double)g.header.vertices;
	if (o.endless) {
		printf("{\"begun\":true,\"vertices\":%llu,\"edges\":%llu,\"generated_seconds\":%.9f}\n",
		       (unsigned long long)g.header.vertices, (unsigned long long)g.header.edges, generated);
		if (fflush(stdout) != 0)
			return 1;
	}
	for (unsigned i = 0; i < o.iterations; i++)
		iterate(&g);
	print(&g, &o, now() - began, generated);
	while (o.endless)
		iterate(&g);
	return 0;
}
