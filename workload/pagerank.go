package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"tare/image"
)

// pagerank is S1's graph computation in GraphChi's manner (programs/pagerank): the
// vertices are mapped into memory, the edges read through a buffer. The ranks are
// compared with a reference of our own.
type pagerank struct {
	workloadOf[pagerankPlan]
	readierOf[pagerankPlan]
	sustainerOf[pagerankPlan]
}

func (pagerank) Name() string    { return "pagerank" }
func (pagerank) Summary() string { return "PageRank, vertices memory-mapped and edges read" }
func (pagerank) Source() Source  { return Source{Recipe: "pagerank"} }
func (pagerank) dataInImage()    {}

// mostPageRankData is what the program takes at most, in MiB of edges.
const mostPageRankData = 2048

// What the program and a graph are made of (programs/pagerank/graph.h).
const (
	rankEdge   = 8  // bytes of an edge
	rankVertex = 24 // bytes of a vertex, in memory
	rankShard  = 16 << 20
)

type pagerankPlan struct {
	mebibytes, degree int64
	size              rankSize
	iterations        int
	held, made        bool
}

func (plan pagerankPlan) parse(from *parameters) pagerankPlan {
	const there = image.PageRankGraph
	plan.mebibytes = from.whole("data", there, 1, mostPageRankData, fmt.Sprintf("MiB of edges, 8 bytes each, RANGE; "+
		"%d, as S1 had, is in an image of its own; another graph than its %d is made in /data first, in a time of its own",
		image.LargeData, there))
	plan.degree = from.whole("degree", image.PageRankDegree, 1, 1024,
		"edges of a vertex in the mean, at least, RANGE; a vertex is mapped with 24 bytes")
	plan.iterations = int(from.whole("iterations", 20, 1, 1000, "RANGE"))
	plan.held = from.until(untilExit,
		"exit: it ends with its iterations; signal: it goes on until it is stopped, to be watched")
	plan.size = rankSizeOf(plan.mebibytes<<20, plan.degree)
	plan.made = plan.size != rankSizeOf(there<<20, image.PageRankDegree) &&
		plan.size != rankSizeOf(image.LargeData<<20, image.PageRankDegree)
	return plan
}

func (plan pagerankPlan) program() Program {
	args := []string{"/usr/bin/pagerank", "--data", strconv.FormatInt(plan.mebibytes, 10),
		"--degree", strconv.FormatInt(plan.degree, 10), "--iterations", strconv.Itoa(plan.iterations),
		"--scratch", "/data/graph", "--vertices", "/data/vertices"}
	if plan.held {
		args = append(args, "--endless")
	}
	// The vertices and a shard. The graph itself is page cache, but one that is
	// made is sorted in memory first.
	need := 4<<20 + int64(plan.size.vertices)*rankVertex + min(2*rankShard, int64(plan.size.edges)*rankEdge)
	if plan.made {
		need += 2*int64(plan.size.edges)*rankEdge + int64(plan.size.vertices)*17
	}
	return Program{Args: append(args, "/graph"), Data: []string{"/data"}, MemoryNeed: need, Service: plan.held}
}

func (plan pagerankPlan) metrics() []Metric {
	metrics := []Metric{
		{Name: "elapsed", Unit: "s", Better: Lower, Primary: true, Doc: "all iterations, by the program's own clock: from the mapping of the vertices"},
		{Name: "rate", Unit: "edges/s", Better: Higher, Doc: "edges gone along over that"},
		{Name: "wall", Unit: "s", Better: Lower, Doc: "from the request to launch to the end, what the platform took included"},
		{Name: "cpu", Unit: "s", Better: Lower, Doc: "user and system time of the program"},
	}
	if plan.made {
		metrics = append(metrics, Metric{Name: "making", Unit: "s", Better: Lower, Doc: "of a graph other than the image's, before the work"})
	}
	return metrics
}

