/* What the parts of the library have of each other. */
#ifndef TARE_GPU_PROBE_H
#define TARE_GPU_PROBE_H

#include "driver.h"
#include "trace.h"

/*
 * What the library does: nothing yet; it finds out what; it records by the functions that
 * it stands before; or these hand on and no more, as CUPTI records, or nobody asked.
 */
enum state { IDLE, BEGINNING, RECORDING, PASSING };
extern _Atomic int state;

/* begin finds out what is to be done, once; true where the functions are to record. */
bool begin(void);

/* settle tries CUPTI where that was put off until the driver is being initialised. */
void settle(void);

/* end closes the trace, once, in the process that opened it. */
void end(void);

/* started notes what the driver and its devices are, once, when it has been initialised. */
void started(void);

/* --- interpose.c --- */

/* standing tells whether programs get this library's functions for the driver's. */
bool standing(void);

/* driver_symbol finds a function of the driver itself; NULL where it has none of that name. */
void *driver_symbol(const char *name);

/* interpose_forget is for a child: no call is under way in it. */
void interpose_forget(void);

/* --- functions.c: which name a handle of a kernel has --- */

void name_function(cu_handle function, const char *name);
void name_as(cu_handle function, cu_handle kernel);

/* function_of gives the name's number, 0 where there is none, and whether it was launched before. */
uint32_t function_of(cu_handle function, bool *first);

void functions_forget(void);

/* --- timing.c: how long the device worked, by events around what it is given --- */

struct work {
	uint8_t kind, direction, from, to;
	bool async;
	uint32_t label, correlation; /* label: the name of the kernel */
	uint64_t bytes;
};

struct slot;

/* timing_begin marks the beginning in a stream; NULL where this one is not timed. */
struct slot *timing_begin(cu_handle stream);

/* timing_end marks the end of what was begun, or takes the mark back where the call failed. */
void timing_end(struct slot *slot, cu_handle stream, bool failed, const struct work *work);

/* timing_collect takes down what has ended of the current context. */
void timing_collect(void);

/* timing_finish takes down what has ended of all contexts, and counts what has not. */
void timing_finish(void);

/* timing_abandon counts what has not been taken down, and asks nobody. */
void timing_abandon(void);

/* timing_drop forgets a context that is about to be destroyed. */
void timing_drop(cu_handle context);

void timing_primary(cu_handle context, cu_device device);
void timing_drop_primary(cu_device device, bool reset);

/* capturing notes that a graph is being made of a stream, or no more. */
void capturing(bool begun);
bool captures(void);

void timing_forget(void);
void timing_sample(uint32_t every);

/* --- image.c: what a module is made of --- */

struct image {
	uint64_t bytes; /* 0 where its end cannot be told */
	uint8_t form;
	uint16_t cubins, ptx;
	uint16_t archs[32]; /* of the cubins: 10 * major + minor */
};

struct image image_of(const void *image);
struct image image_of_file(const char *path);

/* image_compiles tells whether an image has to be compiled for a device. */
uint8_t image_compiles(const struct image *image, uint32_t arch);

/* --- cupti.c --- */

/* cupti_begin has CUPTI record; false with the reason where it cannot. */
bool cupti_begin(char *why, size_t room);

/* cupti_flush takes what it has of a context that is about to go. */
void cupti_flush(void);

/* cupti_end takes what it still has. */
void cupti_end(void);

void cupti_forget(void);

#endif
