/*
 * Which name a kernel has, by its handle: told when the program asks for a kernel by name,
 * wanted when it launches one. A table without locks; a handle that comes again has
 * another name then.
 */
#include "probe.h"

enum { HANDLES = 1 << 13, TRIES = 64, LAUNCHED = 1u << 31 };

static struct {
	_Atomic uintptr_t handle;
	_Atomic uint32_t name; /* with LAUNCHED */
} handles[HANDLES];

/* place finds a handle's place, and takes a free one where it has none and take is set; NULL is none. */
static _Atomic uint32_t *place(cu_handle function, bool take)
{
	const uintptr_t h = (uintptr_t)function;
	const uint64_t at = (uint64_t)h * 0x9e3779b97f4a7c15u >> 20;

	if (h == 0)
		return NULL;
	for (uint64_t i = 0; i < TRIES; i++) {
		const uint64_t n = (at + i) % HANDLES;
		uintptr_t there = atomic_load_explicit(&handles[n].handle, memory_order_acquire);

		if (there == 0 && !take)
			return NULL;
		if (there == h || (there == 0 && atomic_compare_exchange_strong(&handles[n].handle, &there, h)) || there == h)
			return &handles[n].name;
	}
	return NULL;
}

void name_function(cu_handle function, const char *name)
{
	_Atomic uint32_t *p = place(function, true);
	const uint32_t n = function_name(name);

	if (p != NULL && (atomic_load(p) & ~LAUNCHED) != n)
		atomic_store(p, n);
}

void name_as(cu_handle function, cu_handle kernel)
{
	_Atomic uint32_t *from = place(kernel, false), *to = place(function, true);

	if (from != NULL && to != NULL)
		atomic_store(to, atomic_load(from));
}

uint32_t function_of(cu_handle function, bool *first)
{
	_Atomic uint32_t *p = place(function, true);
	uint32_t n;

	*first = false;
	if (p == NULL)
		return 0;
	n = atomic_load_explicit(p, memory_order_relaxed);
	if (!(n & LAUNCHED))
		*first = !(atomic_fetch_or(p, LAUNCHED) & LAUNCHED);
	return n & ~LAUNCHED;
}

void functions_forget(void)
{
	for (int i = 0; i < HANDLES; i++) {
		atomic_store_explicit(&handles[i].handle, 0, memory_order_relaxed);
		atomic_store_explicit(&handles[i].name, 0, memory_order_relaxed);
	}
}
