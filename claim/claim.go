// Package claim holds what five papers claim of containers, as data: what each
// claim says, the figures that it was published with, where its paper
// contradicts itself, and by what rule our own run judges it; and it keeps the
// verdicts honest that studies reach on them.
//
// It knows no study and measures nothing. A study that judges claims looks its
// claim up, computes with the published figures and the limits that stand here,
// and returns judgements; whoever shows judgements has them settled first
// ([Settle]), so that one place decides what a verdict may be.
//
// The figures are the papers' own, read from their text and tables; the
// sentences are ours. The papers' files are named s1.go to s5.go, and each says
// which paper it is.
package claim

import (
	"slices"
	"strings"
)

// Claim is one thing that a paper says and that can be put to the test.
type Claim struct {
	ID    string // "S1.1": the paper's key, and the claim's place in it
	Paper Paper
	// Short is the claim in a few words, at most [ShortWidth] columns.
	Short string
	// Says is the claim, in our words.
	Says string
	// Published are the figures that the paper gives for it, under names that
	// are unique within the claim. A study that has a figure of its own for the
	// same thing gives it the same name.
	Published []Figure
	// Remark says what the paper gives where it gives no figure, or what must be
	// known to read the figures; may be empty where there are figures.
	Remark string
	// Inconsistency says where the paper contradicts itself, or what it left out
	// that the claim rests on; empty where it does not. A claim that has one is
	// judged as qualified at best.
	Inconsistency string
	// HowJudged says what of our own run decides the verdict.
	HowJudged string
	// Limits are the thresholds that HowJudged names, for a judge to compute with.
	Limits []Figure
	// Study is the study whose runs decide it: "startup".
	Study string
	// Command runs that study so that it judges this claim.
	Command []string
	// Quick, where there is one, is that command narrowed to what decides the claim in three short
	// blocks. Where there is none, three blocks of Command are short.
	Quick []string
	// Needs are what a host must have beside what the command itself requires.
	Needs []Need
}

// ShortWidth is how long a claim's Short may be: what a line of 80 columns has
// beside an ID and a verdict.
const ShortWidth = 57

// Paper is where a claim is from.
type Paper struct {
	Key   string `json:"key"`   // "S1", with which the IDs of its claims begin
	Name  string `json:"name"`  // by which it is spoken of
	Title string `json:"title"` // as published
	Kind  string `json:"kind"`  // "master's thesis, University of Illinois"
	Year  int    `json:"year"`  // of publication
	Bench string `json:"bench"` // what it was measured on, and how often
}

// all holds the claims in the papers' order.
var all = slices.Concat(s1, s2, s3, s4, s5)

// All lists every claim, in the papers' order.
func All() []Claim { return slices.Clone(all) }

// Papers lists the papers in order of their keys.
func Papers() []Paper { return []Paper{characterization, pinning, density, latency, storage} }

// Lookup finds a claim by its ID, in either case. The error is *Unknown.
func Lookup(id string) (Claim, error) {
	for _, c := range all {
		if strings.EqualFold(c.ID, id) {
			return c, nil
		}
	}
	return Claim{}, &Unknown{ID: id, Similar: similar(id)}
}

// Of lists the claims that a study decides.
func Of(study string) []Claim {
	var of []Claim
	for _, c := range all {
		if c.Study == study {
			of = append(of, c)
		}
	}
	return of
}

// Figure gives a published figure by its name; false where the paper has none
// of that name.
func (c Claim) Figure(name string) (Figure, bool) { return named(c.Published, name) }

// Limit gives a threshold by its name; false where the claim has none of that
// name.
func (c Claim) Limit(name string) (Figure, bool) { return named(c.Limits, name) }

func named(figures []Figure, name string) (Figure, bool) {
	for _, f := range figures {
		if f.Name == name {
			return f, true
		}
	}
	return Figure{}, false
}
