package workload

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"tare/image"
	"tare/load"
)

// multimodel is S1's multi-model database, in so far as packages have one: ArcadeDB
// in ArangoDB's place, driven by SQL over HTTP with documents of one field. It
// keeps pages of its files on its heap, where ArangoDB of that time mapped them.
type multimodel struct {
	placeable
	workloadOf[multimodelPlan]
	readierOf[multimodelPlan]
	sustainerOf[multimodelPlan]
}

func (multimodel) Name() string { return "multimodel" }
func (multimodel) Summary() string {
	return "multi-model database (ArcadeDB), read and updated by tare over HTTP"
}
func (multimodel) Source() Source { return Source{Recipe: "multimodel"} }

const multimodelPort = 2480

type multimodelPlan struct {
	listening
	data, reads, heap int64
	access            string
	options           load.Options
}

func (plan multimodelPlan) parse(from *parameters) multimodelPlan {
	plan.listening = from.listening(multimodelPort)
	plan.data = from.whole("data", 1, 1, mostData, "MiB of documents put in before the server counts as ready, RANGE")
	plan.reads = from.reads(50)
	plan.access = from.access(uniform)
	plan.heap = from.whole("heap", 512, 128, 1_000_000, "of Java, in MiB, RANGE")
	// Java compiles while it runs: its first seconds are not its pace.
	plan.options = from.load(byClients(16, "3s"))
	return plan
}

func (plan multimodelPlan) program() Program {
	return Program{
		Args:  image.MultimodelCommand(strconv.FormatInt(plan.heap, 10), plan.listen, plan.port),
		Ports: []int{plan.port}, Data: []string{"/data"}, Service: true,
		// Java's own code and tables, and the heap.
		MemoryNeed: 192<<20 + plan.heap<<20,
	}
}

func (plan multimodelPlan) metrics() []Metric {
	return append(loadMetrics(plan.options), loadingMetric())
}

// ready waits until a query has been answered, and puts in the data: a database
// that was just started has none.
func (plan multimodelPlan) ready(ctx context.Context, t Trial) error {
	address := t.Address(plan.port)
	query := statement("query", "sql", "SELECT 1 AS one", nil, func(body []byte) error {
		var answer struct{ Result []struct{ One int } }
		if err := json.Unmarshal(body, &answer); err != nil || len(answer.Result) != 1 || answer.Result[0].One != 1 {
			return fmt.Errorf("SELECT 1 was answered by %.80q", body)
		}
		return nil
	})
	err := awaitReady(ctx, readyWithin, "the database answers a query at http://"+address, func(ctx context.Context) error {
		return askHTTP(ctx, multimodelTarget(address, func() load.HTTPRequest { return query }))
	})
	if err != nil {
		return err
	}
	return loaded(t, func() error { return plan.fill(ctx, address) })
}

// multimodelTarget sends statements as the database's user.
func multimodelTarget(address string, next func() load.HTTPRequest) load.HTTP {
	who := base64.StdEncoding.EncodeToString([]byte(image.MultimodelUser + ":" + image.MultimodelPassword))
	return load.HTTP{
		Address: address, Status: http.StatusOK, Next: next,
		Header: http.Header{"Authorization": {"Basic " + who}, "Content-Type": {"application/json"}},
	}
}

// statement is a request: a query, which only reads, or a command; in SQL, or a script
// of it (sqlscript).
func statement(kind, language, text string, params map[string]string, check func(body []byte) error) load.HTTPRequest {
	body, err := json.Marshal(struct {
		Language string            `json:"language"`
		Command  string            `json:"command"`
		Params   map[string]string `json:"params,omitempty"`
	}{language, text, params})
	if err != nil {
		panic(err) // texts alone
	}
	return load.HTTPRequest{
		Method: http.MethodPost,
		Path:   "/api/v1/" + kind + "/" + image.MultimodelDatabase,
		Body:   body,
		Check:  check,
	}
}

