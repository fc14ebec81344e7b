// CUDA C++ on a CPU, as far as the programs beside this directory use it, for tests of their
// indexes, barriers and reductions where no device is. Blocks run one after the other, and a
// block's threads are coroutines that give way at barriers and at the exchanges of a warp.
//
// It is stricter than a device, so that what passes here is right there:
//
//   - a barrier that not all threads of the block reach, or that some reach at another line,
//     ends the program, and so does an exchange that not all 32 lanes reach;
//   - shared memory and device memory begin as bytes of 0xff, which as floats are no numbers,
//     and each array lies by itself in memory, so that a sanitizer sees a step beyond it;
//   - work in streams is done as late as it can be, and by EMULATE_ORDER in another order than
//     it was asked for, as far as events allow: a dependency that was forgotten shows;
//   - what was allocated and not freed ends the program when the device is reset.
//
// What it finds wrong it says on one line and ends with status 99. The environment:
//
//   EMULATE_ORDER   ascending (default), descending or shuffled: of threads and of streams
//   EMULATE_FAIL    NAME:ERROR or NAME:ERROR:N: the Nth call of that function of CUDA's
//                   returns that error, by number
//   EMULATE_SPOIL   N: the Nth copy from the device brings one number that is not there
//   EMULATE_DRIVER  the driver's version, as in 12020; default 13000
//   EMULATE_MEMORY  bytes of the device's memory; default 1 GiB
//   EMULATE_NAME    the device's name
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

template <class T>
T min(T a, T b)
{
	return b < a ? b : a;
}

template <class T>
T max(T a, T b)
{
	return a < b ? b : a;
}

struct uint3 {
	unsigned x, y, z;
};

struct dim3 {
	unsigned x, y, z;
	dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

struct alignas(8) float2 {
	float x, y;
};

struct alignas(16) float4 {
	float x, y, z, w;
};

struct alignas(16) int4 {
	int x, y, z, w;
};

struct alignas(16) ulonglong2 {
	unsigned long long x, y;
};

inline float4 make_float4(float x, float y, float z, float w)
{
	return { x, y, z, w };
}

// Errors, by CUDA's numbers.
enum cudaError_t {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInitializationError = 3,
	cudaErrorInvalidConfiguration = 9,
	cudaErrorStubLibrary = 34,
	cudaErrorInsufficientDriver = 35,
	cudaErrorDevicesUnavailable = 46,
	cudaErrorInvalidDeviceFunction = 98,
	cudaErrorNoDevice = 100,
	cudaErrorInvalidDevice = 101,
	cudaErrorInvalidKernelImage = 200,
	cudaErrorNoKernelImageForDevice = 209,
	cudaErrorECCUncorrectable = 214,
	cudaErrorDeviceAlreadyInUse = 216,
	cudaErrorInvalidPtx = 218,
	cudaErrorNvlinkUncorrectable = 220,
	cudaErrorJitCompilerNotFound = 221,
	cudaErrorUnsupportedPtxVersion = 222,
	cudaErrorJitCompilationDisabled = 223,
	cudaErrorSharedObjectInitFailed = 303,
	cudaErrorOperatingSystem = 304,
	cudaErrorNotReady = 600,
	cudaErrorIllegalAddress = 700,
	cudaErrorLaunchTimeout = 702,
	cudaErrorAssert = 710,
	cudaErrorHardwareStackError = 714,
	cudaErrorIllegalInstruction = 715,
	cudaErrorMisalignedAddress = 716,
	cudaErrorInvalidAddressSpace = 717,
	cudaErrorInvalidPc = 718,
	cudaErrorLaunchFailure = 719,
	cudaErrorNotPermitted = 800,
	cudaErrorSystemNotReady = 802,
	cudaErrorSystemDriverMismatch = 803,
	cudaErrorCompatNotSupportedOnDevice = 804,
	cudaErrorMpsConnectionFailed = 805,
	cudaErrorMpsMaxConnectionsReached = 809,
	cudaErrorUnknown = 999,
};

enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };

enum cudaDeviceAttr {
	cudaDevAttrClockRate = 13,
	cudaDevAttrMultiProcessorCount = 16,
	cudaDevAttrComputeMode = 20,
	cudaDevAttrMemoryClockRate = 36,
	cudaDevAttrGlobalMemoryBusWidth = 37,
	cudaDevAttrL2CacheSize = 38,
	cudaDevAttrComputeCapabilityMajor = 75,
	cudaDevAttrComputeCapabilityMinor = 76,
};

enum { cudaHostAllocDefault = 0, cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2 };

struct cudaUUID_t {
	char bytes[16];
};

struct cudaDeviceProp {
	char name[256];
	cudaUUID_t uuid;
	size_t totalGlobalMem;
};

struct cudaFuncAttributes {
	size_t sharedSizeBytes, localSizeBytes;
	int numRegs, ptxVersion, binaryVersion;
};

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;

