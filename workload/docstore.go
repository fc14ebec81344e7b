package workload

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"tare/image"
	"tare/load"
)

// docstore is S1's document database, in so far as packages have one: a server
// with MongoDB's wire protocol whose data file is mapped into memory. Its load is
// YCSB's mix on documents of one field.
type docstore struct {
	workloadOf[docstorePlan]
	readierOf[docstorePlan]
	sustainerOf[docstorePlan]
}

func (docstore) Name() string { return "docstore" }
func (docstore) Summary() string {
	return "document database with MongoDB's wire protocol (mongo-java-server), read and updated by tare"
}
func (docstore) Source() Source { return Source{Recipe: "docstore"} }

const docstorePort = 27017

// serverShipped is the recipe's server, serverImage the command of the image that
// the user names in the recipe's place, such as MongoDB's own.
const (
	serverShipped = "shipped"
	serverImage   = "image"
)

type docstorePlan struct {
	listening
	documents, data, reads int64
	storage, server        string
	heap                   int64 // 0: Java's choice
	options                load.Options
}

func (plan docstorePlan) parse(from *parameters) docstorePlan {
	plan.listening = from.listening(docstorePort)
	plan.documents = from.whole("documents", 1000, 1, 1_000_000, "inserted before the load, RANGE, where data is 0")
	plan.data = from.whole("data", 0, 0, mostData, "MiB of documents put in before the server counts as ready, RANGE")
	if plan.data > 0 {
		plan.documents = recordsIn(plan.data)
	}
	plan.reads = from.reads(50)
	plan.storage = from.word("storage", "mapped",
		"of the data file: mapped into memory; file: read and written; memory: there is none", "mapped", "file", "memory")
	plan.server = from.word("server", serverShipped,
		"shipped, or image: the command of an image of your own, which speaks MongoDB's protocol at its port",
		serverShipped, serverImage)
	plan.heap = from.wholeOr("heap", auto, 0, 32, 1_000_000,
		"of Java, in MiB: auto (as it chooses by the memory that it sees), or RANGE")
	// Java compiles while it runs: its first seconds are not its pace.
	plan.options = from.load(byClients(16, "3s"))
	return plan
}

// Placed cannot tell an image's own command where to listen.
func (w docstore) Placed(p Params, at Place) (Params, error) {
	if p["server"] == serverImage {
		return nil, &Unplaceable{w.Name(), "server=" + serverImage + ": the image's own command listens where it does by itself"}
	}
	return p.at(at), nil
}

func (plan docstorePlan) program() Program {
	if plan.server == serverImage {
		// What it needs is not known; MongoDB's own image has its data there.
		return Program{Ports: []int{docstorePort}, Data: []string{"/data/db"}, Service: true}
	}
	program := Program{
		Args: []string{"/usr/bin/java"}, Ports: []int{plan.port}, Data: []string{"/data"},
		Service: true, MemoryNeed: plan.memory(),
	}
	if plan.heap > 0 {
		program.Args = append(program.Args, "-Xmx"+strconv.FormatInt(plan.heap, 10)+"m")
	}
	program.Args = append(program.Args, "@"+image.DocstoreArguments, plan.listen, strconv.Itoa(plan.port))
	const file = "/data/docs.mv"
	switch plan.storage {
	case "mapped":
		program.Args = append(program.Args, "nioMapped:"+file) // H2's name for it
	case "file":
		program.Args = append(program.Args, file)
	}
	return program
}

// memory is Java's own code and tables, and its heap: what it caches of a file, or
// all documents a few times over.
func (p docstorePlan) memory() int64 {
	const java, cached = 128 << 20, 64 << 20
	need := p.documents * 1024
	if p.storage != "memory" {
		need = min(need, cached)
	}
	return java + max(p.heap<<20, need)
}

func (plan docstorePlan) metrics() []Metric {
	metrics := loadMetrics(plan.options)
	if plan.data > 0 {
		metrics = append(metrics, loadingMetric())
	}
	return metrics
}

