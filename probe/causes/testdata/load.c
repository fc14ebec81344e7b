/* Programs whose causes are known by how they are made, for the tests of
 * probe/causes:
 *
 *   load pingpong A B WORK      two processes on CPUs A and B send each other a byte to
 *                               and fro, and compute for WORK rounds in between, until
 *                               the input ends; a line tells trips and nanoseconds
 *   load trips N A B WORK       the same for N trips
 *   load naps N SLEEP SPIN      one thread that sleeps, then computes (microseconds)
 *   load spin                   computes until it is killed
 *   load moves N                goes N times to another CPU
 *   load datagrams N A B        a receiver that is bound to CPUs A and B in turns while it
 *                               is blocked, and then sent to, over the loopback
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void bind_thread(int cpu, pid_t thread)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(thread, sizeof set, &set))
		fail("sched_setaffinity");
}

static void bind_to(int cpu)
{
	bind_thread(cpu, 0);
}

static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static volatile unsigned long sink;

static void compute(long rounds)
{
	for (long i = 0; i < rounds; i++)
		sink += i * i;
}

/* Begins only when told, so that the watch sees all of it. */
static void await(void)
{
	char c;
	puts("ready");
	fflush(stdout);
	if (read(0, &c, 1) != 1)
		exit(1);
}

static int over(void)
{
	struct pollfd p = {.fd = 0, .events = POLLIN};
	return poll(&p, 1, 0) > 0;
}

static void trips(long n, int a, int b, long work)
{
	int to[2], fro[2];
	char c = 0;
	if (pipe(to) || pipe(fro))
		fail("pipe");
	pid_t child = fork();
	if (child < 0)
		fail("fork");
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(to[1]);
		bind_to(b);
		while (read(to[0], &c, 1) == 1) {
			compute(work);
			if (write(fro[1], &c, 1) != 1)
				break;
		}
		_exit(0);
	}
	close(to[0]);
	bind_to(a);
	long long began = now();
	long done = 0;
	for (; n ? done < n : (done & 1023) || !over(); done++) {
		if (write(to[1], &c, 1) != 1 || read(fro[0], &c, 1) != 1)
			fail("pipe");
		compute(work);
	}
	printf("%ld %lld\n", done, now() - began);
	fflush(stdout);
	/* What the kernel counted of it is to be read before it ends. */
	if (!n)
		while (read(0, &c, 1) == 1)
			;
	close(to[1]);
	waitpid(child, 0, 0);
}

static void naps(long n, long sleep, long spin)
{
	struct timespec nap = {sleep / 1000000, sleep % 1000000 * 1000};
	for (long i = 0; i < n; i++) {
		nanosleep(&nap, 0);
		for (long long until = now() + spin * 1000; now() < until;)
			;
	}
}

static void moves(long n)
{
	cpu_set_t had;
	int cpus[CPU_SETSIZE], count = 0;
	if (sched_getaffinity(0, sizeof had, &had))
		fail("sched_getaffinity");
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &had))
			cpus[count++] = cpu;
	bind_to(cpus[0]);
	await();
	for (long i = 1; i <= n; i++)
		bind_to(cpus[i % count]);
}

/* What the receiver of datagrams tells, without a system call in which it could block. */
struct told {
	volatile long round;    /* the next datagram is this one */
	volatile long switches; /* of its own accord, before it goes to wait for it */
};

static long switches_of(pid_t pid)
{
	char path[64], line[256];
	long n = -1;
	snprintf(path, sizeof path, "/proc/%d/status", pid);
	FILE *f = fopen(path, "r");
	if (!f)
		_exit(1);
	while (n < 0 && fgets(line, sizeof line, f))
		sscanf(line, "voluntary_ctxt_switches: %ld", &n);
	fclose(f);
	return n;
}

/* A thread's state says that it sleeps from before it leaves its CPU. One that is bound to
 * another in between is taken there first, and blocks there: so it is the switch that is
 * awaited, which is counted when the CPU is another's. */
static void await_blocked(pid_t pid, const struct told *told, long round)
{
	while (told->round != round || switches_of(pid) == told->switches)
		sched_yield();
}

static void tell(struct told *told, long round)
{
	struct rusage used;
	if (getrusage(RUSAGE_THREAD, &used))
		fail("getrusage");
	told->switches = used.ru_nvcsw;
	__sync_synchronize();
	told->round = round;
}

static void datagrams(long n, int a, int b)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof at;
	int receiver = socket(AF_INET, SOCK_DGRAM, 0), sender = socket(AF_INET, SOCK_DGRAM, 0);
	int back[2];
	char c = 0;
	struct told *told = mmap(0, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (receiver < 0 || sender < 0 || told == MAP_FAILED || pipe(back) || bind(receiver, (void *)&at, size) || getsockname(receiver, (void *)&at, &size))
		fail("socket");
	told->round = -1;
	pid_t child = fork();
	if (child < 0)
		fail("fork");
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		bind_to(b);
		for (long i = 0; i < n; i++) {
			await_blocked(getppid(), told, i);
			bind_thread(i & 1 ? a : b, getppid());
			if (sendto(sender, &c, 1, 0, (void *)&at, size) != 1 || read(back[0], &c, 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	bind_to(a);
	for (long i = 0; i < n; i++) {
		tell(told, i);
		if (recv(receiver, &c, 1, 0) != 1)
			fail("recv");
		if (sched_getcpu() != (i & 1 ? a : b)) {
			fprintf(stderr, "datagram %ld has come on CPU %d\n", i, sched_getcpu());
			exit(1);
		}
		if (write(back[1], &c, 1) != 1)
			fail("write");
	}
	int status;
	if (waitpid(child, &status, 0) != child || status)
		fail("the sender");
}

int main(int argc, char **argv)
{
	long v[6] = {0};
	for (int i = 2; i < argc && i < 8; i++)
		v[i - 2] = atol(argv[i]);
	const char *what = argc > 1 ? argv[1] : "";
	if (strcmp(what, "moves"))
		await();
	if (!strcmp(what, "pingpong"))
		trips(0, v[0], v[1], v[2]);
	else if (!strcmp(what, "trips"))
		trips(v[0], v[1], v[2], v[3]);
	else if (!strcmp(what, "naps"))
		naps(v[0], v[1], v[2]);
	else if (!strcmp(what, "spin"))
		for (;;)
			compute(1 << 20);
	else if (!strcmp(what, "moves"))
		moves(v[0]);
	else if (!strcmp(what, "datagrams"))
		datagrams(v[0], v[1], v[2]);
	else
		return 2;
	/* The last of what is counted is told before it ends. */
	char c;
	puts("done");
	fflush(stdout);
	while (read(0, &c, 1) == 1)
		;
	return 0;
}
