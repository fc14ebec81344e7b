#define _GNU_SOURCE
#include "cache.h"

#include <sched.h>
#include <stdint.h>
#include <unistd.h>

#ifdef __x86_64__
#include <cpuid.h>

/*
 * The CPU is asked for its caches, one subleaf each (Intel's leaf 4, AMD's
 * 0x8000001d, the same layout). The C library's own answer is the sum over a whole
 * AMD package, and /sys is not mounted everywhere that we run.
 */
static size_t largest_by_cpuid(unsigned *sharing)
{
	unsigned leaf = 4, a, b, c, d;
	size_t most = 0;

	*sharing = 0;
	if (__get_cpuid(0x80000001, &a, &b, &c, &d) && (c & 1u << 22) != 0)
		leaf = 0x8000001d;
	for (unsigned i = 0; i < 16 && __get_cpuid_count(leaf, i, &a, &b, &c, &d); i++) {
		size_t size = (size_t)((b >> 22) + 1) * ((b >> 12 & 0x3ff) + 1) * ((b & 0xfff) + 1) * ((size_t)c + 1);

		if ((a & 0x1f) == 0)
			break; /* no more caches */
		if ((a & 0x1f) != 2 && size > most) { /* not of instructions */
			most = size;
			*sharing = (a >> 14 & 0xfff) + 1;
		}
	}
	return most;
}

/* MOST_CACHES is how many are told apart: more than a host has of its largest ones. */
#define MOST_CACHES 256

/*
 * count_caches goes to each CPU that it may use and asks for its number there
 * (leaf 11, x2APIC): those that agree but for the low bits share the cache. It
 * comes back to where it was allowed before.
 */
static int count_caches(unsigned sharing, int most)
{
	unsigned shift = 0, a, b, c, d, seen[MOST_CACHES];
	cpu_set_t allowed, one;
	int found = 0;

	while (1u << shift < sharing)
		shift++;
	/* Masks of a fixed size suffice up to 1024 CPUs; beyond, nobody tells. */
	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		return 1;
	for (int cpu = 0; cpu < CPU_SETSIZE && found < most && found < MOST_CACHES; cpu++) {
		int i = 0;

		if (!CPU_ISSET(cpu, &allowed))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (sched_setaffinity(0, sizeof(one), &one) != 0 || !__get_cpuid_count(0xb, 0, &a, &b, &c, &d))
			continue;
		while (i < found && seen[i] != d >> shift)
			i++;
		if (i == found)
			seen[found++] = d >> shift;
	}
	sched_setaffinity(0, sizeof(allowed), &allowed);
	return found > 0 ? found : 1;
}

int caches_reached(int processes)
{
	unsigned sharing;

	return largest_by_cpuid(&sharing) > 0 ? count_caches(sharing, processes) : 1;
}
#else
static size_t largest_by_cpuid(unsigned *sharing)
{
	*sharing = 0;
	return 0;
}

int caches_reached(int processes)
{
	(void)processes;
	return 1;
}
#endif

size_t largest_cache(void)
{
	static const int names[] = { _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL4_CACHE_SIZE };
	unsigned sharing;
	size_t most = largest_by_cpuid(&sharing);

	if (most > 0)
		return most;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		long size = sysconf(names[i]);

		if (size > 0 && (size_t)size > most)
			most = (size_t)size;
	}
	return most;
}
