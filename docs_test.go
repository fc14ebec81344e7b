package tare_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"tare/cli"
	"tare/cli/annex"
	"tare/cli/annexd"
)

var (
	// A link in Markdown, or the source of a picture in HTML.
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|srcset|href)="([^"]+)"`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*?) *$`)
	anchor  = regexp.MustCompile(`<a (?:id|name)="([^"]+)">`)
	outside = regexp.MustCompile(`^(https?|mailto):`)
	// What a heading's anchor leaves out.
	unanchored = regexp.MustCompile(`[^\p{L}\p{N}\p{M}_ -]`)
	linkText   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// anchors are the places of a page that links can name, as forges derive them from headings.
func anchors(markdown string) []string {
	prose := codeBlock.ReplaceAllString(markdown, "")
	var names []string
	times := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(prose, -1) {
		text := linkText.ReplaceAllString(m[1], "$1")
		name := strings.ReplaceAll(unanchored.ReplaceAllString(strings.ToLower(text), ""), " ", "-")
		if n := times[name]; n > 0 {
			names = append(names, fmt.Sprintf("%s-%d", name, n))
		} else {
			names = append(names, name)
		}
		times[name]++
	}
	for _, m := range anchor.FindAllStringSubmatch(prose, -1) {
		names = append(names, m[1])
	}
	return names
}

func TestAnchors(t *testing.T) {
	got := anchors("# Where a `service` listens\n## [S1](x.md)'s: 2 \n## A\n## A\n```\n# no\n```\n<a id=\"here\">")
	if want := []string{"where-a-service-listens", "s1s-2", "a", "a-1", "here"}; !slices.Equal(got, want) {
		t.Errorf("anchors %q, want %q", got, want)
	}
}

func TestDocumentsLinkToWhatIsThere(t *testing.T) {
	for _, name := range documents(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		prose := codeSpan.ReplaceAllString(codeBlock.ReplaceAllString(string(text), ""), "")
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			target := m[1] + m[2]
			if outside.MatchString(target) {
				continue
			}
			path, place, _ := strings.Cut(target, "#")
			file := name
			if path != "" {
				file = filepath.Join(filepath.Dir(name), path)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %s: there is no %s", name, target, file)
				continue
			}
			if place == "" {
				continue
			}
			page, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(anchors(string(page)), place) {
				t.Errorf("%s: %s: %s has no heading of that name", name, target, file)
			}
		}
	}
}

var (
	continued = regexp.MustCompile(`\\\n\s*`)
	parted    = regexp.MustCompile(`&&|\|\||[|;]`)
	screens   = regexp.MustCompile("(?ms)^ *```text\n.*?^ *```")
	argument  = regexp.MustCompile(`^[a-z][a-z-]*$|^--?[a-z]`) // and not a word of what is printed
	quoted    = regexp.MustCompile(`'[^']*'|"[^"]*"`)
)

// printed are the command lines of our programs that a Markdown text shows, as words. Blocks of
// "text" show what was printed.
func printed(markdown string) (lines [][]string) {
	markdown = screens.ReplaceAllString(markdown, "")
	for _, line := range strings.Split(continued.ReplaceAllString(code(markdown), " "), "\n") {
		line = quoted.ReplaceAllString(strings.Trim(strings.TrimSpace(line), "`"), "QUOTED")
		line, _, _ = strings.Cut(line, " #")
		for _, part := range parted.Split(line, -1) {
			words := strings.Fields(part)
			for len(words) > 0 && (words[0] == "sudo" || words[0] == "$" || strings.Contains(words[0], "=")) {
				words = words[1:]
			}
			if len(words) == 0 {
				continue
			}
			words[0] = strings.TrimPrefix(strings.TrimPrefix(words[0], "./"), "bin/")
			if slices.Contains([]string{"tare", "annex", "annexd"}, words[0]) && (len(words) == 1 || argument.MatchString(words[1])) {
				lines = append(lines, words)
			}
		}
	}
	return lines
}

