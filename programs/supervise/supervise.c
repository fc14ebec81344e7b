/*
 * Runs several programs as one: what an image needs whose service is made of more
 * than one, and whose first process has to stand for all of them.
 *
 *     supervise [--first FILE] PROGRAM [ARGUMENT...] [-- PROGRAM [ARGUMENT...]]...
 *
 * All programs are started side by side, with this one's environment and standard
 * output and error. With --first, the first of them is run to its end before the
 * others, with FILE as its standard input; where it fails nothing else is started.
 *
 * It ends when one of the programs ends: the others are told to terminate, and
 * killed where they have not after some seconds. So they are when it is told to
 * terminate itself. It reaps whatever is left to it, as a first process has to.
 * Exit status: that of the program that ended first, 128 + signal where a signal
 * ended it, 128 + signal where one ended this, 126 where a program cannot be
 * started, 2 for wrong usage.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How long the programs have to end after they were told to. */
#define GRACE_SECONDS 5
#define MOST_PROGRAMS 16
#define CANNOT_START 126

struct programs {
	char **arguments[MOST_PROGRAMS];
	pid_t pid[MOST_PROGRAMS]; /* 0: does not run */
	int count;
};

static void usage(void)
{
	fputs("usage: supervise [--first FILE] PROGRAM [ARGUMENT...] [-- PROGRAM [ARGUMENT...]]...\n", stderr);
	exit(2);
}

static void complain(const char *what)
{
	fprintf(stderr, "supervise: %s: %s\n", what, strerror(errno));
}

/* Cuts the arguments at each "--", which becomes the end of a program's own. */
static struct programs parse(char **rest)
{
	struct programs p = { 0 };
	bool begins = true;

	for (; *rest; rest++) {
		if (strcmp(*rest, "--") == 0) {
			if (begins)
				usage();
			*rest = NULL;
			begins = true;
		} else if (begins) {
			if (p.count == MOST_PROGRAMS)
				usage();
			p.arguments[p.count++] = rest;
			begins = false;
		}
	}
	if (begins)
		usage();
	return p;
}

/* Starts a program with the signals as this one was given them. */
static pid_t start(char **arguments, int input, const sigset_t *signals)
{
	pid_t supervisor = getpid(), pid = fork();

	if (pid != 0) {
		if (pid < 0)
			complain(arguments[0]);
		return pid;
	}
	/* Nothing outlives this program, however it ends. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != supervisor)
		_exit(CANNOT_START);
	if (input >= 0 && dup2(input, STDIN_FILENO) < 0) {
		complain(arguments[0]);
		_exit(CANNOT_START);
	}
	sigprocmask(SIG_SETMASK, signals, NULL);
	execv(arguments[0], arguments);
	complain(arguments[0]);
	_exit(CANNOT_START);
}

static int status_of(int ended)
{
	return WIFSIGNALED(ended) ? 128 + WTERMSIG(ended) : WEXITSTATUS(ended);
}

/* Reaps what has ended. True, with its status, where one of the programs has. */
static bool reap(struct programs *p, int *status)
{
	bool one = false;
	int ended;
	pid_t pid;

	while ((pid = waitpid(-1, &ended, WNOHANG)) > 0) {
		for (int i = 0; i < p->count; i++) {
			if (p->pid[i] != pid)
				continue;
			p->pid[i] = 0;
			if (!one)
				*status = status_of(ended);
			one = true;
		}
	}
	return one;
}

static void signal_all(const struct programs *p, int signal)
{
	for (int i = 0; i < p->count; i++)
		if (p->pid[i] > 0)
			kill(p->pid[i], signal);
}

static bool any_runs(const struct programs *p)
{
	for (int i = 0; i < p->count; i++)
		if (p->pid[i] > 0)
			return true;
	return false;
}

static time_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

/* Ends the programs that run still. What these have left is not waited for. */
static void end(struct programs *p, const sigset_t *awaited)
{
	const struct timespec look_again = { .tv_sec = 1 };
	time_t until = now() + GRACE_SECONDS;
	int status;

	signal_all(p, SIGTERM);
	for (reap(p, &status); any_runs(p); reap(p, &status)) {
		if (now() > until)
			signal_all(p, SIGKILL);
		sigtimedwait(awaited, NULL, &look_again);
	}
}

/* Waits until a program ends, or this one is told to. */
static int watch(struct programs *p, const sigset_t *awaited)
{
	int status = 0;

	for (;;) {
		int signal = sigwaitinfo(awaited, NULL);

		if (signal == SIGCHLD) {
			if (reap(p, &status))
				break;
		} else if (signal > 0) {
			status = 128 + signal;
			break;
		}
	}
	end(p, awaited);
	return status;
}

/* Runs a program to its end, with a file as its input. */
static int run_first(struct programs *p, const char *file, const sigset_t *signals, const sigset_t *awaited)
{
	struct programs first = { .count = 1, .arguments = { p->arguments[0] } };
	int input = open(file, O_RDONLY | O_CLOEXEC);

	if (input < 0) {
		complain(file);
		return CANNOT_START;
	}
	if ((first.pid[0] = start(first.arguments[0], input, signals)) < 0)
		return CANNOT_START;
	close(input);
	return watch(&first, awaited);
}

int main(int argc, char **argv)
{
	const char *first = NULL;
	char **rest = argv + 1;
	struct programs p;
	sigset_t signals, awaited;
	int next = 0;

	if (argc > 2 && strcmp(rest[0], "--first") == 0) {
		first = rest[1];
		rest += 2;
	}
	p = parse(rest);
	/* What a program leaves behind comes to this one, and not to the host's first. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	sigemptyset(&awaited);
	sigaddset(&awaited, SIGCHLD);
	sigaddset(&awaited, SIGTERM);
	sigaddset(&awaited, SIGINT);
	sigaddset(&awaited, SIGHUP);
	sigaddset(&awaited, SIGQUIT);
	sigprocmask(SIG_BLOCK, &awaited, &signals);
	if (first) {
		int status = run_first(&p, first, &signals, &awaited);

		if (status != 0)
			return status;
		next = 1;
	}
	for (int i = next; i < p.count; i++) {
		if ((p.pid[i] = start(p.arguments[i], -1, &signals)) < 0) {
			p.pid[i] = 0;
			end(&p, &awaited);
			return CANNOT_START;
		}
	}
	if (next == p.count)
		return 0; /* there was none but the first */
	return watch(&p, &awaited);
}