const char *cudaGetErrorName(cudaError_t);
const char *cudaGetErrorString(cudaError_t);
cudaError_t cudaGetLastError();
cudaError_t cudaDriverGetVersion(int *);
cudaError_t cudaRuntimeGetVersion(int *);
cudaError_t cudaGetDeviceCount(int *);
cudaError_t cudaSetDevice(int);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *, int);
cudaError_t cudaDeviceGetAttribute(int *, cudaDeviceAttr, int);
cudaError_t cudaDeviceGetPCIBusId(char *, int, int);
cudaError_t cudaMemGetInfo(size_t *, size_t *);
cudaError_t cudaDeviceReset();
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *, const void *);
cudaError_t cudaMalloc(void **, size_t);
cudaError_t cudaFree(void *);
cudaError_t cudaHostAlloc(void **, size_t, unsigned);
cudaError_t cudaFreeHost(void *);
cudaError_t cudaMemcpyAsync(void *, const void *, size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaMemsetAsync(void *, int, size_t, cudaStream_t);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *, unsigned);
cudaError_t cudaDeviceGetStreamPriorityRange(int *, int *);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *, unsigned, int);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *, unsigned);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventElapsedTime(float *, cudaEvent_t, cudaEvent_t);

namespace emulate {

// what the running thread sees of its place
struct Place {
	uint3 thread, block;
	dim3 threads, blocks;
};

extern Place place;

void barrier(const char *file, int line);
const uint64_t *exchange(uint64_t value, unsigned mask, const char *file, int line);
void *shared(const void *site, size_t bytes);

// Body is what each thread of a launch runs: a kernel with its arguments.
struct Body {
	virtual void run() = 0;
	virtual ~Body() {}
};

template <class F>
struct BodyOf : Body {
	F function;
	explicit BodyOf(F f) : function(f) {}
	void run() override { function(); }
};

// launch takes the body over.
void launch(const char *name, Body *body, dim3 grid, dim3 block, cudaStream_t stream);

inline unsigned lane()
{
	return (place.thread.x + place.threads.x * (place.thread.y + place.threads.y * place.thread.z)) % 32;
}

template <class T>
uint64_t bits(T value)
{
	static_assert(sizeof value <= sizeof(uint64_t), "an exchange is of at most 8 bytes");
	uint64_t b = 0;
	__builtin_memcpy(&b, &value, sizeof value);
	return b;
}

template <class T>
T of_bits(uint64_t b)
{
	T value;
	__builtin_memcpy(&value, &b, sizeof value);
	return value;
}

template <class T>
T shuffle(unsigned mask, T value, int source, const char *file, int line)
{
	bool inside = source >= 0 && source < 32;
	return of_bits<T>(exchange(bits(value), mask, file, line)[inside ? unsigned(source) : lane()]);
}

inline unsigned ballot(unsigned mask, bool predicate, const char *file, int line)
{
	const uint64_t *values = exchange(predicate, mask, file, line);
	unsigned all = 0;
	for (unsigned i = 0; i < 32; i++)
		all |= unsigned(values[i] != 0) << i;
	return all;
}

// shared_array gives an array of the block's: the same for all its threads.
template <class T>
T &shared_array(const void *site)
{
	return *static_cast<T *>(shared(site, sizeof(T)));
}

} // namespace emulate

#define threadIdx (emulate::place.thread)
#define blockIdx (emulate::place.block)
#define blockDim (emulate::place.threads)
#define gridDim (emulate::place.blocks)

#define __syncthreads() emulate::barrier(__FILE__, __LINE__)
#define __syncwarp() (void)emulate::exchange(0, 0xffffffffu, __FILE__, __LINE__)
#define __shfl_sync(mask, value, source) emulate::shuffle(mask, value, int(source) & 31, __FILE__, __LINE__)
#define __shfl_up_sync(mask, value, by) emulate::shuffle(mask, value, int(emulate::lane()) - int(by), __FILE__, __LINE__)
#define __shfl_down_sync(mask, value, by) emulate::shuffle(mask, value, int(emulate::lane()) + int(by), __FILE__, __LINE__)
#define __shfl_xor_sync(mask, value, by) emulate::shuffle(mask, value, int(emulate::lane()) ^ int(by), __FILE__, __LINE__)
#define __ballot_sync(mask, predicate) emulate::ballot(mask, (predicate) != 0, __FILE__, __LINE__)
#define __any_sync(mask, predicate) (emulate::ballot(mask, (predicate) != 0, __FILE__, __LINE__) != 0)

inline int __popc(unsigned x)
{
	return __builtin_popcount(x);
}

inline int __ffs(int x)
{
	return __builtin_ffs(x);
}

inline unsigned __float_as_uint(float x)
{
	return emulate::of_bits<unsigned>(emulate::bits(x));
}

// Only one thread of one block runs at any moment, so that every access is atomic.
template <class T>
T atomicAdd(T *at, T value)
{
	T was = *at;
	*at = was + value;
	return was;
}

template <class T>
T atomicMax(T *at, T value)
{
	T was = *at;
	if (value > was)
		*at = value;
	return was;
}

template <class T>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, T *kernel)
{
	return cudaFuncGetAttributes(a, reinterpret_cast<const void *>(kernel));
}