func TestPrinted(t *testing.T) {
	got := printed("`tare show`, and\n```\n$ sudo bin/tare weigh a \\\n  --quick  # why\nmkdir x && annex config --example > y\nout of tare\n```\n")
	want := [][]string{{"tare", "weigh", "a", "--quick"}, {"annex", "config", "--example", ">", "y"}, {"tare", "show"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("printed %q, want %q", got, want)
	}
}

// TestDocumentsShowCommandsThatParse reads each command line that the documents show as the program
// would, as far as its flags.
func TestDocumentsShowCommandsThatParse(t *testing.T) {
	programs := map[string]func() *cobra.Command{"tare": cli.Command, "annex": annex.Command, "annexd": annexd.Command}
	seen := 0
	for _, name := range documents(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, words := range printed(string(text)) {
			seen++
			if err := parses(programs[words[0]](), words[1:]); err != nil {
				t.Errorf("%s: %s: %v", name, strings.Join(words, " "), err)
			}
		}
	}
	if seen < 100 {
		t.Errorf("%d command lines were read in all documents", seen)
	}
}

// TestExamplesParse does so with the examples of help.
func TestExamplesParse(t *testing.T) {
	programs := map[string]func() *cobra.Command{"tare": cli.Command, "annex": annex.Command, "annexd": annexd.Command}
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for _, words := range printed("```\n" + c.Example + "\n```\n") {
			if err := parses(programs[words[0]](), words[1:]); err != nil {
				t.Errorf("%s: %s: %v", c.CommandPath(), strings.Join(words, " "), err)
			}
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	for _, program := range programs {
		check(program())
	}
}

// TestProposedFlagsExist reads every flag that the source names behind a command of tare's: in
// what it proposes to run next, in messages, and in comments.
func TestProposedFlagsExist(t *testing.T) {
	proposed := regexp.MustCompile("\\btare ((?:[a-z]+ ?){1,2})([^\"`\\n:;&\\\\]*)")
	joined := regexp.MustCompile(`" \+ [^"\n]+ \+ "`)
	flag := regexp.MustCompile(`(?:^| )--([a-z][a-z0-9-]*)`)
	program, seen := cli.Command(), 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		own := strings.ReplaceAll(string(text), "kubectl tare ", "kubectl ") // whose flags its own test looks up
		for _, m := range proposed.FindAllStringSubmatch(joined.ReplaceAllString(own, "x"), -1) {
			c, _, err := program.Find(strings.Fields(m[1]))
			if err != nil || c == program {
				continue // words of a sentence
			}
			rest, _, _ := strings.Cut(m[2], " -- ")
			for _, f := range flag.FindAllStringSubmatch(rest, -1) {
				seen++
				if f[1] != "help" && f[1] != "all" && c.Flag(f[1]) == nil {
					t.Errorf("%s: %q has no flag --%s", path, m[0], f[1])
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 50 {
		t.Errorf("%d flags were read", seen)
	}
}

// parses looks up the command that words name and has it read its flags.
func parses(program *cobra.Command, words []string) error {
	if i := slices.IndexFunc(words, func(w string) bool { return strings.ContainsAny(w[:1], "><") || w == "..." || w == "…" }); i >= 0 {
		words = words[:i]
	}
	for i, w := range words {
		words[i] = strings.TrimSuffix(strings.Trim(w, "[]"), "...")
	}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" || w == "--help" || w == "--all" || w == "flags" })
	c, rest, err := program.Find(words)
	if err != nil {
		return err
	}
	c.InitDefaultVersionFlag()
	if err := c.ParseFlags(rest); err != nil && !strings.Contains(err.Error(), "invalid argument") {
		return err
	}
	return nil
}

// TestPictureIsCurrent tells whether the pictures of the front page show the report as it is made now.
func TestPictureIsCurrent(t *testing.T) {
	packed, err := os.Open("docs/pictures/run.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	reader, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	store, err := os.Create(filepath.Join(home, "tare.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(store, reader); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(home, "report.html")
	if code := cli.Main([]string{"tare", "show", "latest", "--home", home, "--html", page}); code != 0 {
		t.Fatalf("tare show ended with %d", code)
	}
	report, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	report = bytes.ReplaceAll(report, []byte(home), []byte("HOME"))
	photographed, err := os.ReadFile("docs/pictures/report.sha256")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%x\n", sha256.Sum256(report)); got != string(photographed) {
		t.Error("the report is not as it was photographed: make picture, and look at docs/pictures")
	}
}

// TestSentencesAreShort holds the pages that a new user reads to sentences of 30 words at most.
func TestSentencesAreShort(t *testing.T) {
	const longest = 30
	end := regexp.MustCompile(`[.!?:](?:\s|$)|\n\s*\n|\n\s*(?:[-|#]|\d+\.)|\|`)
	for _, name := range []string{"README.md", "docs/index.md", "docs/install.md", "docs/tutorial.md", "docs/reading-results.md", "docs/own-service.md", "docs/ci.md", "docs/troubleshooting.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		prose := codeBlock.ReplaceAllString(string(text), "\n\n")
		for _, sentence := range end.Split(linkText.ReplaceAllString(codeSpan.ReplaceAllString(prose, "CODE"), "$1"), -1) {
			if n := len(strings.Fields(sentence)); n > longest {
				t.Errorf("%s: a sentence of %d words: %s", name, n, strings.Join(strings.Fields(sentence), " "))
			}
		}
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(readme), "\n"); n > 115 {
		t.Errorf("README.md has %d lines, want 115 at most", n)
	}
}
