package claim_test

import (
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"tare/claim"
)

// ids are the claims that the project set out to judge. The list stands here,
// apart from the tables, so that a claim which falls out of them is missed.
var ids = []string{
	"S1.1", "S1.2", "S1.3", "S1.4", "S1.5", "S1.6", "S1.7", "S1.8", "S1.9", "S1.10", "S1.11", "S1.12", "S1.13", "S1.14", "S1.15",
	"S2.1", "S2.2", "S2.3", "S2.4", "S2.5", "S2.6", "S2.7", "S2.8", "S2.9", "S2.9b", "S2.10",
	"S3.1", "S3.2",
	"S4.1", "S4.2", "S4.3", "S4.4", "S4.5", "S4.6", "S4.7", "S4.8",
	"S5.1", "S5.2", "S5.3",
}

func TestEveryClaimIsThereOnceAndInOrder(t *testing.T) {
	var got []string
	for _, c := range claim.All() {
		got = append(got, c.ID)
	}
	if !slices.Equal(got, ids) {
		t.Errorf("claims are\n\t%q\nwant\n\t%q", got, ids)
	}
}

func TestClaimsAreWhole(t *testing.T) {
	for _, c := range claim.All() {
		for what, text := range map[string]string{
			"paper": c.Paper.Title, "paper's name": c.Paper.Name, "paper's kind": c.Paper.Kind, "paper's bench": c.Paper.Bench,
			"short": c.Short, "says": c.Says, "how it is judged": c.HowJudged, "study": c.Study, "command": strings.Join(c.Command, " "),
		} {
			if strings.TrimSpace(text) == "" {
				t.Errorf("%s: no %s", c.ID, what)
			}
			if text != strings.TrimSpace(text) || strings.Contains(text, "\n") {
				t.Errorf("%s: %s is not one trimmed line: %q", c.ID, what, text)
			}
		}
		if c.Paper.Year < 2010 || c.Paper.Year > 2030 {
			t.Errorf("%s: the year %d", c.ID, c.Paper.Year)
		}
		if !strings.HasPrefix(c.ID, c.Paper.Key+".") {
			t.Errorf("%s is of the paper %s", c.ID, c.Paper.Key)
		}
		if n := utf8.RuneCountInString(c.Short); n > claim.ShortWidth {
			t.Errorf("%s: its short form has %d columns, at most %d fit: %q", c.ID, n, claim.ShortWidth, c.Short)
		}
		if len(c.Published) == 0 && c.Remark == "" {
			t.Errorf("%s: nothing was published", c.ID)
		}
		if len(c.Limits) == 0 {
			t.Errorf("%s: no threshold decides it", c.ID)
		}
		for _, word := range []string{"onfirmed", "efuted"} {
			if !strings.Contains(c.HowJudged, word) {
				t.Errorf("%s: how it is judged does not say when it is %q", c.ID, word)
			}
		}
		if len(c.Command) < 2 || !slices.Equal(c.Command[:2], []string{"tare", c.Study}) {
			t.Errorf("%s: %q does not run the study %s", c.ID, c.Command, c.Study)
		}
	}
}

// sentenceEnd is what ends a sentence of a claim's texts: a decimal point, as in "4.4 times" or "S2.9", has no space after it.
var sentenceEnd = regexp.MustCompile(`[.!?](?:\s+|$)`)

// Rules and statements are read in a terminal and on a page, often once: one statement a sentence, and a short one.
func TestSentencesAreShort(t *testing.T) {
	const longest = 25 // words
	for _, c := range claim.All() {
		for what, text := range map[string]string{
			"says": c.Says, "how it is judged": c.HowJudged, "inconsistency": c.Inconsistency, "remark": c.Remark, "paper's bench": c.Paper.Bench,
		} {
			for _, sentence := range sentenceEnd.Split(text, -1) {
				if n := len(strings.Fields(sentence)); n > longest {
					t.Errorf("%s: %s has a sentence of %d words, at most %d: %q", c.ID, what, n, longest, sentence)
				}
			}
		}
	}
}

func TestFiguresAreNumbers(t *testing.T) {
	for _, c := range claim.All() {
		for what, figures := range map[string][]claim.Figure{"published": c.Published, "limit": c.Limits} {
			seen := map[string]bool{}
			for _, f := range figures {
				for _, v := range []float64{f.Value, f.Low, f.High} {
					if math.IsNaN(v) || math.IsInf(v, 0) {
						t.Errorf("%s: %s %q is not finite", c.ID, what, f.Name)
					}
				}
				if f.Name == "" || seen[f.Name] {
					t.Errorf("%s: %s %q has no name of its own", c.ID, what, f.Name)
				}
				seen[f.Name] = true
				if least, greatest := f.Ends(); !(least <= greatest) {
					t.Errorf("%s: %s %q ends before it begins", c.ID, what, f.Name)
				}
				if f.Interval() != (f.Bound == claim.Between) || f.N != 0 {
					t.Errorf("%s: %s %q has what only a figure of ours has", c.ID, what, f.Name)
				}
			}
		}
	}
}

