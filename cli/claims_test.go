package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/claim"
	"tare/kernel/host"
	"tare/record"
	"tare/study/imported"
)

// judging makes a study's runs speak for the length of a test.
func judging(t *testing.T, study string, judge claim.Judge) {
	t.Helper()
	was := judges
	judges = map[string]claim.Judge{study: judge}
	t.Cleanup(func() { judges = was })
}

// measured puts complete runs of start-up into a new store, one an hour.
func measured(t *testing.T, hosts ...record.Host) (home string, ids []string) {
	t.Helper()
	home = t.TempDir()
	store, err := record.Open(filepath.Join(home, storeFile))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for i, h := range hosts {
		started := time.Date(2026, 1, 2, 10+i, 0, 0, 0, time.UTC)
		id := record.NewID("startup", started, uint16(i))
		if err := store.Begin(record.Run{ID: id, Study: "startup", Started: started, Host: h}); err != nil {
			t.Fatal(err)
		}
		if err := store.Finish(id, record.Complete, "as planned"); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return home, ids
}

// listed gives the line of a list of claims that begins with an ID.
func listed(t *testing.T, text, id string) string {
	t.Helper()
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == id {
			return strings.TrimSpace(line)
		}
	}
	t.Fatalf("no line begins with %s:\n%s", id, text)
	return ""
}

// unwrapped is what a screen says without the ends of its lines, those of commands too.
func unwrapped(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "\\\n", " ")), " ")
}

func TestClaimsWithoutAStoreAreNotYetRun(t *testing.T) {
	home := filepath.Join(t.TempDir(), "never")
	code, stdout, stderr := tare(t, home, "claims")
	if code != exitSuccess || stderr != "" {
		t.Fatalf("code %d: %s", code, stderr)
	}
	whole := unwrapped(stdout)
	for _, c := range claim.All() {
		if line := listed(t, stdout, c.ID); !strings.Contains(line, "not yet run") {
			t.Errorf("without a store: %s", line)
		}
		command := "tare --home " + home + strings.TrimPrefix(strings.Join(c.Command, " "), "tare")
		if !runnable((&app{}).root(), c) {
			command = "not yet: tare " + c.Study
		}
		if !strings.Contains(whole, command) {
			t.Errorf("%s: no %q in\n%s", c.ID, command, stdout)
		}
	}
	if _, err := os.Stat(home); err == nil {
		t.Error("the state directory was made")
	}
	empty, _ := measured(t)
	code, again, stderr := tare(t, empty, "claims")
	if again = strings.ReplaceAll(unwrapped(again), empty, home); code != exitSuccess || again != whole {
		t.Errorf("an empty store: code %d, %s\n%s", code, stderr, again)
	}
}

func TestClaimsShowTheLatestVerdictOnThisHost(t *testing.T) {
	here := hostRecord(host.Read("/"))
	elsewhere := here
	elsewhere.Hostname += "-other"
	home, ids := measured(t, here, here, elsewhere)
	judging(t, "startup", func(run record.Run) []claim.Judgement {
		verdict := claim.Confirmed
		if run.ID != ids[1] {
			verdict = claim.Refuted
		}
		return []claim.Judgement{{
			Claim: "S1.3", Verdict: verdict, Ours: "61.0 % in the kernel", Rests: "8 profiles",
			Figures: []claim.Figure{{Name: "kernel", Value: 61, Low: 59.5, High: 62.5, Unit: "%", N: 8}},
		}}
	})
	code, stdout, stderr := tare(t, home, "claims")
	if code != exitSuccess {
		t.Fatalf("code %d: %s", code, stderr)
	}
	if line := listed(t, stdout, "S1.3"); !strings.Contains(line, "confirmed") {
		t.Errorf("S1.3: %s", line)
	}
	code, stdout, stderr = tare(t, home, "claims", "s1.3")
	if code != exitSuccess {
		t.Fatalf("code %d: %s", code, stderr)
	}
	c, err := claim.Lookup("S1.3")
	if err != nil {
		t.Fatal(err)
	}
	text := unwrapped(stdout)
	for _, word := range []string{"confirmed", c.Says, c.HowJudged, "56.94 %", "61.0 % in the kernel", "8 profiles", "59.5 to 62.5", ids[1], "tare --home " + home + " startup"} {
		if !strings.Contains(text, word) {
			t.Errorf("S1.3 whole does not say %q:\n%s", word, stdout)
		}
	}
	if strings.Contains(stdout, "S1.4") {
		t.Error("another claim was reported")
	}
}

