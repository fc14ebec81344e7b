/*
 * What is needed of the CUDA driver API, by its documented binary interface: handles are
 * pointers, addresses of the device 64 bits, results and enumerations ints. Nothing here
 * is of NVIDIA's headers, which need not be there.
 *
 * Sources: CUDA Driver API Reference (versions of each function as in its section on
 * driver entry point access), up to CUDA 13.5.
 */
#ifndef TARE_GPU_DRIVER_H
#define TARE_GPU_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int cu_result;
typedef int cu_device;
typedef void *cu_handle; /* contexts, streams, events, modules, functions, graphs */
typedef unsigned long long cu_address;

/* The newest version whose functions are known here. */
enum { NEWEST = 13050 };

enum {
	CU_SUCCESS = 0,
	CU_NOT_FOUND = 302, /* CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND */
	CU_NOT_READY = 600,
};

enum { CU_MEMORY_HOST = 1, CU_MEMORY_DEVICE, CU_MEMORY_ARRAY, CU_MEMORY_UNIFIED };
enum { CU_POINTER_MEMORY_TYPE = 2, CU_POINTER_IS_MANAGED = 8 };
enum { CU_ATTRIBUTE_MULTIPROCESSORS = 16, CU_ATTRIBUTE_COMPUTE_MODE = 20, CU_ATTRIBUTE_MAJOR = 75, CU_ATTRIBUTE_MINOR = 76 };
enum { CU_STREAM_NON_BLOCKING = 1 };
enum { CU_PER_THREAD_STREAMS = 2 }; /* of the flags of cuGetProcAddress */

#define CU_STREAM_PER_THREAD ((cu_handle)2)

/* CUDA_MEMCPY2D of version 2. */
struct cu_copy2d {
	size_t from_x, from_y;
	int from_type;
	const void *from_host;
	cu_address from_device;
	cu_handle from_array;
	size_t from_pitch;
	size_t to_x, to_y;
	int to_type;
	void *to_host;
	cu_address to_device;
	cu_handle to_array;
	size_t to_pitch;
	size_t width, height; /* width: bytes */
};

/* CUDA_MEMCPY3D of version 2, and CUDA_MEMCPY3D_PEER. */
struct cu_copy3d {
	size_t from_x, from_y, from_z, from_lod;
	int from_type;
	const void *from_host;
	cu_address from_device;
	cu_handle from_array, from_context;
	size_t from_pitch, from_height;
	size_t to_x, to_y, to_z, to_lod;
	int to_type;
	void *to_host;
	cu_address to_device;
	cu_handle to_array, to_context;
	size_t to_pitch, to_height;
	size_t width, height, depth; /* width: bytes */
};

struct cu_launch {
	unsigned grid[3], block[3], shared;
	cu_handle stream;
	void *attributes;
	unsigned attribute_count;
};

_Static_assert(sizeof(struct cu_copy2d) == 128 && offsetof(struct cu_copy2d, width) == 112, "CUDA_MEMCPY2D");
_Static_assert(sizeof(struct cu_copy3d) == 200 && offsetof(struct cu_copy3d, width) == 176, "CUDA_MEMCPY3D");
_Static_assert(sizeof(struct cu_launch) == 56 && offsetof(struct cu_launch, stream) == 32, "CUlaunchConfig");

#endif
