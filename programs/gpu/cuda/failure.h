// How a program ends that has no result: one line on standard error, what failed, where and
// what to do, and an exit status for each cause. Whoever starts the program reads the status
// (package gpu has the same table, and its test compares the two).
#pragma once

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
extern const char *program_name;

// chosen_device is the one in use, by its number among those seen.
extern int chosen_device;

// of_mig tells whether a device is an instance of a partitioned one. Its name says so.
bool of_mig(const cudaDeviceProp &properties);

// fail ends the program with a cause's status and one line.
[[noreturn]] __attribute__((format(printf, 2, 3))) void fail(Cause cause, const char *format, ...);

// out_of_memory ends the program where the device's memory does not suffice for what was
// being done, as in "allocate 512 MiB for the matrix".
[[noreturn]] void out_of_memory(const char *what);

// check ends the program where a call of CUDA's failed, by the cause that its error stands
// for; what says what was being done, as in "copy to the device".
void check(cudaError_t error, const char *what);
