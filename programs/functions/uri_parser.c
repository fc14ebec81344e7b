/*
 * uri-parser splits URIs into tokens: scheme, host, port, the segments of the
 * path, the names and values of the query, fragment (RFC 3986, the generic
 * syntax with an authority and without user information; "name=value" pairs
 * between ampersands are custom, not syntax).
 */
#include "function.h"

#include <stdlib.h>
#include <string.h>

enum kind { SCHEME, HOST, PORT, SEGMENT, NAME, VALUE, FRAGMENT };

struct token {
	uint32_t start; /* in the input */
	uint16_t length;
	uint16_t kind;
};

static struct token *tokens;
static size_t count, room;

static char *text(char *to, const char *what)
{
	size_t length = strlen(what);

	memcpy(to, what, length);
	return to + length;
}

static char *write_uri(struct random *random, char *to)
{
	static const char *const schemes[] = { "http", "https", "ftp", "ws" };
	static const char *const domains[] = { ".com", ".org", ".net", ".edu" };

	to = text(to, schemes[below(random, 4)]);
	to = text(to, "://");
	to = letters(random, to, 3, 10);
	if (below(random, 2)) {
		*to++ = '.';
		to = letters(random, to, 3, 10);
	}
	to = text(to, domains[below(random, 4)]);
	if (below(random, 4) == 0) {
		*to++ = ':';
		*to++ = '8';
		for (int i = 0; i < 3; i++)
			*to++ = (char)('0' + below(random, 10));
	}
	for (unsigned n = 1 + below(random, 5); n > 0; n--) {
		*to++ = '/';
		to = letters(random, to, 1, 12);
	}
	if (below(random, 2)) {
		char before = '?';

		for (unsigned n = 1 + below(random, 3); n > 0; n--) {
			*to++ = before;
			to = letters(random, to, 1, 8);
			*to++ = '=';
			to = letters(random, to, 1, 8);
			before = '&';
		}
	}
	if (below(random, 4) == 0) {
		*to++ = '#';
		to = letters(random, to, 1, 8);
	}
	return to;
}

static bool keep(enum kind kind, size_t start, size_t end)
{
	struct token *grown = grow(tokens, count, &room, sizeof(*tokens));

	if (!grown)
		return false;
	tokens = grown;
	tokens[count++] = (struct token){ (uint32_t)start, (uint16_t)(end - start), (uint16_t)kind };
	return true;
}

/* ends tells whether a byte ends a token of a kind, and the kind that follows. */
static bool ends(enum kind *kind, char byte)
{
	enum kind was = *kind;

	switch (byte) {
	case ':':
		*kind = PORT;
		return was == HOST;
	case '/':
		*kind = SEGMENT;
		return was == HOST || was == PORT || was == SEGMENT;
	case '?':
		*kind = NAME;
		return was == HOST || was == PORT || was == SEGMENT;
	case '=':
		*kind = VALUE;
		return was == NAME;
	case '&':
		*kind = NAME;
		return was == NAME || was == VALUE;
	case '#':
		*kind = FRAGMENT;
		return was != FRAGMENT;
	default:
		return false;
	}
}

static bool take_uri(const char *uri, size_t length, size_t offset)
{
	const char *authority = memmem(uri, length, "://", 3);
	enum kind kind = HOST, then;
	size_t start, at;

	if (!authority) /* no URI with an authority */
		return keep(SCHEME, offset, offset);
	at = (size_t)(authority - uri);
	if (!keep(SCHEME, offset, offset + at))
		return false;
	for (start = at += 3; at < length; at++) {
		then = kind;
		if (!ends(&then, uri[at]))
			continue;
		if (!keep(kind, offset + start, offset + at))
			return false;
		kind = then;
		start = at + 1;
	}
	return keep(kind, offset + start, offset + length);
}

static size_t results(void)
{
	return count;
}

static uint64_t checksum(void)
{
	uint64_t sum = FOLD_START;

	for (size_t i = 0; i < count; i++) {
		sum = fold(sum, tokens[i].kind);
		sum = fold(sum, tokens[i].start);
		sum = fold(sum, tokens[i].length);
	}
	return sum;
}

const struct function function = { "uri-parser", write_uri, take_uri, results, checksum };
