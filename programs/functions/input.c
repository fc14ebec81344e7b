#include "input.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

uint64_t draw(struct random *random)
{
	return mix(random->state += 0x9e3779b97f4a7c15);
}

char *letters(struct random *random, char *to, unsigned least, unsigned most)
{
	static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";

	for (unsigned n = least + below(random, most - least + 1); n > 0; n--)
		*to++ = alphabet[below(random, sizeof(alphabet) - 1)];
	return to;
}

static void make_page(char page[PAGE], uint64_t seed, uint64_t number, writer write_record)
{
	struct random random = { mix(seed ^ mix(number + 1)) };
	char record[MOST_RECORD];
	size_t used = 0;

	memset(page, '\n', PAGE);
	for (;;) {
		size_t length = (size_t)(write_record(&random, record) - record);

		if (used + length + 1 > PAGE)
			return;
		memcpy(page + used, record, length);
		used += length + 1;
	}
}

bool make_input(const char *path, size_t bytes, uint64_t seed, writer write_record)
{
	char page[PAGE];
	FILE *file = fopen(path, "w");

	if (!file)
		return false;
	for (uint64_t number = 0; number < bytes / PAGE; number++) {
		make_page(page, seed, number, write_record);
		if (fwrite(page, PAGE, 1, file) != 1) {
			int cause = errno;

			fclose(file);
			errno = cause;
			return false;
		}
	}
	return fclose(file) == 0;
}
