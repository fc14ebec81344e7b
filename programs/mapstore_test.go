package programs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/programs"
)

func TestMapstoreFlagsAreTheMakefiles(t *testing.T) {
	makefile, err := os.ReadFile("mapstore/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"CFLAGS  ?= " + strings.Join(programs.MapstoreFlags, " ") + "\n",
		strings.Join(programs.MapstoreSources, " ") + " $(LDFLAGS) " + strings.Join(programs.MapstoreLibraries, " ") + "\n",
	} {
		if !strings.Contains(string(makefile), want) {
			t.Errorf("the Makefile does not have %q", want)
		}
	}
}

// buildMapstore builds it where the host has LMDB's header and static library.
func buildMapstore(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"make", "cc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs " + tool)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("mapstore")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("make", "-s")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil && regexp.MustCompile(`lmdb\.h: No such file|cannot find -l`).Match(out) {
		t.Skipf("needs LMDB to link statically (apt-get install liblmdb-dev): %s", out)
	}
	if err != nil {
		t.Fatalf("make: %v\n%s", err, out)
	}
	return filepath.Join(dir, "mapstore")
}

// serveMapstore starts a server that is ended with the test; it gives its address
// and what it says of itself.
func serveMapstore(t *testing.T, program string, args ...string) (cmd *exec.Cmd, address string, said map[string]any) {
	t.Helper()
	port := freePort(t)
	cmd, lines := begin(t, program, append([]string{"serve", "--address", "127.0.0.1", "--port", port}, args...)...)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(line, &said); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return cmd, "127.0.0.1:" + port, said
}

// exchange sends bytes and reads so many back, or to the connection's end.
func exchange(t *testing.T, address, send string, want int) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	// Beside the reading: answers to many commands fill the sockets' buffers.
	go func() { _, _ = io.WriteString(conn, send) }()
	var got bytes.Buffer
	_, err = io.CopyN(&got, conn, int64(want))
	// A server that closes with bytes unread resets the connection.
	if err != nil && err != io.EOF && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("after %q: %v", got.String(), err)
	}
	return got.String()
}

func respCommand(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
	}
	return b.String()
}

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