// multimodelSchema is a type of documents that are found by their key.
var multimodelSchema = []string{
	"CREATE DOCUMENT TYPE usertable BUCKETS 1",
	"CREATE PROPERTY usertable.id STRING",
	"CREATE PROPERTY usertable.field0 STRING",
	"CREATE INDEX ON usertable (id) UNIQUE",
}

// insertWithin bounds one batch, on a CPU that several copies share.
const insertWithin = time.Minute

// fill makes the type and inserts the documents, some at once: a transaction, and
// an answer that repeats them.
func (p multimodelPlan) fill(ctx context.Context, address string) error {
	var request load.HTTPRequest
	conn, err := multimodelTarget(address, func() load.HTTPRequest { return request }).Open(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	do := func(sql string, check func(body []byte) error) error {
		request = statement("command", "sql", sql, nil, check)
		_, err := conn.Do(time.Now().Add(insertWithin))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	for _, sql := range multimodelSchema {
		if err := do(sql, nil); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	type document struct {
		ID    string `json:"id"`
		Field string `json:"field0"`
	}
	return inBatches(recordsIn(p.data), 2000, func(from, to int64) error {
		var documents []document
		for n := from; n < to; n++ {
			documents = append(documents, document{recordKey(n), recordField(n, 0)})
		}
		content, err := json.Marshal(documents)
		if err != nil {
			return err
		}
		return do("INSERT INTO usertable CONTENT "+string(content), func(body []byte) error {
			if n := bytes.Count(body, []byte(`"@rid"`)); n != len(documents) {
				return fmt.Errorf("%d of %d were inserted", n, len(documents))
			}
			return nil
		})
	})
}

// next gives the mix, a seed's always the same.
func (p multimodelPlan) next(seed uint64) func() load.HTTPRequest {
	operations := newYCSB(recordsIn(p.data), p.reads, seed).by(p.access)
	return func() load.HTTPRequest {
		o := operations.next()
		params := map[string]string{"id": recordKey(o.record)}
		if o.read {
			return statement("query", "sql", "SELECT field0 FROM usertable WHERE id = :id", params, func(body []byte) error {
				return checkSelected(body, o.record)
			})
		}
		params["field0"] = recordField(o.record, o.update)
		return statement("command", "sqlscript", multimodelUpdate, params, checkCounted)
	}
}

// multimodelUpdate writes a document's field. Of two transactions on one page the
// server refuses the later; it is asked to try that again itself, as clients of it
// else do.
const multimodelUpdate = "BEGIN; LET updated = UPDATE usertable SET field0 = :field0 WHERE id = :id; COMMIT RETRY 100; RETURN $updated"

func checkSelected(body []byte, n int64) error {
	var answer struct{ Result []struct{ Field0 string } }
	if err := json.Unmarshal(body, &answer); err != nil || len(answer.Result) != 1 {
		return fmt.Errorf("record %s was not found: %.80q", recordKey(n), body)
	}
	return checkField(n, answer.Result[0].Field0)
}

func checkCounted(body []byte) error {
	var answer struct{ Result []struct{ Count int } }
	if err := json.Unmarshal(body, &answer); err != nil || len(answer.Result) != 1 || answer.Result[0].Count != 1 {
		return errors.New("the document to update was not found")
	}
	return nil
}

func (plan multimodelPlan) drive(ctx context.Context, t Trial) error {
	return whileServing(ctx, t, func(ctx context.Context) error {
		if err := plan.ready(ctx, t); err != nil {
			return err
		}
		return measure(ctx, t, multimodelTarget(t.Address(plan.port), plan.next(1)), plan.options)
	})
}

func (multimodel) Sustained() (p Params, steady bool) {
	return Params{"data": strconv.Itoa(slowData), "reads": "95"}, true
}

func (plan multimodelPlan) sustain(ctx context.Context, t Trial, seed uint64) error {
	return sustain(ctx, t, multimodelTarget(t.Address(plan.port), plan.next(seed)), plan.options)
}

var _ Sustainer = multimodel{}
