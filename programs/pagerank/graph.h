/*
 * A graph on disk, laid out as GraphChi has it (Kyrola, Blelloch, Guestrin,
 * OSDI 2012): the vertices are parted into intervals, and a shard holds all edges
 * into one interval, in the order of their sources.
 *
 *     page 0          struct graph_header
 *     from page 1     the vertices' out-degrees, 32 bits each
 *     from a page on  the shards, one after the other; an edge is two numbers of
 *                     32 bits, source and destination
 *
 * Numbers are in the machine's own order of bytes.
 *
 * The edges are those of a recursive matrix (Chakrabarti, Zhan, Faloutsos, SDM
 * 2004) with the parameters of Graph 500: 0.57, 0.19, 0.19, 0.05. Each edge is
 * drawn from a generator of its own, seeded with the graph's seed and the edge's
 * number; loops and repeated edges stay. Vertices are renumbered, so that those
 * with many edges do not stand together.
 */
#ifndef GRAPH_H
#define GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE 4096
#define MEBIBYTE (1UL << 20)
#define GRAPH_MAGIC 0x31307270657261ULL
/* A shard has about so many bytes: it is held in memory as a whole. */
#define SHARD (16 * MEBIBYTE)
#define MOST_SHARDS 160

struct edge {
	uint32_t from, to;
};

struct shard {
	uint32_t first, end; /* the interval: end is the first vertex behind it */
	uint64_t offset;     /* in the file */
	uint64_t edges;
};

struct graph_header {
	uint64_t magic;
	uint64_t seed;
	uint64_t vertices, edges;
	uint64_t shards;
	struct shard shard[MOST_SHARDS];
};

_Static_assert(sizeof(struct graph_header) <= PAGE, "the header has a page");

struct graph_size {
	uint64_t vertices; /* a power of two */
	uint64_t edges;
};

/*
 * graph_size gives the size of a graph whose edges take so many bytes: as many
 * vertices as have at least so many edges each, in the mean.
 */
struct graph_size graph_size(size_t bytes, unsigned degree);

/* draw_mix is the output function of splitmix64 (Steele, Lea, Flood, OOPSLA 2014). */
uint64_t draw_mix(uint64_t z);

/* make_graph writes a graph, and is false where that failed, with errno's reason. */
bool make_graph(const char *path, struct graph_size size, uint64_t seed);

/* whole_pages rounds up: each part begins on a page. */
static inline size_t whole_pages(size_t bytes)
{
	return (bytes + PAGE - 1) / PAGE * PAGE;
}

#endif