// A judge computes with the limits, a reader is told the text: they must be the
// same.
func TestLimitsStandInTheText(t *testing.T) {
	number := regexp.MustCompile(`\d+(?:\.\d+)?`)
	for _, c := range claim.All() {
		said := number.FindAllString(c.HowJudged, -1)
		for _, f := range c.Limits {
			values := []float64{f.Value}
			if f.Bound == claim.Between {
				values = []float64{f.Low, f.High}
			}
			for _, v := range values {
				text := strings.Fields(claim.Figure{Value: v}.Text())[0]
				if !slices.Contains(said, text) {
					t.Errorf("%s: its limit %q (%s) is not in how it is judged", c.ID, f.Name, f.Text())
				}
			}
		}
	}
}

// Of a table that gives rows and their mean, the one follows from the other:
// a digit that was copied wrong shows.
func TestFaultTypesAddUp(t *testing.T) {
	c := lookup(t, "S1.11")
	types := []string{"read", "copy-on-write", "shared", "anonymous", "swap", "write-protect"}
	rows := map[string]float64{}
	for _, kind := range types {
		sum, n := 0.0, 0
		for _, f := range c.Published {
			name, ok := strings.CutSuffix(f.Name, ", "+kind)
			if !ok {
				continue
			}
			rows[name] += f.Value
			if name != "mean" {
				sum += f.Value
				n++
			}
		}
		mean, ok := c.Figure("mean, " + kind)
		if !ok || n != 9 {
			t.Fatalf("%s: mean %t, over %d applications", kind, ok, n)
		}
		if got := sum / float64(n); math.Abs(got-mean.Value) > 0.001 {
			t.Errorf("%s: the applications' mean is %.4f, the table says %.3f", kind, got, mean.Value)
		}
	}
	for name, sum := range rows {
		if math.Abs(sum-100) > 0.01 {
			t.Errorf("%s: the types are %.3f %% together", name, sum)
		}
	}
}

func TestSharesAddUp(t *testing.T) {
	for _, s := range []struct {
		claim, whole string
		parts        []string
	}{
		{"S1.3", "", []string{"kernel", "user"}},
		{"S1.4", "both groups", []string{"kernel memory and process start", "Go allocation and collection"}},
		{"S1.13", "", []string{"kernels, native", "API, native"}},
		{"S1.13", "", []string{"kernels, container", "API, container"}},
	} {
		c := lookup(t, s.claim)
		want := 100.0
		if s.whole != "" {
			want = figure(t, c, s.whole).Value
		}
		sum := 0.0
		for _, p := range s.parts {
			sum += figure(t, c, p).Value
		}
		if math.Abs(sum-want) > 1e-9 {
			t.Errorf("%s: %q are %g together, want %g", s.claim, s.parts, sum, want)
		}
	}
}

// The constant of S4.2 is a product of its own columns.
func TestQuotaTableHasItsConstant(t *testing.T) {
	c := lookup(t, "S4.2")
	constant := figure(t, c, "stalled times quota").Value
	for name, quota := range map[string]float64{"1000 µs": 0.001, "1500 µs": 0.0015, "2000 µs": 0.002, "2500 µs": 0.0025} {
		if product := quota * figure(t, c, "over 1 ms, quota "+name).Value; math.Abs(product/constant-1) > 0.1 {
			t.Errorf("quota %s: the product is %g, the constant %g", name, product, constant)
		}
	}
}

func TestLookup(t *testing.T) {
	for _, id := range []string{"S2.9b", "s2.9B"} {
		if c, err := claim.Lookup(id); err != nil || c.ID != "S2.9b" {
			t.Errorf("Lookup(%q) gives %q, %v", id, c.ID, err)
		}
	}
	for id, similar := range map[string]string{"S1,1": "S1.1", "S11": "S1.1", "s1.16": "S1.1", "2.9b": "S2.9b", "": "", "startup": "", strings.Repeat("S", 1<<20): ""} {
		_, err := claim.Lookup(id)
		var unknown *claim.Unknown
		if !errors.As(err, &unknown) {
			t.Errorf("Lookup(%.20q) gives %v", id, err)
			continue
		}
		if similar == "" != (len(unknown.Similar) == 0) || similar != "" && !slices.Contains(unknown.Similar, similar) {
			t.Errorf("%.20q: %q may have been meant, want %q", id, unknown.Similar, similar)
		}
		if len(unknown.Similar) > 3 {
			t.Errorf("%.20q: %d may have been meant", id, len(unknown.Similar))
		}
	}
}

func TestTheTablesCannotBeChanged(t *testing.T) {
	claim.All()[0].ID = "S9.9"
	if c := claim.All()[0]; c.ID != "S1.1" {
		t.Errorf("the first claim is %s now", c.ID)
	}
}

func TestOf(t *testing.T) {
	var got []string
	for _, c := range claim.Of("startup") {
		got = append(got, c.ID)
	}
	if want := []string{"S1.1", "S1.2", "S1.3", "S1.4"}; !slices.Equal(got, want) {
		t.Errorf("start-up decides %q, want %q", got, want)
	}
	if claim.Of("nothing") != nil {
		t.Error("no study decides something")
	}
}

func lookup(t *testing.T, id string) claim.Claim {
	t.Helper()
	c, err := claim.Lookup(id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func figure(t *testing.T, c claim.Claim, name string) claim.Figure {
	t.Helper()
	f, ok := c.Figure(name)
	if !ok {
		t.Fatalf("%s has no figure %q", c.ID, name)
	}
	return f
}
