#include "graph.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t draw_mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

struct graph_size graph_size(size_t bytes, unsigned degree)
{
	struct graph_size size = { 2, bytes / sizeof(struct edge) };

	while (size.vertices * 2 * degree <= size.edges)
		size.vertices *= 2;
	return size;
}

/* number renames a vertex: an odd factor makes a permutation of a power of two. */
static uint32_t number(uint64_t vertex, uint64_t vertices)
{
	return (uint32_t)(vertex * 0x9e3779b1 & (vertices - 1));
}

static struct edge draw_edge(struct graph_size size, uint64_t seed, uint64_t which)
{
	/* Of 65536: the corner, and the corner with one and with both of its neighbours. */
	enum { CORNER = 37355, FIRST = 49807, SECOND = 62259 };
	uint64_t state = draw_mix(seed ^ draw_mix(which + 1)), bits = 0, from = 0, to = 0;
	unsigned left = 0;

	for (uint64_t half = size.vertices / 2; half > 0; half /= 2) {
		unsigned place;

		if (left == 0) {
			bits = draw_mix(state += 0x9e3779b97f4a7c15);
			left = 4;
		}
		place = bits & 0xffff;
		bits >>= 16;
		left--;
		if (place < CORNER)
			continue;
		if (place < FIRST) {
			to += half;
		} else if (place < SECOND) {
			from += half;
		} else {
			from += half;
			to += half;
		}
	}
	return (struct edge){ number(from, size.vertices), number(to, size.vertices) };
}

/* work is what making a graph needs in memory. */
struct work {
	struct edge *by_source, *by_shard;
	uint32_t *out, *in; /* degrees */
	uint64_t *next;     /* where the next edge goes */
	uint8_t *shard_of;  /* of a vertex */
};

static void free_work(struct work *w)
{
	free(w->by_source);
	free(w->by_shard);
	free(w->out);
	free(w->in);
	free(w->next);
	free(w->shard_of);
}

static bool make_work(struct work *w, struct graph_size size)
{
	size_t places = size.vertices > MOST_SHARDS ? size.vertices : MOST_SHARDS;

	*w = (struct work){
		malloc(size.edges * sizeof(struct edge)), malloc(size.edges * sizeof(struct edge)),
		calloc(size.vertices, sizeof(uint32_t)), calloc(size.vertices, sizeof(uint32_t)),
		calloc(places, sizeof(uint64_t)), malloc(size.vertices),
	};
	return w->by_source && w->by_shard && w->out && w->in && w->next && w->shard_of;
}

/* sort_by_source draws the edges and sorts them by counting. */
static void sort_by_source(struct work *w, struct graph_size size, uint64_t seed)
{
	uint64_t before = 0;

	for (uint64_t i = 0; i < size.edges; i++) {
		struct edge e = draw_edge(size, seed, i);

		w->by_shard[i] = e;
		w->out[e.from]++;
		w->in[e.to]++;
	}
	for (uint64_t v = 0; v < size.vertices; v++) {
		w->next[v] = before;
		before += w->out[v];
	}
	for (uint64_t i = 0; i < size.edges; i++)
		w->by_source[w->next[w->by_shard[i].from]++] = w->by_shard[i];
}

/* divide parts the vertices into intervals with about as many edges into each. */
static void divide(struct work *w, struct graph_size size, struct graph_header *h)
{
	uint64_t wanted = (size.edges * sizeof(struct edge) + SHARD - 1) / SHARD, into = 0;

	if (wanted == 0)
		wanted = 1;
	for (uint64_t v = 0; v < size.vertices; v++) {
		struct shard *s = &h->shard[h->shards];

		if (s->edges == 0 && s->end == 0)
			s->first = (uint32_t)v;
		w->shard_of[v] = (uint8_t)h->shards;
		s->end = (uint32_t)v + 1;
		s->edges += w->in[v];
		into += w->in[v];
		if (into >= size.edges * (h->shards + 1) / wanted && v + 1 < size.vertices && h->shards + 1 < wanted)
			h->shards++;
	}
	h->shards++;
}

/* sort_by_shard puts the edges where the file has them; within a shard they stay in order. */
static void sort_by_shard(struct work *w, struct graph_size size, struct graph_header *h)
{
	uint64_t before = 0, from = PAGE + whole_pages(size.vertices * sizeof(uint32_t));

	for (uint64_t s = 0; s < h->shards; s++) {
		w->next[s] = before;
		h->shard[s].offset = from + before * sizeof(struct edge);
		before += h->shard[s].edges;
	}
	for (uint64_t i = 0; i < size.edges; i++)
		w->by_shard[w->next[w->shard_of[w->by_source[i].to]]++] = w->by_source[i];
}

static bool write_padded(FILE *file, const void *data, size_t bytes)
{
	static const char zeros[PAGE];

	return fwrite(data, 1, bytes, file) == bytes && fwrite(zeros, 1, whole_pages(bytes) - bytes, file) == whole_pages(bytes) - bytes;
}

static bool write_graph(const char *path, const struct work *w, const struct graph_header *h)
{
	FILE *file = fopen(path, "w");
	int cause;

	if (!file)
		return false;
	if (write_padded(file, h, sizeof(*h)) && write_padded(file, w->out, h->vertices * sizeof(*w->out)) &&
	    fwrite(w->by_shard, sizeof(struct edge), h->edges, file) == h->edges)
		return fclose(file) == 0;
	cause = errno;
	fclose(file);
	errno = cause;
	return false;
}

bool make_graph(const char *path, struct graph_size size, uint64_t seed)
{
	struct graph_header h = { .magic = GRAPH_MAGIC, .seed = seed, .vertices = size.vertices, .edges = size.edges };
	struct work w;
	bool made = make_work(&w, size);

	if (made) {
		sort_by_source(&w, size, seed);
		divide(&w, size, &h);
		sort_by_shard(&w, size, &h);
		made = write_graph(path, &w, &h);
	}
	free_work(&w);
	return made;
}
