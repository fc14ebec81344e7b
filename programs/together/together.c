/*
 * together runs one command several times at once, each time with another word in it,
 * and waits for all: many small programs in place of a large one.
 *
 * It starts them one right after the other and sleeps until they end, so that it takes
 * nothing from them; what each prints lies in memory until then, and none waits for a
 * reader. Then it prints a line of JSON a job, in the order of the words: how it ended,
 * when it began and ended counted from the first one's beginning, what it used, and the
 * end of what it printed; and a last line with the time from the first one's beginning
 * to the last one's end.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What is shown of a stream: its last bytes. */
enum { SHOWN = 4096 };

enum stream { OUT, ERR, STREAMS };

static const char *const names[STREAMS] = { "stdout", "stderr" };

struct job {
	const char *word;
	pid_t pid;
	int prints[STREAMS]; /* files in memory */
	double start, end;
	int status;
	struct rusage used;
};

static const char help[] =
	"usage: together WORD... -- COMMAND [ARGUMENT]...\n"
	"\n"
	"Runs COMMAND once for each WORD, all at once; {} in COMMAND and its arguments becomes\n"
	"the word. Ends with 1 where one of them did not end with 0.\n"
	"\n"
	"Example: together a b c -- /bin/cp /from/{} /to/{}\n";

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *room(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (p == NULL) {
		fprintf(stderr, "together: no memory for %zu times %zu bytes\n", n, size);
		exit(1);
	}
	return p;
}

/* filled is a text with the word in place of each {}. */
static char *filled(const char *text, const char *word)
{
	size_t places = 0;
	char *made, *to;

	for (const char *at = text; (at = strstr(at, "{}")) != NULL; at += 2)
		places++;
	made = to = room(strlen(text) + places * strlen(word) + 1, 1);
	for (const char *at; (at = strstr(text, "{}")) != NULL; text = at + 2) {
		to = mempcpy(to, text, (size_t)(at - text));
		to = stpcpy(to, word);
	}
	stpcpy(to, text);
	return made;
}

/* become turns the child into the job's command, or says why not where the job prints. */
__attribute__((noreturn)) static void become(const struct job *j, char *const *command, pid_t parent)
{
	/* None goes on where together is killed, which it may have been before this. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
		_exit(126);
	if (dup2(j->prints[OUT], STDOUT_FILENO) < 0 || dup2(j->prints[ERR], STDERR_FILENO) < 0)
		_exit(126);
	execvp(command[0], command);
	dprintf(STDERR_FILENO, "together: run %s: %s\n", command[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

/* start begins a job, or ends the program, and with it all jobs. */
static void start(struct job *j, char *const *command, pid_t self)
{
	for (int s = 0; s < STREAMS; s++) {
		j->prints[s] = memfd_create(names[s], MFD_CLOEXEC);
		if (j->prints[s] < 0) {
			fprintf(stderr, "together: make a file in memory for what %s prints: %s\n", j->word, strerror(errno));
			exit(1);
		}
	}
	j->start = now();
	j->pid = fork();
	if (j->pid < 0) {
		fprintf(stderr, "together: start %s: %s\n", j->word, strerror(errno));
		exit(1);
	}
	if (j->pid == 0)
		become(j, command, self);
}

/* await_all notes the end of each job as it comes. A child that is none of them, which
 * the first process of a container may inherit, is only reaped. */
static void await_all(struct job *jobs, int n)
{
	for (int left = n; left > 0;) {
		struct rusage used;
		int status;
		pid_t pid = wait4(-1, &status, 0, &used);
		double end = now();

		if (pid < 0) {
			if (errno == EINTR)
				continue;
			perror("together: wait");
			exit(1);
		}
		for (int i = 0; i < n; i++) {
			if (jobs[i].pid != pid)
				continue;
			jobs[i].pid = 0; /* free for another process from now on */
			jobs[i].end = end;
			jobs[i].status = status;
			jobs[i].used = used;
			left--;
			break;
		}
	}
}

/* print_text prints bytes as a JSON string: what is not ASCII as the byte's number. */
static void print_text(const char *text, size_t n)
{
	putchar('"');
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c == '\n')
			printf("\\n");
		else if (c < ' ' || c > '~')
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static void print_stream(const struct job *j, enum stream s)
{
	char text[SHOWN];
	off_t end = lseek(j->prints[s], 0, SEEK_END);
	ssize_t n = pread(j->prints[s], text, SHOWN, end > SHOWN ? end - SHOWN : 0);

	printf(",\"%s\":", names[s]);
	print_text(text, n > 0 ? (size_t)n : 0);
}

static double seconds(struct timeval t) { return (double)t.tv_sec + 1e-6 * (double)t.tv_usec; }

/* print gives whether the job ended well. */
static bool print(const struct job *j, double first)
{
	/* As a shell has it: 128 and the signal's number. */
	int status = WIFSIGNALED(j->status) ? 128 + WTERMSIG(j->status) : WEXITSTATUS(j->status);

	printf("{\"job\":");
	print_text(j->word, strlen(j->word));
	printf(",\"status\":%d,\"start_seconds\":%.9f,\"end_seconds\":%.9f,\"user_seconds\":%.6f,\"system_seconds\":%.6f,\"max_resident_bytes\":%ld",
	       status, j->start - first, j->end - first, seconds(j->used.ru_utime), seconds(j->used.ru_stime), j->used.ru_maxrss * 1024);
	for (int s = 0; s < STREAMS; s++)
		print_stream(j, (enum stream)s);
	printf("}\n");
	return status == 0;
}

int main(int argc, char **argv)
{
	int n = 0, failed = 0;
	double last = 0;
	pid_t self = getpid();
	struct job *jobs;
	char ***commands;

	while (1 + n < argc && strcmp(argv[1 + n], "--") != 0)
		n++;
	if (n == 0 || n + 2 >= argc) {
		fputs(help, stderr);
		return 2;
	}
	jobs = room((size_t)n, sizeof(*jobs));
	commands = room((size_t)n, sizeof(*commands));
	for (int i = 0; i < n; i++) {
		jobs[i].word = argv[1 + i];
		commands[i] = room((size_t)argc, sizeof(**commands));
		for (int k = n + 2; k < argc; k++)
			commands[i][k - n - 2] = filled(argv[k], argv[1 + i]);
	}
	for (int i = 0; i < n; i++)
		start(&jobs[i], commands[i], self);
	await_all(jobs, n);
	for (int i = 0; i < n; i++) {
		failed += !print(&jobs[i], jobs[0].start);
		if (jobs[i].end > last)
			last = jobs[i].end;
	}
	printf("{\"jobs\":%d,\"failed\":%d,\"elapsed_seconds\":%.9f}\n", n, failed, last - jobs[0].start);
	if (fflush(stdout) != 0) {
		perror("together: write the results");
		return 1;
	}
	return failed > 0;
}