func TestClaimsAsJSON(t *testing.T) {
	home := t.TempDir()
	code, stdout, stderr := tare(t, home, "claims", "S3", "S1.2", "--json", "-")
	if code != exitSuccess {
		t.Fatalf("code %d: %s", code, stderr)
	}
	var d claim.Document
	if err := json.Unmarshal([]byte(stdout), &d); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range d.Claims {
		ids = append(ids, c.ID)
	}
	if want := []string{"S1.2", "S3.1", "S3.2"}; d.Schema != claim.SchemaID || !slices.Equal(ids, want) || d.Host.Hostname == "" {
		t.Errorf("schema %s, host %q, claims %q, want %q", d.Schema, d.Host.Hostname, ids, want)
	}

	path := filepath.Join(t.TempDir(), "claims.json")
	code, screen, stderr := tare(t, home, "claims", "S3", "--json", path)
	written, err := os.ReadFile(path)
	if code != exitSuccess || err != nil || !json.Valid(written) {
		t.Errorf("to a file: code %d, %v, %s", code, err, stderr)
	}
	listed(t, screen, "S3.1")
}

func TestAllPrintsEveryClaimWhole(t *testing.T) {
	code, stdout, stderr := tare(t, t.TempDir(), "claims", "--all")
	if code != exitSuccess {
		t.Fatalf("code %d: %s", code, stderr)
	}
	text := strings.Join(strings.Fields(stdout), " ")
	for _, c := range claim.All() {
		if !strings.Contains(text, c.Says) || !strings.Contains(text, c.Inconsistency) {
			t.Errorf("%s is not reported whole", c.ID)
		}
	}
}

// A run that a judge cannot speak of silences no other.
func TestClaimsNoteWhatCouldNotBeJudged(t *testing.T) {
	home, ids := measured(t, hostRecord(host.Read("/")))
	judging(t, "startup", func(record.Run) []claim.Judgement {
		return []claim.Judgement{{Claim: "S1.3", Verdict: "proved"}}
	})
	code, stdout, stderr := tare(t, home, "claims", "S1")
	if code != exitSuccess || !strings.Contains(stdout, "note: ") || !strings.Contains(stdout, ids[0]) {
		t.Errorf("code %d, %s\n%s", code, stderr, stdout)
	}
}

// The command that a claim names works as printed, where this tare has it.
func TestClaimsCommandsParse(t *testing.T) {
	parsed := 0
	for _, c := range claim.All() {
		root := (&app{}).root()
		if !runnable(root, c) {
			continue
		}
		cmd, rest, err := root.Find(c.Command[1:])
		if err != nil {
			t.Errorf("%s: %v", c.ID, err)
			continue
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%s: %q: %v", c.ID, c.Command, err)
			continue
		}
		if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
			t.Errorf("%s: %q: %v", c.ID, c.Command, err)
		}
		parsed++
	}
	if parsed == 0 {
		t.Skip("this tare has no study that claims are of")
	}
}

// Whoever enters a judge enters it for a study that this tare has and that
// claims are of.
func TestJudgesAreOfStudies(t *testing.T) {
	root := (&app{}).root()
	for study := range judges {
		of := claim.Of(study)
		if study == imported.Name {
			continue // it judges by what the others do
		}
		if len(of) == 0 {
			t.Errorf("no claim is of the study %s", study)
		}
		for _, c := range of {
			if !runnable(root, c) {
				t.Errorf("%s is judged by %s, which this tare cannot run", c.ID, study)
			}
		}
	}
}

func TestClaimsComplete(t *testing.T) {
	code, stdout, stderr := tare(t, t.TempDir(), "__complete", "claims", "")
	if code != exitSuccess {
		t.Fatalf("code %d: %s", code, stderr)
	}
	for _, name := range []string{"S1\t", "S1.1\t", "S2.9b\t"} {
		if !strings.Contains(stdout, name) {
			t.Errorf("completion does not offer %q:\n%s", name, stdout)
		}
	}
}

// A paper that is not there is as near to any claim as to another.
func TestClaimsOfAnUnknownPaper(t *testing.T) {
	for arg, want := range map[string]string{
		"S99": `no claim "S99", and no such paper: there are S1, S2, S3, S4, S5.`, "s6": `no claim "s6", and no such paper`, "S1.99": `no claim "S1.99": did you mean`,
	} {
		if code, _, stderr := tare(t, t.TempDir(), "claims", arg); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %q, want %q", arg, code, stderr, want)
		}
	}
}