func (plan pagerankPlan) drive(ctx context.Context, t Trial) error {
	if plan.held {
		return unweighable(pagerank{}.Name())
	}
	exit, err := finish(ctx, t)
	if err != nil {
		return err
	}
	stdout, _ := t.Output()
	// Worked out after the program's end, so that it disturbs nothing.
	o, err := plan.check(stdout)
	if err != nil {
		return err
	}
	t.Record("elapsed", o.Seconds)
	t.Record("rate", float64(o.Edges)*float64(o.Iterations)/o.Seconds)
	t.Record("wall", exit.Elapsed.Seconds())
	if exit.CPU >= 0 {
		t.Record("cpu", exit.CPU.Seconds())
	}
	if plan.made {
		t.Record("making", o.Generated)
	}
	return nil
}

// check reads the program's results, and holds them to the reference.
func (plan pagerankPlan) check(output []byte) (pagerankOutcome, error) {
	o, err := parsePageRank(output)
	if err != nil {
		return o, fmt.Errorf("output of pagerank: %w; its end: %s", err, ending(output))
	}
	if o.Vertices != plan.size.vertices || o.Edges != plan.size.edges || o.Iterations != plan.iterations {
		return o, fmt.Errorf("pagerank went %d times along %d edges between %d vertices, want %d, %d, %d: not valid",
			o.Iterations, o.Edges, o.Vertices, plan.iterations, plan.size.edges, plan.size.vertices)
	}
	return o, rightRanksOf(rankKey{plan.size, plan.iterations}).compare(o)
}

// pagerankOutcome is the line that the program prints for its results.
type pagerankOutcome struct {
	Vertices, Edges, Iterations int
	Sum, Checksum               float64
	Top                         []rankOf
	Seconds                     float64
	Generated                   float64 `json:"generated_seconds"`
}

// rankOf is one vertex with its rank.
type rankOf struct {
	Vertex int
	Rank   float64
}

func parsePageRank(output []byte) (pagerankOutcome, error) {
	var o pagerankOutcome
	if err := json.Unmarshal(output, &o); err != nil {
		return o, err
	}
	if !(o.Seconds > 0) || o.Generated < 0 || o.Vertices <= 0 || o.Edges <= 0 || o.Iterations <= 0 || len(o.Top) == 0 ||
		len(o.Top) > o.Vertices {
		return o, fmt.Errorf("%d edges between %d vertices, %d highest, in %v s after %v s of making cannot be", o.Edges, o.Vertices, len(o.Top), o.Seconds, o.Generated)
	}
	for _, top := range o.Top {
		if top.Vertex < 0 || top.Vertex >= o.Vertices {
			return o, fmt.Errorf("vertex %d of %d cannot be", top.Vertex, o.Vertices)
		}
	}
	return o, nil
}

var _ Sustainer = pagerank{}

// Sustained has it go on with iterations.
func (pagerank) Sustained() (p Params, steady bool) { return Params{"until": untilSignal}, true }

// Listens tells that the program's lines are what is waited for.
func (pagerank) Listens() bool { return true }

// ready waits until the first iteration begins, on the graph that was asked for.
func (plan pagerankPlan) ready(ctx context.Context, t Trial) error {
	return awaitLine(ctx, t, "pagerank begins its first iteration", func(line []byte) error {
		var o struct {
			Begun           bool
			Vertices, Edges int
		}
		if err := json.Unmarshal(line, &o); err != nil {
			return fmt.Errorf("first line of pagerank: %w: %s", err, ending(line))
		}
		if !o.Begun || o.Vertices != plan.size.vertices || o.Edges != plan.size.edges {
			return fmt.Errorf("pagerank begins with %d edges between %d vertices, want %d, %d: not valid", o.Edges, o.Vertices, plan.size.edges, plan.size.vertices)
		}
		return nil
	})
}

// sustain waits, and then holds to the reference what the first iterations came
// to, where the time sufficed for them.
func (plan pagerankPlan) sustain(ctx context.Context, t Trial, _ uint64) error {
	if err := untilDone(ctx, t); err != nil {
		return err
	}
	stdout, _ := t.Output()
	_, results, _ := bytes.Cut(stdout, []byte{'\n'})
	if results, _, whole := bytes.Cut(results, []byte{'\n'}); whole {
		_, err := plan.check(results)
		return err
	}
	return nil
}

// rankTolerance is how far two sums of the same numbers in another order may be
// apart, relative to their size.
const rankTolerance = 1e-9

func near(a, b float64) bool { return math.Abs(a-b) <= rankTolerance*math.Abs(b) }
