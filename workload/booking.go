package workload

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"tare/image"
	"tare/load"
)

// booking is S3's critical service: a booking site of three programs, an application and
// an authentication service on Node.js and a document database, with the shape, the data
// and the mix of requests of AcmeAir. Each program can have a container of its own.
type booking struct {
	workloadOf[bookingPlan]
	readierOf[bookingPlan]
	loaderOf[bookingPlan]
	sustainerOf[bookingPlan]
}

func (booking) Name() string { return "booking" }
func (booking) Summary() string {
	return "booking site of three programs (Node.js, authentication, document database), walked through by users"
}
func (booking) Source() Source { return Source{Recipe: "booking"} }

// What the site's data are when it begins. The rest is in its own sources.
const (
	bookingSeed     = 1
	bookingAirports = 14
	bookingSegments = 394
	bookingFlights  = 1970
)

// bookingMostCustomers is as many as the site takes.
const bookingMostCustomers = 1_000_000

// bookingRate is about half of what one core answers: there the three programs take 2.4 ms
// of a CPU for a request, and half as much where requests come without a pause.
const bookingRate = "200"

// databaseShipped is the recipe's database, databaseMongoDB MongoDB's own.
const (
	databaseShipped = "shipped"
	databaseMongoDB = "mongod"
)

type bookingPlan struct {
	listening                  // of all three
	customers, users, bookings int64
	authPort, databasePort     int
	storage, database          string
	heap, oldSpace             int64
	options                    load.Options
}

func (plan bookingPlan) parse(from *parameters) bookingPlan {
	const otherPort = "a port that is none of the others"
	plan.customers = from.whole("customers", 10000, 1, bookingMostCustomers, "that the site knows, RANGE")
	users := from.text("users", "200", "of them who come, in turn, as many as connections or more")
	plan.bookings = from.whole("bookings", 7, 0, 100, "that each user begins with, RANGE: as many as their visits leave "+
		"them with in the mean, so that lists are no longer at the end than at the start")
	plan.listening = from.listeningAt(image.BookingPort, "at which the application answers, RANGE")
	plan.authPort = int(from.whole("auth-port", image.BookingAuthPort, 1, 65535, "of the authentication service"))
	if plan.authPort == plan.port {
		from.refuse("auth-port", otherPort)
	}
	plan.databasePort = int(from.whole("db-port", image.BookingDatabasePort, 1, 65535, "of the database"))
	if plan.databasePort == plan.port || plan.databasePort == plan.authPort {
		from.refuse("db-port", otherPort)
	}
	plan.storage = from.word("storage", "file",
		"of the documents: file: read and written; mapped: a file that is mapped into memory; memory: there is none",
		"file", "mapped", "memory")
	plan.database = from.word("database", databaseShipped,
		"shipped: the image's; or mongod: MongoDB's own server, in an image of yours that adds it to this one",
		databaseShipped, databaseMongoDB)
	plan.heap = from.whole("heap", 48, 32, 1_000_000, "of the database's Java, in MiB, RANGE")
	plan.oldSpace = from.whole("old-space", 64, 48, 1_000_000,
		"MiB that Node.js gives long-lived objects of each of its two programs, RANGE")
	plan.options = from.pacedLoad(usualLoad{
		rate: bookingRate, connections: 8, warmup: "5s", duration: "10s", arrival: load.Poisson,
	})
	// No two connections are one user's at a time.
	var ok bool
	if plan.users, ok = wholeWithin(users, int64(plan.options.Connections), plan.customers); !ok {
		from.refuse("users", fmt.Sprintf("a whole number from %d to %d", plan.options.Connections, plan.customers))
	}
	return plan
}

// The site's programs, in the order in which they are started.
const (
	bookingDatabase    = "database"
	bookingAuth        = "authentication"
	bookingApplication = "application"
)