func TestMapstoreServesWhatItMade(t *testing.T) {
	program := buildMapstore(t)
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	for _, file := range []string{one, two} {
		if out, err := exec.Command(program, "generate", "--data", "2", file).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	a, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(two); err != nil || !bytes.Equal(a, b) {
		t.Errorf("made twice, the stores differ (%v)", err)
	}
	cmd, address, said := serveMapstore(t, program, one)
	if said["records"] != float64(2<<20/100) || said["writable"] != false || said["generated_seconds"] != 0.0 {
		t.Errorf("it says %v", said)
	}
	if !mapped(t, cmd.Process.Pid, one) {
		t.Error("the store is not mapped")
	}
	// The fields themselves are held to another computation of them in package workload.
	first := exchange(t, address, respCommand("GET", "user00000000"), 108)
	if !strings.HasPrefix(first, "$100\r\nuser00000000 0 ") || !strings.HasSuffix(first, "\r\n") {
		t.Errorf("the first record is %q", first)
	}
	for send, want := range map[string]string{
		respCommand("PING"):                          "+PONG\r\n",
		respCommand("ping"):                          "+PONG\r\n",
		respCommand("GET", "user00020971"):           "$-1\r\n", // one after the last
		respCommand("SET", "user00000000", "x"):      "-READONLY the store",
		respCommand("FLY"):                           "-ERR want PING",
		respCommand("GET", ""):                       "-ERR want PING",
		respCommand("GET", strings.Repeat("k", 600)): "$-1\r\n",
		respCommand("PING") + respCommand("PING"):    "+PONG\r\n+PONG\r\n",
		"PING\r\n":                     "", // and the connection is closed
		"*1\r\n$9999999\r\n":           "",
		"*9\r\n":                       "",
		"*1\r\n$4\r\nPINGxx":           "",
		"*" + strings.Repeat("0", 100): "",
		"*1\r\n$8191\r\n" + strings.Repeat("x", 10_000): "",
	} {
		if got := exchange(t, address, send, max(len(want), 1)); got != want {
			t.Errorf("%.40q is answered by %.40q, want %.40q", send, got, want)
		}
	}
	// Cut anywhere, a command is the same one.
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, b := range []byte(respCommand("PING")) {
		if _, err := conn.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	answer := make([]byte, 7)
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "+PONG\r\n" {
		t.Errorf("byte by byte: %q, %v", answer, err)
	}
	if b, err := os.ReadFile(one); err != nil || !bytes.Equal(a, b) {
		t.Errorf("serving changed the store (%v)", err)
	}
	if names, _ := filepath.Glob(one + "*"); len(names) != 1 {
		t.Errorf("serving left %q", names)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("told to terminate, it ended with %v", err)
	}
}

func TestMapstoreIsWritten(t *testing.T) {
	program := buildMapstore(t)
	dir := t.TempDir()
	given, scratch := filepath.Join(dir, "given"), filepath.Join(dir, "scratch")
	if out, err := exec.Command(program, "generate", "--data", "1", given).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	before, err := os.ReadFile(given)
	if err != nil {
		t.Fatal(err)
	}
	cmd, address, said := serveMapstore(t, program, "--writable", "--data", "2", "--scratch", scratch, given)
	if said["records"] != float64(2<<20/100) || said["writable"] != true || !(said["generated_seconds"].(float64) > 0) {
		t.Errorf("it says %v", said)
	}
	if !mapped(t, cmd.Process.Pid, scratch) || mapped(t, cmd.Process.Pid, given) {
		t.Error("not the scratch file is mapped")
	}
	// As many answers, of as long values, as fill all buffers on the way.
	long := strings.Repeat("v", 8000)
	const times = 2000
	send := respCommand("SET", "user00000007", long)
	want := "+OK\r\n"
	for range times {
		send += respCommand("GET", "user00000007")
		want += bulk(long)
	}
	send += respCommand("PING")
	want += "+PONG\r\n"
	if got := exchange(t, address, send, len(want)); got != want {
		t.Errorf("%d bytes of answers, want %d", len(got), len(want))
	}
	// Updates of one record over and over do not fill the store.
	send, want = "", ""
	for i := range 5000 {
		value := fmt.Sprintf("%0100d", i)
		send += respCommand("SET", "user00000001", value) + respCommand("GET", "user00000001")
		want += "+OK\r\n" + bulk(value)
	}
	if got := exchange(t, address, send, len(want)); got != want {
		t.Errorf("%d bytes of answers, want %d", len(got), len(want))
	}
	if after, err := os.ReadFile(given); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the given store was changed (%v)", err)
	}
}

func TestMapstoreRefuses(t *testing.T) {
	program := buildMapstore(t)
	store := filepath.Join(t.TempDir(), "store")
	if out, err := exec.Command(program, "generate", "--data", "1", store).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no store"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "usage"},
		{[]string{"fly"}, 2, "usage"},
		{[]string{"generate", store}, 2, "usage"},
		{[]string{"generate", "--data", "4097", store}, 2, "usage"},
		{[]string{"serve", "--port", "0", store}, 2, "usage"},
		{[]string{"serve", "--address", "localhost", store}, 2, "usage"},
		{[]string{"serve", store + "-not"}, 1, "No such file"},
		{[]string{"serve", text}, 1, text},
		{[]string{"serve", "--data", "2", store}, 1, "scratch"},
		{[]string{"serve", "--writable", store}, 1, "scratch"},
		{[]string{"generate", "--data", "1", "/proc/no/store"}, 1, "No such file"},
	} {
		// One that goes on serving is a failure, and not to be waited for.
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		cmd := exec.CommandContext(ctx, program, c.args...)
		out, err := cmd.CombinedOutput()
		cancel()
		if err == nil || cmd.ProcessState.ExitCode() != c.code || !strings.Contains(string(out), c.want) {
			t.Errorf("%q: %v: %s, want status %d and %q", c.args, err, out, c.code, c.want)
		}
	}
}
