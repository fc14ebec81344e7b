package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"

	"tare/load"
)

// docstore is S1's document database, in so far as packages have one: a server
// with MongoDB's wire protocol whose data file is mapped into memory. Its load is
// a small one of YCSB's shape: documents of one field of 100 bytes, four fifths
// of the operations on a fifth of them.
type docstore struct{}

func (docstore) Name() string { return "docstore" }
func (docstore) Summary() string {
	return "document database with MongoDB's wire protocol (mongo-java-server), read and updated by tare"
}
func (docstore) Source() Source { return Source{Recipe: "docstore"} }

const (
	docstorePort  = 27017
	docstoreField = 100 // bytes
)

func (docstore) Params() []Param {
	return append([]Param{
		{"documents", "1000", "inserted before the load, 1 to 1000000"},
		{"reads", "50", "percent of the operations that find a document, 0 to 100; the others update one"},
		{"storage", "mapped", "of the data file: mapped into memory, or file: read and written"},
		{"heap", auto, "of Java, in MiB: auto (as it chooses by the memory that it sees), or 32 to 1000000"},
	}, loadParams("3s")...) // Java compiles while it runs: its first seconds are not its pace
}

// docstorePlan is the parameters, read.
type docstorePlan struct {
	documents, reads, heap int64
	storage                string
}

func planDocstore(p Params) (plan docstorePlan, err error) {
	if plan.documents, err = p.whole("documents", 1, 1_000_000); err != nil {
		return plan, err
	}
	if plan.reads, err = p.whole("reads", 0, 100); err != nil {
		return plan, err
	}
	if plan.storage, err = p.oneOf("storage", "mapped", "file"); err != nil {
		return plan, err
	}
	plan.heap, err = p.wholeOrAuto("heap", 32, 1_000_000)
	return plan, err
}

func (docstore) Program(p Params) (Program, error) {
	plan, err := planDocstore(p)
	if err != nil {
		return Program{}, err
	}
	if _, err := loadOptions(p); err != nil {
		return Program{}, err
	}
	file := "/data/docs.mv"
	if plan.storage == "mapped" {
		file = "nioMapped:" + file // H2's name for it
	}
	args := []string{"/usr/bin/java"}
	if plan.heap > 0 {
		args = append(args, "-Xmx"+strconv.FormatInt(plan.heap, 10)+"m")
	}
	return Program{
		Args: append(args, "@/etc/docstore.args", file), Ports: []int{docstorePort}, Data: []string{"/data"},
		Service: true,
		// Java's own code and tables, and a heap of the documents a few times over.
		MemoryNeed: 128<<20 + max(plan.heap<<20, plan.documents*1024),
	}, nil
}

func (docstore) Metrics(p Params) []Metric { return loadMetrics(p) }

// Ready waits for a reply to "isMaster", the command by which drivers begin; the
// server knows its later name, "hello", not.
func (docstore) Ready(ctx context.Context, t Trial) error {
	address := t.Address(docstorePort)
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

func (w docstore) Drive(ctx context.Context, t Trial) error {
	plan, err := planDocstore(t.Params())
	if err != nil {
		return err
	}
	address := t.Address(docstorePort)
	return whileServing(ctx, t, func(ctx context.Context) error {
		if err := w.Ready(ctx, t); err != nil {
			return err
		}
		if err := plan.fill(ctx, address); err != nil {
			return fmt.Errorf("insert the documents: %w", err)
		}
		return measure(ctx, t, load.OpMsg{Address: address, Next: plan.operations()})
	})
}

// fill inserts the documents, some at once.
func (p docstorePlan) fill(ctx context.Context, address string) error {
	client, err := load.DialOpMsg(ctx, address)
	if err != nil {
		return err
	}
	defer client.Close()
	const batch = 1000
	for from := int64(0); from < p.documents; from += batch {
		var documents []load.Document
		for n := from; n < min(from+batch, p.documents); n++ {
			documents = append(documents, load.Document{{Name: "_id", Value: documentID(n)}, {Name: "field0", Value: fieldOf(n, 0)}})
		}
		reply, err := client.Do(ctx, load.Document{{Name: "insert", Value: "usertable"}, {Name: "$db", Value: "ycsb"}, {Name: "documents", Value: documents}})
		if err != nil {
			return err
		}
		if n, _ := reply.Number("n"); int(n) != len(documents) {
			return fmt.Errorf("%v of %d were inserted", n, len(documents))
		}
	}
	return nil
}

func documentID(n int64) string { return fmt.Sprintf("user%07d", n) }

// fieldOf is a document's text after so many updates: it begins with the
// document's name, by which a reader knows it.
func fieldOf(document, updates int64) string {
	text := fmt.Sprintf("%s %d ", documentID(document), updates)
	return text + strings.Repeat("x", docstoreField-len(text))
}

// operations gives the load, one operation after the other, in an order that is
// always the same.
func (p docstorePlan) operations() func() (load.Document, func(load.Document) error) {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, uint64(p.documents)))
	hot := max(1, p.documents/5)
	var updates int64
	draw := func() (document int64, read bool, update int64) {
		mu.Lock()
		defer mu.Unlock()
		document = random.Int64N(hot)
		if p.documents > hot && random.IntN(5) == 0 {
			document = hot + random.Int64N(p.documents-hot)
		}
		updates++
		return document, random.Int64N(100) < p.reads, updates
	}
	return func() (load.Document, func(load.Document) error) {
		n, read, update := draw()
		id := load.Document{{Name: "_id", Value: documentID(n)}}
		if read {
			return load.Document{
				{Name: "find", Value: "usertable"}, {Name: "$db", Value: "ycsb"}, {Name: "filter", Value: id},
				{Name: "limit", Value: int32(1)}, {Name: "singleBatch", Value: true},
			}, func(reply load.Document) error { return checkFound(reply, n) }
		}
		set := load.Document{{Name: "$set", Value: load.Document{{Name: "field0", Value: fieldOf(n, update)}}}}
		return load.Document{
			{Name: "update", Value: "usertable"}, {Name: "$db", Value: "ycsb"},
			{Name: "updates", Value: []load.Document{{{Name: "q", Value: id}, {Name: "u", Value: set}}}},
		}, checkUpdated
	}
}

func checkFound(reply load.Document, n int64) error {
	text, _ := reply.Lookup("cursor", "firstBatch", "0", "field0").(string)
	if len(text) != docstoreField || !strings.HasPrefix(text, documentID(n)+" ") {
		return fmt.Errorf("document %s was not found, or with other content: %.40q", documentID(n), text)
	}
	return nil
}

func checkUpdated(reply load.Document) error {
	if n, _ := reply.Number("n"); n != 1 {
		return errors.New("the document to update was not found")
	}
	return nil
}
