/*
 * annex_hint tells the kernel which memory a program is about to use when it has slept and
 * a request comes: what of it is in swap is asked for in bulk, where each page would
 * otherwise be waited for when it is touched.
 *
 * It works inside the program alone, on the program's own memory. It needs no privilege
 * and no daemon, and changes no content: all that it gives is advice.
 *
 * Each function may be called by any thread, and in a signal handler. None waits for
 * another thread, nor is one a cancellation point.
 */
#ifndef ANNEX_HINT_H
#define ANNEX_HINT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ANNEX_ARENAS is how many arenas can be registered at a time. */
#define ANNEX_ARENAS 64

/*
 * annex_arena registers length bytes from start on as memory that requests use: private
 * anonymous memory, such as mmap and malloc give. What counts is the whole pages within.
 * An arena of the same start is replaced.
 *
 * It gives 0, or -1 with errno:
 *   EINVAL   there is no whole page within, or the range runs past the end of memory
 *   ENOSPC   ANNEX_ARENAS of them are registered: forget one first
 *   EBUSY    another thread is registering one at this moment: call again
 *   ENOTSUP  a variable of the environment has a bad value, so the library is off
 */
int annex_arena(void *start, size_t length);

/*
 * annex_forget takes back the arena that was registered with this start: call it before the
 * memory is given back. Advice on memory that is no more is refused by the kernel, and
 * does no harm.
 *
 * It gives 0, or -1 with errno:
 *   ENOENT   no arena was registered with this start
 *   EBUSY    another thread is registering one at this moment: call again
 *   ENOTSUP  as of annex_arena
 */
int annex_forget(void *start);

/*
 * annex_request says that a request begins: what of the arenas is in swap is asked for. It
 * does not wait until that has been read where the device reads by itself.
 *
 * Within 10 ms of the last look, and while another thread looks, it does nothing. errno
 * stays as it is.
 */
void annex_request(void);

#ifdef __cplusplus
}
#endif

#endif
