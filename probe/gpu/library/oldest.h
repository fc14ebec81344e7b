/*
 * A library that is built on the host runs in containers whose C library may be older.
 * Functions that moved into libc.so in version 2.34 are asked for as of the version that
 * they have had from the beginning, which newer ones have too.
 */
#ifndef TARE_GPU_OLDEST_H
#define TARE_GPU_OLDEST_H

#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#else
#define OLDEST "GLIBC_2.17"
#endif

__asm__(".symver dlopen, dlopen@" OLDEST);
__asm__(".symver dlerror, dlerror@" OLDEST);
__asm__(".symver dlvsym, dlvsym@" OLDEST);
__asm__(".symver pthread_once, pthread_once@" OLDEST);
__asm__(".symver pthread_key_create, pthread_key_create@" OLDEST);
__asm__(".symver pthread_setspecific, pthread_setspecific@" OLDEST);

#endif
