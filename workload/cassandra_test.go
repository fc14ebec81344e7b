package workload

import (
	"context"
	"strings"
	"testing"
	"time"

	"tare/load"
)

func TestCassandraParameters(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"operations", "0", "from 1"}, {"rate", "fast", "closed"}, {"arrival", "at-once", "poisson"}, {"threads", "4097", "to 4096"},
		{"reads", "101", "to 100"}, {"records", "0", "from 1"}, {"warmup", "-1s", "from 0s"}, {"heap", "128", "from 256"}, {"compiler", "none", "full"},
	} {
		_, err := Resolve(cassandra{}, map[string]string{c.name: c.value})
		refusedAs[*WrongValue](t, err, c.name+"="+c.value, c.want)
	}
	for _, c := range []struct {
		pairs []string
		want  Offered
	}{
		{nil, Offered{1000, load.Uniform, 100, 0}}, // S2's
		{[]string{"rate", "closed", "threads", "4"}, Offered{0, load.Uniform, 4, 0}},
		{[]string{"rate", "50", "arrival", "poisson"}, Offered{50, load.Poisson, 100, 0}},
	} {
		got, err := cassandra{}.Offered(resolve(t, cassandra{}, c.pairs...))
		if err != nil || got != c.want {
			t.Errorf("%q: %+v, %v, want %+v", c.pairs, got, err, c.want)
		}
	}
}

func TestCassandraNeedsFitOneGibibyte(t *testing.T) {
	program, err := cassandra{}.Program(resolve(t, cassandra{}))
	if err != nil || program.MemoryNeed > 1<<30 {
		t.Errorf("it needs %d bytes: %v", program.MemoryNeed, err)
	}
}

// The mix asks for all records alike, a seed's always the same ones, a quarter of
// them for writing.
func TestCassandraMix(t *testing.T) {
	plan, err := planOf[cassandraPlan](resolve(t, cassandra{}, "records", "100"))
	if err != nil {
		t.Fatal(err)
	}
	one, two := plan.mix(1), plan.mix(1)
	const draws = 20_000
	times, writes := make([]int, plan.records), 0
	for range draws {
		o := one()
		if again := two(); again != o {
			t.Fatalf("%+v and %+v of one seed", o, again)
		}
		times[o.record]++
		if !o.read {
			writes++
		}
	}
	// Six standard deviations of a binomial distribution, and more.
	if writes < draws/4-400 || writes > draws/4+400 {
		t.Errorf("%d writes of %d", writes, draws)
	}
	for record, n := range times {
		if mean := draws / len(times); n < mean-100 || n > mean+100 {
			t.Errorf("record %d was asked for %d times, want some %d", record, n, mean)
		}
	}
}

func TestCassandraChecks(t *testing.T) {
	row := func(field string) load.CQLRow { return load.CQLRow{[]byte(field)} }
	if err := checkCQLRecord(7, []load.CQLRow{row(recordField(7, 3))}); err != nil {
		t.Error(err)
	}
	for name, rows := range map[string][]load.CQLRow{
		"none": nil, "two": {row(recordField(7, 0)), row(recordField(7, 0))}, "null": {{nil}}, "no column": {{}},
		"another record": {row(recordField(8, 3))}, "damaged": {row(strings.ToUpper(recordField(7, 3)))},
	} {
		if err := checkCQLRecord(7, rows); err == nil || !strings.Contains(err.Error(), "user00000007") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if checkCQLWritten(nil) != nil || checkCQLWritten([]load.CQLRow{row("")}) == nil {
		t.Error("a write is answered by no rows")
	}
}

// The whole service, as bare metal has it, S2's operations among them. A write is
// read back, and a record that somebody else has changed is found out.
func TestRealCassandra(t *testing.T) {
	t.Parallel()
	img := realImage(t, "cassandra")
	port := freePort(t)
	w := cassandra{}
	pairs := []string{"records", "1000", "warmup", "200ms"}
	tr := serveAlone(t, w, resolve(t, w, pairs...), img, port)
	if err := w.Drive(t.Context(), tr); err != nil {
		t.Fatalf("%v; it printed %s", err, lastWords(tr))
	}
	checkRecorded(t, w, &tr.trial)
	if n := tr.histograms[latencies].TotalCount(); n != 1000 {
		t.Errorf("%d latencies, want S2's 1000", n)
	}

	plan, err := planOf[cassandraPlan](tr.params)
	if err != nil {
		t.Fatal(err)
	}
	todo := []operation{{record: 3, update: 41}, {record: 3, read: true}, {record: 3, update: 42}, {record: 3, read: true}}
	var at int
	target := plan.target(tr, func() operation { at++; return todo[at-1] })
	inner, want := target.Next, []string{"", recordField(3, 41), "", recordField(3, 42)}
	target.Next = func() load.CQLRequest {
		request := inner()
		exactly := want[at-1]
		if check := request.Check; exactly != "" {
			request.Check = func(rows []load.CQLRow) error {
				if err := check(rows); err == nil && string(rows[0][0]) != exactly {
					t.Errorf("read back %.30q, wrote %.30q", rows[0][0], exactly)
				}
				return nil
			}
		}
		return request
	}
	err = answered(load.Run(t.Context(), target, load.Options{Connections: 1, Count: int64(len(todo)), Timeout: time.Minute}))
	if err != nil {
		t.Fatal(err)
	}

	err = plan.withClient(t.Context(), tr, func(client *load.CQLClient) error {
		_, err := client.Do(t.Context(), "TRUNCATE ycsb.usertable")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plan.load(t.Context(), tr, 1); err == nil || !strings.Contains(err.Error(), "was answered by 0 rows") {
		t.Errorf("%v, want that the records are gone", err)
	}
	tr.end()
	if stdout, _ := tr.Output(); strings.Contains(string(stdout), "ERROR") {
		t.Errorf("it complains: %s", stdout)
	}
}

// Nobody there is recognised by what was asked of it.
func TestCassandraThatIsNotThere(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	gone := "127.0.0.1:" + freePort(t)
	if err := (cassandra{}).Ready(ctx, &trial{params: resolve(t, cassandra{}), address: gone}); err == nil || !strings.Contains(err.Error(), gone) {
		t.Errorf("%v, want where it was looked for", err)
	}
}
