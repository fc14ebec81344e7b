package claim_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tare/claim"
)

var update = flag.Bool("update", false, "write the tables of docs/claims.md anew")

const (
	page  = "../docs/claims.md"
	begin = "<!-- made by go test ./claim -update -->\n"
	end   = "<!-- end -->\n"
)

// tables are the claims as docs/claims.md lists them.
func tables() string {
	var b strings.Builder
	for _, p := range claim.Papers() {
		fmt.Fprintf(&b, "\n### %s: %s\n\n%s, %s. Measured on %s\n\n", p.Key, p.Title, p.Name, p.Kind, p.Bench)
		b.WriteString("| claim | says | published | study |\n|---|---|---|---|\n")
		for _, c := range claim.All() {
			if c.Paper.Key == p.Key {
				fmt.Fprintf(&b, "| %s%s | %s | %s | %s |\n", c.ID, mark(c), c.Says, published(c), c.Study)
			}
		}
	}
	return b.String() + "\n"
}

// mark tells a claim that is qualified at best.
func mark(c claim.Claim) string {
	if c.Inconsistency != "" {
		return "\\*"
	}
	return ""
}

// published are the figures that fit a row.
func published(c claim.Claim) string {
	const most = 9
	var parts []string
	for i, f := range c.Published {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(c.Published)-most))
			break
		}
		parts = append(parts, f.Name+": "+f.Text())
	}
	if len(parts) == 0 {
		return "no figures"
	}
	return strings.Join(parts, "; ")
}

// The page holds what the tables hold.
func TestThePageIsCurrent(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	have, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the tables, between %q and %q", page, begin, end)
	}
	if *update {
		if err := os.WriteFile(page, []byte(head+begin+tables()+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(have, tables()); diff != "" {
		t.Errorf("%s is not current; go test ./claim -update writes its tables anew (-page +claims):\n%s", page, diff)
	}
}
