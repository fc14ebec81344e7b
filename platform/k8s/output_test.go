package k8s

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"
)

func reader(from io.Reader) (r *logReader, stdout, stderr *bytes.Buffer) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	return &logReader{from: bufio.NewReader(from), to: map[string]io.Writer{"stdout": stdout, "stderr": stderr}}, stdout, stderr
}

const moment = "2026-11-27T00:17:09.669794202Z "

func TestLogReader(t *testing.T) {
	// The file grows between copies, also in the middle of a line.
	var file bytes.Buffer
	r, stdout, stderr := reader(&file)
	for _, part := range []string{
		moment + "stdout F one  two\n" + moment + "stde", "rr F oops\n", moment + "stdout P a long ", "\n" + moment + "stdout F line\n" + moment + "stdout F \n",
	} {
		file.WriteString(part)
		if err := r.copy(); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := stdout.String(), "one  two\na long line\n\n"; got != want || stderr.String() != "oops\n" {
		t.Errorf("%q, want %q; %q", got, want, stderr)
	}
	r, _, _ = reader(strings.NewReader("no such format\n"))
	if err := r.copy(); err == nil {
		t.Error("a line of another format was taken")
	}
}

func FuzzLogReader(f *testing.F) {
	f.Add(moment + "stdout F one\n" + moment + "stderr P two\n")
	f.Add("stdout\n\n  \n")
	f.Fuzz(func(t *testing.T, log string) {
		r, stdout, stderr := reader(strings.NewReader(log))
		_ = r.copy()
		if stdout.Len()+stderr.Len() > len(log) {
			t.Errorf("%q has grown", log)
		}
	})
}
