package k8s

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/platform"
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

// A log that the kubelet renames goes on in another one, and is whole when its writer closes it.
func TestFollow(t *testing.T) {
	logs := t.TempDir()
	name := filepath.Join(logs, "default_p_u1", containerName, "0.log")
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	create := func() *os.File {
		t.Helper()
		log, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		return log
	}
	write := func(log *os.File, line string) {
		t.Helper()
		if _, err := log.WriteString(moment + "stdout F " + line + "\n"); err != nil {
			t.Fatal(err)
		}
	}
	var out text
	l := &launch{
		node: &node{kubeletConfig: kubeletConfig{PodLogs: logs}}, uid: "u1", pod: newPod("u1"),
		spec: platform.Spec{Name: "p", Stdout: &out},
	}
	first := create()
	if err := l.follow(); err != nil {
		t.Fatal(err)
	}
	defer l.output.Close()
	write(first, "1")
	if err := os.Rename(name, name+".20261128-002800"); err != nil {
		t.Fatal(err)
	}
	second := create()
	write(second, "3")
	write(first, "2")
	_ = first.Close()
	await(t, "the new log's line", func() bool { return out.String() == "1\n2\n3\n" })
	close(l.pod.deleted)
	write(second, "4")
	select {
	case <-l.output.Done():
		t.Error("a log that is open was taken for whole")
	case <-time.After(20 * time.Millisecond):
	}
	write(second, "5")
	_ = second.Close()
	<-l.output.Done()
	if got := out.String(); got != "1\n2\n3\n4\n5\n" {
		t.Errorf("output %q", got)
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
