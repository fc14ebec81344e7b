package cli

import (
	"slices"
	"testing"
)

// What is said of the state directory belongs to whoever runs tare now.
func TestStoredCommandLinesLeaveTheStateDirectoryOut(t *testing.T) {
	for _, stored := range [][]string{
		{"tare", "--home", "/x", "pages", "--workload", "httpd"},
		{"tare", "--home=/x", "pages", "--workload", "httpd"},
		{"tare", "pages", "--workload", "httpd", "--home", "/x"},
	} {
		line, err := storedArguments(&app{}, stored, "pages")
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"--workload", "httpd"}; !slices.Equal(line, want) {
			t.Errorf("%q is %q, want %q", stored, line, want)
		}
		again, _ := pagesCommand()
		err = again.ParseFlags(line)
		if named := again.Flag("workload").Value.String(); err != nil || named != "[httpd]" {
			t.Errorf("%q: %v, %v", stored, named, err)
		}
	}
	if line := withoutHome([]string{"--quick", "--", "/bin/sh", "--home", "/root"}); len(line) != 5 {
		t.Errorf("a program's own arguments are taken away: %q", line)
	}
}

func TestProposedCommandsKeepTheStateDirectory(t *testing.T) {
	for home, want := range map[string]string{"": "tare show x", "/srv/t": "tare --home /srv/t show x", "/a b": "tare --home '/a b' show x"} {
		if got := (&app{home: home}).again("tare show x"); got[0] != want {
			t.Errorf("%q, want %q", got[0], want)
		}
	}
}
