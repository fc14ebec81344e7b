#include "record.h"

#include <stdio.h>
#include <string.h>

/* The finaliser of splitmix64 (Steele, Lea, Flood, OOPSLA 2014). */
static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

void record_key(uint64_t number, char key[KEY])
{
	memcpy(key, "user00000000", KEY);
	for (char *digit = key + KEY - 2; number > 0 && digit >= key + 4; number /= 10)
		*digit-- = (char)('0' + number % 10);
}

void record_field(uint64_t number, char field[FIELD])
{
	static const char alphabet[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	char key[KEY], *at = field + KEY + 2, *end = field + FIELD;
	uint64_t state = mix(number);

	record_key(number, key);
	memcpy(field, key, KEY - 1);
	memcpy(field + KEY - 1, " 0 ", 3);
	while (at < end) {
		uint64_t bits = mix(state += 0x9e3779b97f4a7c15);

		for (int i = 0; i < 10 && at < end; i++, bits >>= 6)
			*at++ = alphabet[bits & 63];
	}
}
