/*
 * empty does nothing until a signal asks it to end: what it costs to start is
 * what the platform costs, and the floor of every start-up.
 *
 * It has no C library, so that not even that one's start-up is in the figure:
 * between the kernel's handing over and the wait lie a few instructions and one
 * system call. With any argument it does not wait, and ends at once.
 *
 * The signals are waited for and not handled: they are blocked, so that they
 * reach it also as the first process of a namespace, where the kernel drops
 * those that have neither a handler nor a wait.
 */
#include <asm/signal.h>
#include <asm/unistd.h>

#define BIT(signal) (1UL << ((signal) - 1))

/* Enters the kernel with up to four arguments. */
static long call(long number, long a, long b, long c, long d)
{
#if defined(__x86_64__)
	long result;
	register long r10 __asm__("r10") = d;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
#else
#error "empty knows no system calls of this architecture: add its registers here"
#endif
}

/* The kernel leaves the number of arguments at the top of the stack. */
#if defined(__x86_64__)
__asm__(".globl _start\n"
	"_start:\n"
	"	xor	%ebp, %ebp\n"
	"	mov	(%rsp), %rdi\n"
	"	and	$-16, %rsp\n"
	"	call	run\n");
#elif defined(__aarch64__)
__asm__(".globl _start\n"
	"_start:\n"
	"	mov	x29, xzr\n"
	"	mov	x30, xzr\n"
	"	ldr	x0, [sp]\n"
	"	b	run\n");
#endif

void run(long arguments);

__attribute__((noreturn, used)) void run(long arguments)
{
	unsigned long end = BIT(SIGTERM) | BIT(SIGINT) | BIT(SIGHUP) | BIT(SIGQUIT);

	if (arguments <= 1) {
		call(__NR_rt_sigprocmask, SIG_BLOCK, (long)&end, 0, sizeof(end));
		/* A stop and a continuation interrupt the wait; they do not end it. */
		while (call(__NR_rt_sigtimedwait, (long)&end, 0, 0, sizeof(end)) < 0)
			;
	}
	for (;;)
		call(__NR_exit_group, 0, 0, 0, 0);
}
