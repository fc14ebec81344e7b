/*
 * A libcupti.so for tests: it gives out records that are known beforehand, when it is
 * flushed, in two buffers. Its clock is the host's and an hour, or as FAKE_CUPTI_DRIFT
 * says in parts per million faster. The records are written by the offsets of NVIDIA's
 * documentation, not by the declarations of what is tested.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, LIMIT = 12, NOT_INITIALIZED = 15 };

static void (*request)(uint8_t **, size_t *, size_t *);
static void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t);
static uint64_t enabled;
static long kernels;

static uint64_t host(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t mine(uint64_t at)
{
	const char *ppm = getenv("FAKE_CUPTI_DRIFT");

	return 3600000000000u + at + (ppm == NULL ? 0 : at * (uint64_t)atol(ppm) / 1000000);
}

static int number(const char *name, int otherwise)
{
	const char *text = getenv(name);

	return text == NULL ? otherwise : atoi(text);
}

int cuptiGetVersion(uint32_t *v) { *v = (uint32_t)number("FAKE_CUPTI_VERSION", 22); return OK; }
int cuptiGetTimestamp(uint64_t *t) { *t = mine(host()); return OK; }
int cuptiGetResultString(int r, const char **text) { *text = r == NOT_INITIALIZED ? "CUPTI_ERROR_NOT_INITIALIZED" : "CUPTI_ERROR_OTHER"; return OK; }
int cuptiSetThreadIdType(int type) { return type == 1 ? OK : 1; }
int cuptiActivityFlushPeriod(uint32_t ms) { return ms > 0 ? OK : 1; }

int cuptiActivityRegisterCallbacks(void (*r)(uint8_t **, size_t *, size_t *), void (*c)(void *, uint32_t, uint8_t *, size_t, size_t))
{
	request = r;
	complete = c;
	kernels = number("FAKE_CUPTI_KERNELS", 3);
	return OK;
}

int cuptiActivityEnable(int kind)
{
	if (kind == number("FAKE_CUPTI_REFUSES", -1))
		return NOT_INITIALIZED;
	enabled |= (uint64_t)1 << kind;
	return OK;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *n)
{
	(void)context;
	(void)stream;
	*n = (size_t)number("FAKE_CUPTI_DROPS", 0);
	return OK;
}

int cuptiGetCallbackName(int domain, uint32_t id, const char **name)
{
	if (domain == 1 && id == 307)
		*name = "cuLaunchKernel";
	else if (domain == 1 && id == 243)
		*name = "cuMemAlloc_v2";
	else if (domain == 2 && id == 211)
		*name = "cudaLaunchKernel_v7000";
	else if (domain == 2 && id == 20)
		*name = "cudaMalloc_v3020";
	else
		return 1;
	return OK;
}

/* Each record begins with its size here, which cuptiActivityGetNextRecord leaves out. */
static uint8_t *at, *last;
static int full;

static uint8_t *add(uint32_t kind, size_t size)
{
	uint8_t *p = at + 8;

	if (!(enabled >> kind & 1) && kind != 40)
		return NULL;
	if (at + 8 + size > last) {
		full = 1;
		return NULL;
	}
	memset(p, 0, size);
	memcpy(at, &size, 8);
	memcpy(p, &kind, 4);
	at = p + size;
	return p;
}

#define SET8(offset, value) p[offset] = (uint8_t)(value)
#define SET32(offset, value) do { uint32_t v_ = (uint32_t)(value); memcpy(p + (offset), &v_, 4); } while (0)
#define SET64(offset, value) do { uint64_t v_ = (uint64_t)(value); memcpy(p + (offset), &v_, 8); } while (0)

static uint64_t origin;

