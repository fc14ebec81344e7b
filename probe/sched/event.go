package sched

import "time"

// Kind is what an [Event] is of.
type Kind uint8

// The kinds of events.
const (
	// Fork: Thread has made Other, a process or, in a recording, a thread.
	Fork Kind = iota + 1
	// Exec: Thread executes another program from here on. It is the kernel's last
	// act before the program's first instruction.
	Exec
	// Exit: Thread has ended.
	Exit
	// Switch: the CPU goes from Thread to Other.
	Switch
	// Wake: Thread has woken Other, or was on the CPU when an interrupt did.
	Wake
)

// Context is what a CPU was doing when it woke a thread; 0 is the current
// thread's own business.
type Context uint8

// The contexts, any of which may hold with another.
const (
	Interrupt Context = 1 << iota
	Softirq
	Timer // a timer that expired
)

// Thread is a thread as an event names it. The idle task is thread 0.
type Thread struct {
	PID  int // the process
	TID  int
	Comm string
	// Kernel: it is a kernel thread.
	Kernel bool
}

// Event is one event of the scheduler.
type Event struct {
	Time   time.Duration // CLOCK_MONOTONIC
	CPU    int
	Kind   Kind
	Thread Thread
	Other  Thread // of Fork, Switch and Wake

	// State is a Switch's: what Thread waits in, by the kernel's bits (TASK_*);
	// 0 where it would go on running if it could.
	State uint32
	// Stack is the kernel's, the innermost function first: of a Switch where
	// Thread waits, and of a Wake from a context.
	Stack []uint64

	Context Context // of a Wake
	Newborn bool    // of a Wake: Other runs for the first time

	LastThread bool // of an Exit: the process ends with Thread

	// What Exec has. FormerTID is Thread's id before: a thread that is not its
	// process' first takes the first one's place.
	FormerTID int
	Path      string   // as execve was given it
	Name      string   // of the file that is executed, without its directory
	Args      []string // possibly cut
	ArgsCut   bool
}

// dead is the kernel's TASK_DEAD: the thread is switched out for good.
const dead = 0x80

// blocks: the one switched out waits for something.
func (e Event) blocks() bool { return e.Kind == Switch && e.State != 0 && e.State&dead == 0 }
