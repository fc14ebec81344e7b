// How a program ends that has no result: one line on standard error, what failed, where and
// what to do, and an exit status for each cause. Whoever starts the program reads the status
// (package gpu has the same table, and its test compares the two).
#pragma once

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "device.h"

enum class Cause {
	failed = 1,         // what none of the others covers
	usage = 2,          // the command line is wrong
	no_driver = 10,     // no driver, or its library cannot be found
	old_driver = 11,    // older than the CUDA runtime in this program
	no_device = 12,     // none, or not the one that was asked for
	no_code = 13,       // this program holds none for the device
	new_ptx = 14,       // newer than the driver can compile
	no_jit = 15,        // PTX cannot be compiled here
	device_memory = 16, // the device's memory does not suffice
	busy = 17,          // others hold the device, or its mode forbids this use
	mig_memory = 18,    // a MIG instance's memory does not suffice
	not_ready = 19,     // the driver does not answer as it should
	device_fault = 20,  // the device failed while the program ran
	wrong = 21,         // the results are
	host_memory = 22,   // the host's memory does not suffice
};

// program_name is set by main, before anything can fail.
inline const char *program_name = "gpu";

[[noreturn]] __attribute__((format(printf, 2, 3))) inline void fail(Cause cause, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fflush(stdout);
	fprintf(stderr, "%s: ", program_name);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	exit(int(cause));
}

// of_mig tells whether a device is an instance of a partitioned one. Its name says so.
inline bool of_mig(const cudaDeviceProp &properties)
{
	return strstr(properties.name, " MIG ") != nullptr;
}

// chosen_device is the one in use, by its number among those seen.
inline int chosen_device = 0;

// out_of_memory ends the program where the device's memory does not suffice for what was
// being done, as in "allocate 512 MiB for the matrix".
[[noreturn]] inline void out_of_memory(const char *what)
{
	size_t available = 0, total = 0;
	const double mib = 1 << 20;
	cudaDeviceProp properties;

	cudaGetLastError();
	if (cudaMemGetInfo(&available, &total) != cudaSuccess)
		available = total = 0;
	if (cudaGetDeviceProperties(&properties, chosen_device) == cudaSuccess && of_mig(properties))
		fail(Cause::mig_memory, "%s: the MIG instance has %.0f MiB, of which %.0f are free: choose a smaller --size or a larger instance",
		     what, double(total) / mib, double(available) / mib);
	fail(Cause::device_memory, "%s: the device has %.0f MiB, of which %.0f are free: choose a smaller --size, or wait until others have freed theirs",
	     what, double(total) / mib, double(available) / mib);
}

// check ends the program where a call of CUDA's failed, by the cause that its error stands
// for; what says what was being done, as in "copy the input to the device".
inline void check(cudaError_t error, const char *what)
{
	const char *name, *means;
	int driver = 0, runtime = 0;

	if (error == cudaSuccess)
		return;
	name = cudaGetErrorName(error);
	means = cudaGetErrorString(error);
	switch (error) {
	case cudaErrorInsufficientDriver:
	case cudaErrorStubLibrary:
		// The runtime says this as well where it finds no driver at all.
		if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
			fail(Cause::no_driver, "%s: no NVIDIA driver is found (%s): load the driver, and let the program find libcuda.so.1", what, name);
		if (cudaRuntimeGetVersion(&runtime) != cudaSuccess)
			runtime = 0;
		fail(Cause::old_driver, "%s: the driver serves CUDA %d.%d, the program needs %d.%d (%s): install a newer driver, or build the program with an older toolkit",
		     what, driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10, name);
	case cudaErrorSystemDriverMismatch:
	case cudaErrorCompatNotSupportedOnDevice:
		fail(Cause::old_driver, "%s: the driver's library and its kernel module do not fit together (%s: %s): give the program the library of the module's version", what, name, means);
	case cudaErrorNoDevice:
		fail(Cause::no_device, "%s: the driver shows no device (%s): pass one to the program, and see that CUDA_VISIBLE_DEVICES does not hide it", what, name);
	case cudaErrorInvalidDevice:
		fail(Cause::no_device, "%s: there is no device %d (%s): choose one by --device", what, chosen_device, name);
	case cudaErrorNoKernelImageForDevice:
	case cudaErrorInvalidDeviceFunction:
	case cudaErrorInvalidKernelImage:
		fail(Cause::no_code, "%s: the program holds no code for this device, but for %s (%s): build it for the device's compute capability, or with PTX", what, BUILD_TARGETS, name);
	case cudaErrorUnsupportedPtxVersion:
	case cudaErrorInvalidPtx:
		fail(Cause::new_ptx, "%s: the driver cannot compile the program's PTX, which is of CUDA %d.%d (%s): install a newer driver, or build the program with an older toolkit",
		     what, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, name);
	case cudaErrorJitCompilerNotFound:
		fail(Cause::no_jit, "%s: the driver's compiler of PTX is missing (%s): let the program find libnvidia-ptxjitcompiler.so.1, or build it for the exact device", what, name);
	case cudaErrorJitCompilationDisabled:
		fail(Cause::no_jit, "%s: compiling PTX is switched off (%s): unset CUDA_DISABLE_PTX_JIT, or build the program for the exact device", what, name);
	case cudaErrorMemoryAllocation:
		out_of_memory(what);
	case cudaErrorDevicesUnavailable:
	case cudaErrorDeviceAlreadyInUse:
		fail(Cause::busy, "%s: the device is held by others or its compute mode forbids this (%s): end what holds it, or set its compute mode to default", what, name);
	case cudaErrorMpsConnectionFailed:
	case cudaErrorMpsMaxConnectionsReached:
		fail(Cause::busy, "%s: the server that shares the device does not take the program (%s: %s): start it, or end one of its clients", what, name, means);
	case cudaErrorInitializationError:
	case cudaErrorSharedObjectInitFailed:
	case cudaErrorOperatingSystem:
	case cudaErrorNotPermitted:
	case cudaErrorSystemNotReady:
		fail(Cause::not_ready, "%s: the driver does not answer as it should (%s: %s): see that /dev/nvidia* can be opened, /dev/nvidia-uvm among them, and that the device's services run",
		     what, name, means);
	case cudaErrorECCUncorrectable:
	case cudaErrorNvlinkUncorrectable:
	case cudaErrorIllegalAddress:
	case cudaErrorLaunchTimeout:
	case cudaErrorAssert:
	case cudaErrorHardwareStackError:
	case cudaErrorIllegalInstruction:
	case cudaErrorMisalignedAddress:
	case cudaErrorInvalidAddressSpace:
	case cudaErrorInvalidPc:
	case cudaErrorLaunchFailure:
		fail(Cause::device_fault, "%s: the device failed (%s: %s): see the kernel's log for its Xid errors", what, name, means);
	default:
		fail(Cause::failed, "%s: %s: %s: run it again with compute-sanitizer to learn more", what, name, means);
	}
}