// databaseArgs is the command of the database.
func (plan bookingPlan) databaseArgs() []string {
	port := strconv.Itoa(plan.databasePort)
	if plan.database == databaseMongoDB {
		return []string{"/usr/bin/mongod", "--bind_ip", plan.listen, "--port", port, "--dbpath", image.BookingData}
	}
	args := []string{
		image.BookingJava, "-Xmx" + strconv.FormatInt(plan.heap, 10) + "m",
		// Else Java would choose its collector by the CPUs and the memory that it sees; and
		// with one compiler it is warm soon.
		"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"@" + image.BookingDatabase, plan.listen, port,
	}
	const file = image.BookingData + "/booking.mv"
	switch plan.storage {
	case "file":
		args = append(args, file)
	case "mapped":
		args = append(args, "nioMapped:"+file) // H2's name for it
	}
	return args
}

// nodeArgs is the command of one of the programs on Node.js.
func (plan bookingPlan) nodeArgs(program string, port int, needs ...string) []string {
	args := []string{
		image.BookingNode, "--max-old-space-size=" + strconv.FormatInt(plan.oldSpace, 10), "--max-semi-space-size=" + strconv.Itoa(bookingYoung),
		program, "--address", plan.listen, "--port", strconv.Itoa(port),
	}
	return append(args, needs...)
}

// What the programs need beside what their parameters give them, as measured at work:
// their code, and what run-times keep for themselves. Node.js' code, of which two programs
// in one container have one copy, is counted with both: it is a file's, and their heaps
// are not full.
const (
	bookingJavaNeed = 48 << 20
	bookingNodeNeed = 32 << 20
)

// bookingYoung bounds Node.js' space for young objects, in MiB: left alone it takes 16
// of them, thrice.
const bookingYoung = 4

func (plan bookingPlan) databaseNeed() int64 {
	if plan.database == databaseMongoDB {
		return 0 // not known
	}
	return bookingJavaNeed + plan.heap<<20
}

func (plan bookingPlan) nodeNeed() int64 { return bookingNodeNeed + plan.oldSpace<<20 }

// bookingEnv has Express answer as it does in earnest.
var bookingEnv = []string{"NODE_ENV=production"}

// Placed gives the authentication service and the database the next ports.
func (booking) Placed(p Params, at Place) (Params, error) {
	p = p.at(at)
	if at.Port > 0 {
		p["auth-port"], p["db-port"] = strconv.Itoa(at.Port+1), strconv.Itoa(at.Port+2)
	}
	return p, nil
}

func (plan bookingPlan) program() Program {
	// Only the application is reached from outside.
	inner := plan
	inner.listen = "127.0.0.1"
	args := append([]string{image.Supervise}, inner.databaseArgs()...)
	for _, part := range []Part{inner.parts()[1], plan.parts()[2]} {
		program := part.Program(func(_ string, port int) string { return "127.0.0.1:" + strconv.Itoa(port) })
		args = append(append(args, "--"), program.Args...)
	}
	return Program{
		Args: args, Env: bookingEnv, Ports: []int{plan.port}, Data: []string{image.BookingData}, Service: true,
		MemoryNeed: plan.databaseNeed() + 2*plan.nodeNeed(), DiskNeed: plan.diskNeed(),
		Needs: []string{image.Supervise, plan.databaseArgs()[0], image.BookingNode},
	}
}

func (booking) Parts(p Params) ([]Part, error) {
	plan, err := planOf[bookingPlan](p)
	return plan.parts(), err
}

func (plan bookingPlan) parts() []Part {
	return []Part{
		{
			Name: bookingDatabase,
			Program: func(func(string, int) string) Program {
				args := plan.databaseArgs()
				return Program{
					Args: args, Ports: []int{plan.databasePort}, Data: []string{image.BookingData},
					Service: true, MemoryNeed: plan.databaseNeed(), DiskNeed: plan.diskNeed(), Needs: args[:1],
				}
			},
			Ready: func(ctx context.Context, address func(int) string) error {
				return awaitDocuments(ctx, address(plan.databasePort))
			},
		},
		{
			Name: bookingAuth,
			Program: func(at func(string, int) string) Program {
				return plan.node(image.BookingAuth, plan.authPort, "--database", at(bookingDatabase, plan.databasePort))
			},
			Ready: func(ctx context.Context, address func(int) string) error {
				target := load.HTTP{
					Address:        address(plan.authPort),
					Path:           "/status",
					Status:         http.StatusOK,
					NewConnections: true,
				}
				return awaitReady(
					ctx,
					bookingReadyWithin,
					"the authentication service answers at http://"+target.Address+target.Path,
					func(ctx context.Context) error {
						return askHTTP(ctx, target)
					},
				)
			},
		},
		{
			Name: bookingApplication,
			Program: func(at func(string, int) string) Program {
				return plan.node(image.BookingApplication, plan.port,
					"--auth", at(bookingAuth, plan.authPort), "--database", at(bookingDatabase, plan.databasePort))
			},
		},
	}
}