// ready waits for a reply to "isMaster", the command by which drivers begin; the
// shipped server knows its later name, "hello", not. Then it puts in the data that
// are asked for.
func (plan docstorePlan) ready(ctx context.Context, t Trial) error {
	address := t.Address(plan.port)
	if err := awaitDocuments(ctx, address); err != nil || plan.data == 0 {
		return err
	}
	return loaded(t, func() error { return plan.fill(ctx, address) })
}

// awaitDocuments waits until a database with MongoDB's protocol answers.
func awaitDocuments(ctx context.Context, address string) error {
	return awaitReady(ctx, readyWithin, "the database answers isMaster at "+address, func(ctx context.Context) error {
		client, err := load.DialOpMsg(ctx, address)
		if err != nil {
			return err
		}
		defer client.Close()
		_, err = client.Do(ctx, load.Document{{Name: "isMaster", Value: int32(1)}, {Name: "$db", Value: "admin"}})
		return err
	})
}

func (plan docstorePlan) drive(ctx context.Context, t Trial) error {
	return whileServing(ctx, t, func(ctx context.Context) error {
		if err := plan.ready(ctx, t); err != nil {
			return err
		}
		if plan.data == 0 {
			if err := plan.fill(ctx, t.Address(plan.port)); err != nil {
				return fmt.Errorf("insert the documents: %w", err)
			}
		}
		return measure(ctx, t, plan.target(t, 1), plan.options)
	})
}

// Sustained is the mix of S1's databases, on a heap that leaves room for some copies.
func (docstore) Sustained() (p Params, steady bool) {
	return Params{"data": strconv.Itoa(slowData), "reads": "95", "heap": "256"}, true
}

func (plan docstorePlan) sustain(ctx context.Context, t Trial, seed uint64) error {
	if plan.data == 0 {
		return errors.New("docstore has no documents to read: give it some (data, in MiB)")
	}
	return sustain(ctx, t, plan.target(t, seed), plan.options)
}

// fill inserts the documents, some at once.
func (p docstorePlan) fill(ctx context.Context, address string) error {
	client, err := load.DialOpMsg(ctx, address)
	if err != nil {
		return err
	}
	defer client.Close()
	return inBatches(p.documents, 1000, func(from, to int64) error {
		var documents []load.Document
		for n := from; n < to; n++ {
			documents = append(documents, load.Document{
				{Name: "_id", Value: recordKey(n)}, {Name: "field0", Value: recordField(n, 0)},
			})
		}
		reply, err := client.Do(ctx, load.Document{
			{Name: "insert", Value: "usertable"}, {Name: "$db", Value: "ycsb"}, {Name: "documents", Value: documents},
		})
		if err != nil {
			return err
		}
		if n, _ := reply.Number("n"); int(n) != len(documents) {
			return fmt.Errorf("%v of %d were inserted", n, len(documents))
		}
		return nil
	})
}

// target is the mix on the documents, a seed's always the same.
func (p docstorePlan) target(t Trial, seed uint64) load.OpMsg {
	operations := newYCSB(p.documents, p.reads, seed)
	return load.OpMsg{Address: t.Address(p.port), Next: func() (load.Document, func(load.Document) error) {
		o := operations.next()
		id := load.Document{{Name: "_id", Value: recordKey(o.record)}}
		if o.read {
			return load.Document{
				{Name: "find", Value: "usertable"}, {Name: "$db", Value: "ycsb"}, {Name: "filter", Value: id},
				{Name: "limit", Value: int32(1)}, {Name: "singleBatch", Value: true},
			}, func(reply load.Document) error { return checkFound(reply, o.record) }
		}
		set := load.Document{{Name: "$set", Value: load.Document{{Name: "field0", Value: recordField(o.record, o.update)}}}}
		return load.Document{
			{Name: "update", Value: "usertable"}, {Name: "$db", Value: "ycsb"},
			{Name: "updates", Value: []load.Document{{{Name: "q", Value: id}, {Name: "u", Value: set}}}},
		}, checkUpdated
	}}
}

func checkFound(reply load.Document, n int64) error {
	text, _ := reply.Lookup("cursor", "firstBatch", "0", "field0").(string)
	return checkField(n, text)
}

func checkUpdated(reply load.Document) error {
	if n, _ := reply.Number("n"); n != 1 {
		return errors.New("the document to update was not found")
	}
	return nil
}

var _ Sustainer = docstore{}