/* A call of the runtime that lasts 10 us, with one of the driver in it of 6 us. */
static void call(uint32_t runtime, uint32_t driver, uint64_t from, uint32_t correlation)
{
	uint8_t *p = add(5, 40);

	if (p != NULL) {
		SET32(4, runtime); SET64(8, mine(origin + from)); SET64(16, mine(origin + from) + 10000); SET32(24, 77); SET32(28, 4242); SET32(32, correlation); SET32(36, 0);
	}
	p = add(4, 40);
	if (p != NULL) {
		SET32(4, driver); SET64(8, mine(origin + from + 2000)); SET64(16, mine(origin + from + 2000) + 6000); SET32(24, 77); SET32(28, 4242); SET32(32, correlation); SET32(36, 0);
	}
}

static void kernel(const char *name, uint32_t stream, uint64_t from, uint64_t ns, uint32_t correlation)
{
	uint8_t *p = add(10, 208);

	if (p == NULL)
		return;
	SET64(16, mine(origin + from)); SET64(24, mine(origin + from) + ns); SET32(40, 1); SET32(44, 3); SET32(48, stream); SET32(92, correlation);
	memcpy(p + 104, &name, 8);
}

static void copy(uint8_t direction, uint8_t from_kind, uint8_t to_kind, uint8_t flags, uint64_t bytes, uint64_t from, uint64_t ns)
{
	uint8_t *p = add(1, 88);

	if (p == NULL)
		return;
	SET8(4, direction); SET8(5, from_kind); SET8(6, to_kind); SET8(7, flags);
	SET64(8, bytes); SET64(16, mine(origin + from)); SET64(24, mine(origin + from) + ns); SET32(32, 1); SET32(36, 3); SET32(40, 7); SET32(44, 99);
}

static void jit(uint32_t operation, uint64_t from, uint64_t ns, uint64_t bytes)
{
	uint8_t *p = add(52, 72);

	if (p == NULL)
		return;
	SET32(4, 1); SET32(8, operation); SET32(12, 1); SET64(16, mine(origin + from)); SET64(24, mine(origin + from) + ns); SET32(32, 5); SET64(48, bytes);
}

static void begin(uint8_t **buffer, size_t *size)
{
	size_t most = 1;

	request(buffer, size, &most);
	at = *buffer;
	last = *buffer + *size;
}

int cuptiActivityFlushAll(uint32_t flag)
{
	uint8_t *buffer = NULL, *p;
	size_t size = 0;

	if (complete == NULL || flag != 1)
		return OK;
	origin = host();
	begin(&buffer, &size);
	if (buffer == NULL)
		return OK;
	call(20, 243, 0, 1);
	call(211, 307, 20000, 2);
	call(211, 307, 40000, 3);
	kernel("first", 7, 50000, 30000, 2);
	kernel("second", 8, 60000, 40000, 3); /* beside the first */
	complete(NULL, 0, buffer, size, (size_t)(at - buffer));

	begin(&buffer, &size);
	for (long i = 2; i < kernels; i++)
		kernel("first", 7, 200000 + 10000 * (uint64_t)i, 5000, 4);
	copy(1, 1, 3, 0, 4096, 110000, 8000);
	copy(2, 3, 2, 1, 8192, 120000, 4000);
	jit(3, 0, 25000000, 1000);
	jit(2, 25000000, 100000, 1000);
	jit(1, 30000000, 70000, 1000);
	p = add(2, 64);
	if (p != NULL) {
		SET64(8, 512); SET64(16, mine(origin + 130000)); SET64(24, mine(origin + 130000) + 2000); SET32(32, 1); SET32(48, 0x30001);
	}
	p = add(17, 40);
	if (p != NULL) {
		SET32(4, 5 << 16); SET32(16, 4242); SET64(24, mine(origin)); SET64(32, mine(origin) + 3000);
	}
	add(40, 64); /* a kind that was not asked for */
	complete(NULL, 0, buffer, size, (size_t)(at - buffer));
	return full ? 1 : OK;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record)
{
	uint8_t *next = buffer;
	size_t size;

	if (*record != NULL && (uint8_t *)*record > buffer && (uint8_t *)*record < buffer + valid) {
		memcpy(&size, (uint8_t *)*record - 8, 8);
		next = (uint8_t *)*record + size;
	}
	if (next >= buffer + valid)
		return LIMIT;
	*record = next + 8;
	return OK;
}