// diskNeed is of the database's file, which holds what was written anew several times
// over before it is made small again: 30 MB where 10,000 customers have 3.
func (plan bookingPlan) diskNeed() int64 {
	if plan.storage == "memory" {
		return 0
	}
	return 64<<20 + plan.customers*3<<10
}

// node is one of the programs on Node.js, in a container of its own.
func (plan bookingPlan) node(program string, port int, needs ...string) Program {
	return Program{
		Args: plan.nodeArgs(program, port, needs...), Env: bookingEnv, Ports: []int{port},
		Service: true, MemoryNeed: plan.nodeNeed(), Needs: []string{image.BookingNode},
	}
}

func (plan bookingPlan) metrics() []Metric { return loadMetrics(plan.options) }

// bookingReadyWithin bounds the start, and the loading of the data, also in a machine
// that is emulated.
const bookingReadyWithin = 5 * time.Minute

// ready waits until the application answers, which it does once the other two do, and
// has it given its data where it has others.
func (plan bookingPlan) ready(ctx context.Context, t Trial) error {
	target := bookingAPI(t, plan.port)
	target.Path = bookingPath + "config"
	target.NewConnections = true
	var counts bookingCounts
	ask := func(request load.HTTPRequest) load.Target {
		request.Check = func(body []byte) (err error) { counts, err = parseBookingCounts(body); return err }
		target.Next = func() load.HTTPRequest { return request }
		return target
	}
	asked := ask(load.HTTPRequest{Path: bookingPath + "config"})
	err := awaitReady(ctx, bookingReadyWithin, "the booking site answers at http://"+target.Address+bookingPath+"config", func(ctx context.Context) error {
		return askOnce(ctx, asked)
	})
	if err != nil || plan.loaded(counts) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bookingReadyWithin)
	defer cancel()
	path := fmt.Sprintf("%sconfig/load?customers=%d&users=%d&bookings=%d&seed=%d", bookingPath, plan.customers, plan.users, plan.bookings, bookingSeed)
	if err := askOnce(ctx, ask(load.HTTPRequest{Method: http.MethodPost, Path: path})); err != nil {
		return fmt.Errorf("give the booking site its data: %w", err)
	}
	if !plan.loaded(counts) {
		return fmt.Errorf("the booking site was given its data, and has %+v", counts)
	}
	return nil
}

// loaded tells whether a site has the data that the parameters ask for; bookings are made
// and cancelled while it serves.
func (plan bookingPlan) loaded(counts bookingCounts) bool {
	return counts.Airports == bookingAirports && counts.Segments == bookingSegments &&
		counts.Flights == bookingFlights &&
		counts.Customers == plan.customers
}

func (plan bookingPlan) drive(ctx context.Context, t Trial) error {
	return whileServing(ctx, t, func(ctx context.Context) error {
		if err := plan.ready(ctx, t); err != nil {
			return err
		}
		target := plan.target(t, 1)
		defer target.settle()
		return measure(ctx, t, target, plan.options)
	})
}

func (plan bookingPlan) offered() Offered { return offered(plan.options) }

// load has users walk through the site, whether requests come by a schedule or each
// connection's as soon as it has its answer.
func (plan bookingPlan) load(ctx context.Context, t Trial, seed uint64) (load.Result, error) {
	target := plan.target(t, seed)
	defer target.settle()
	return loadTargetOnce(ctx, t, target, plan.options, seed)
}

func (booking) Sustained() (p Params, steady bool) { return nil, true }

func (plan bookingPlan) sustain(ctx context.Context, t Trial, seed uint64) error {
	plan.options.Seed = seed
	target := plan.target(t, seed)
	defer target.settle()
	return sustain(ctx, t, target, plan.options)
}

var (
	_ Sustainer = booking{}
	_ Divided   = booking{}
)
