package workload

import (
	"cmp"
	"fmt"
	"slices"
)

// The ranks of programs/pagerank, worked out a second time from the graph's
// definition (programs/pagerank/graph.h): along the edges as they are drawn, where
// the program takes them shard by shard.

// rankSize is how large a graph is.
type rankSize struct{ vertices, edges int }

func rankSizeOf(bytes, degree int64) rankSize {
	s := rankSize{2, int(bytes / rankEdge)}
	for int64(s.vertices)*2*degree <= int64(s.edges) {
		s.vertices *= 2
	}
	return s
}

// rankSeed is the programs' default.
const rankSeed = 1

// edge draws one of the graph's edges: for each bit of the vertices' numbers a
// quadrant of the matrix, by sixteen bits of a draw.
func (s rankSize) edge(which int) (from, to uint32) {
	state := splitmix(mix(rankSeed ^ mix(uint64(which)+1)))
	var bits uint64
	var left int
	for half := uint32(s.vertices / 2); half > 0; half /= 2 {
		if left == 0 {
			state += 0x9e3779b97f4a7c15
			bits, left = mix(uint64(state)), 4
		}
		switch place := bits & 0xffff; {
		case place < 37355: // 0.57 of 65536
		case place < 49807: // and 0.19
			to += half
		case place < 62259: // and 0.19
			from += half
		default:
			from += half
			to += half
		}
		bits >>= 16
		left--
	}
	mask := uint32(s.vertices - 1)
	return from * 0x9e3779b1 & mask, to * 0x9e3779b1 & mask
}

// rankReference is a graph whose ranks are to be known.
type rankReference struct {
	size  rankSize
	edges [][2]uint32
}

func newRankReference(size rankSize) rankReference {
	r := rankReference{size, make([][2]uint32, size.edges)}
	for i := range r.edges {
		r.edges[i][0], r.edges[i][1] = size.edge(i)
	}
	return r
}

// ranks gives each vertex' rank after so many iterations, with the damping of the
// paper (Brin, Page, WWW 1998); what vertices without edges have, all get.
func (r rankReference) ranks(iterations int) []float64 {
	const damping = 0.85
	n := r.size.vertices
	out := make([]float64, n)
	for _, e := range r.edges {
		out[e[0]]++
	}
	ranks, next := slices.Repeat([]float64{1 / float64(n)}, n), make([]float64, n)
	for range iterations {
		var lost float64
		for v := range ranks {
			if out[v] == 0 {
				lost += ranks[v]
			}
		}
		for v := range next {
			next[v] = (1 - damping + damping*lost) / float64(n)
		}
		for _, e := range r.edges {
			next[e[1]] += damping * ranks[e[0]] / out[e[0]]
		}
		ranks, next = next, ranks
	}
	return ranks
}

// rankAnswer is what is right of a graph's ranks.
type rankAnswer struct {
	sum, weighted float64
	// highest are the vertices with the highest ranks, descending: more than a
	// program names, since of two alike it may name either.
	highest []rankOf
}

const rankNamed = 10

// rankKey is what an answer depends on.
type rankKey struct {
	size       rankSize
	iterations int
}

var rightRanks worked[rankKey, rankAnswer]

func rightRanksOf(key rankKey) rankAnswer {
	return rightRanks.get(key, func() rankAnswer { return newRankReference(key.size).answer(key.iterations) })
}

func (r rankReference) answer(iterations int) rankAnswer {
	var a rankAnswer
	ranks := r.ranks(iterations)
	a.highest = make([]rankOf, len(ranks))
	for v, rank := range ranks {
		a.sum += rank
		a.weighted += rank * (float64(mix(uint64(v)+1)>>11) * 0x1p-53)
		a.highest[v] = rankOf{v, rank}
	}
	slices.SortFunc(a.highest, func(a, b rankOf) int { return cmp.Compare(b.Rank, a.Rank) })
	a.highest = slices.Clone(a.highest[:min(2*rankNamed, len(ranks))])
	return a
}

// compare holds a program's results to what is right.
func (a rankAnswer) compare(o pagerankOutcome) error {
	if !near(o.Sum, 1) || !near(o.Sum, a.sum) || !near(o.Checksum, a.weighted) {
		return fmt.Errorf("pagerank's ranks come to %.12g, weighted %.12g, where 1 and %.12g are right: not valid", o.Sum, o.Checksum, a.weighted)
	}
	if want := min(rankNamed, o.Vertices); len(o.Top) != want {
		return fmt.Errorf("pagerank names %d vertices, want the highest %d: not valid", len(o.Top), want)
	}
	named := map[int]bool{}
	for i, top := range o.Top {
		at := slices.IndexFunc(a.highest, func(r rankOf) bool { return r.Vertex == top.Vertex })
		// By their ranks and not by their places: two may be alike.
		if want := a.highest[i].Rank; at < 0 || named[top.Vertex] || !near(top.Rank, want) ||
			!near(a.highest[at].Rank, want) {
			return fmt.Errorf("pagerank has vertex %d with rank %.12g as number %d, where %.12g is right: not valid", top.Vertex, top.Rank, i+1, want)
		}
		named[top.Vertex] = true
	}
	return nil
}
