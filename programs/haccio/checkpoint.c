#include "checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static const struct {
	const char *name;
	unsigned width;
} fields[SECTIONS] = {
	{ "header", 1 }, { "xx", 4 }, { "yy", 4 }, { "zz", 4 }, { "vx", 4 }, { "vy", 4 }, { "vz", 4 }, { "phi", 4 }, { "pid", 8 }, { "mask", 2 },
};

/* mixed is the finisher of splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t mixed(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static const uint64_t step = 0x9e3779b97f4a7c15u;

/* section_make writes elements of a section, from the first on. What an element is
 * depends on the seed, the rank, the section and its place alone. */
static void section_make(const struct checkpoint *c, int s, uint64_t first, uint64_t count, unsigned char *to)
{
	uint64_t key = mixed(c->seed + step * ((uint64_t)c->rank * SECTIONS + (uint64_t)s + 1));
	uint64_t i;

	switch (fields[s].width) {
	case 1:
		for (i = first; i < first + count; i++)
			*to++ = (unsigned char)mixed(key + step * i);
		break;
	case 2:
		for (i = first; i < first + count; i++, to += 2) {
			uint16_t mask = (uint16_t)mixed(key + step * i);

			memcpy(to, &mask, sizeof(mask));
		}
		break;
	case 4:
		for (i = first; i < first + count; i++, to += 4) {
			float value = (float)(mixed(key + step * i) >> 40) * 0x1p-24f;

			memcpy(to, &value, sizeof(value));
		}
		break;
	default:
		for (i = first; i < first + count; i++, to += 8) {
			/* No particle has another's number, in any rank. */
			int64_t id = (int64_t)((uint64_t)c->rank * c->particles + i);

			memcpy(to, &id, sizeof(id));
		}
	}
}

void checkpoint_plan(struct checkpoint *c, uint64_t header, uint64_t particles, uint64_t seed, int rank)
{
	*c = (struct checkpoint){ .header = header, .particles = particles, .seed = seed, .rank = rank };
	for (int s = 0; s < SECTIONS; s++) {
		struct section *section = &c->sections[s];

		section->name = fields[s].name;
		section->width = fields[s].width;
		section->offset = c->size;
		section->size = s == 0 ? header : particles * fields[s].width;
		c->size += section->size;
	}
	c->room = (c->size + BLOCK - 1) / BLOCK * BLOCK;
}

int checkpoint_make(struct checkpoint *c)
{
	c->at = mmap(NULL, c->room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (c->at == MAP_FAILED) {
		c->at = NULL;
		return -1;
	}
	for (int s = 0; s < SECTIONS; s++)
		section_make(c, s, 0, c->sections[s].size / c->sections[s].width, c->at + c->sections[s].offset);
	memset(c->at + c->size, 0, c->room - c->size);
	return 0;
}

void checkpoint_spoil(struct checkpoint *c)
{
	for (size_t i = 0; i < c->size; i++)
		c->at[i] = (unsigned char)~c->at[i];
}

int checkpoint_verify(const struct checkpoint *c, char *why, size_t room)
{
	unsigned char right[64 * 1024];

	for (int s = 0; s < SECTIONS; s++) {
		const struct section *section = &c->sections[s];
		uint64_t all = section->size / section->width, most = sizeof(right) / section->width;

		for (uint64_t first = 0; first < all; first += most) {
			uint64_t count = all - first < most ? all - first : most;
			const unsigned char *got = c->at + section->offset + first * section->width;

			section_make(c, s, first, count, right);
			if (!memcmp(got, right, count * section->width))
				continue;
			uint64_t wrong = 0;

			while (got[wrong] == right[wrong])
				wrong++;
			snprintf(why, room, "what rank %d read is not what it wrote: byte %" PRIu64 " of %s, element %" PRIu64 ", is %02x and not %02x",
				c->rank, first * section->width + wrong, section->name, first + wrong / section->width, got[wrong], right[wrong]);
			return -1;
		}
	}
	return 0;
}

void checkpoint_free(struct checkpoint *c)
{
	if (c->at)
		munmap(c->at, c->room);
	c->at = NULL;
}
