package qmp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

const greeting = `{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}}, "capabilities": ["oob"]}}`

// machine answers as QEMU does: each command by what the script has for it.
func machine(t *testing.T, script map[string]string) net.Conn {
	t.Helper()
	ours, its := net.Pipe()
	t.Cleanup(func() { _ = ours.Close(); _ = its.Close() })
	go func() {
		if _, err := io.WriteString(its, greeting+"\n"); err != nil {
			return
		}
		for lines := bufio.NewScanner(its); lines.Scan(); {
			var request struct {
				Execute string
				ID      int
			}
			if json.Unmarshal(lines.Bytes(), &request) != nil {
				return
			}
			answer, known := script[request.Execute]
			if !known {
				answer = `{"return": {}, "id": ID}`
			}
			id, _ := json.Marshal(request.ID)
			if _, err := io.WriteString(its, strings.ReplaceAll(answer, "ID", string(id))+"\n"); err != nil {
				return
			}
		}
	}()
	return ours
}

func open(t *testing.T, script map[string]string) *Client {
	t.Helper()
	c, err := Open(t.Context(), machine(t, script))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAnAnswerIsReadPastEvents(t *testing.T) {
	c := open(t, map[string]string{
		"query-status": `{"event": "RESUME", "timestamp": {}}` + "\n" + `{"return": {"status": "running"}, "id": ID}`,
	})
	var status struct{ Status string }
	if err := c.Execute(t.Context(), "query-status", nil, &status); err != nil || status.Status != "running" {
		t.Errorf("%+v, %v", status, err)
	}
}

func TestARefusalIsTyped(t *testing.T) {
	c := open(t, map[string]string{"device_add": `{"error": {"class": "GenericError", "desc": "no slot left"}, "id": ID}`})
	err := c.Execute(t.Context(), "device_add", map[string]string{"driver": "x"}, nil)
	var refused *Error
	if !errors.As(err, &refused) || refused.Desc != "no slot left" || !strings.Contains(err.Error(), "device_add") {
		t.Errorf("%v", err)
	}
	// And the next is answered.
	if err := c.Execute(t.Context(), "cont", nil, nil); err != nil {
		t.Error(err)
	}
}

func TestSilenceEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ours, its := net.Pipe()
	t.Cleanup(func() { _ = ours.Close(); _ = its.Close() })
	go func() {
		_, _ = io.WriteString(its, greeting+"\n")
		lines := bufio.NewScanner(its)
		lines.Scan()
		_, _ = io.WriteString(its, `{"return": {}, "id": 1}`+"\n")
		lines.Scan() // what is asked next is read, and not answered
		cancel()
	}()
	c, err := Open(t.Context(), ours)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Execute(ctx, "stop", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want one that wraps context.Canceled", err)
	} else if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
	if err := c.Execute(t.Context(), "cont", nil, nil); err == nil {
		t.Error("a connection whose answers are out of step goes on")
	}
}

func TestNoGreeting(t *testing.T) {
	ours, its := net.Pipe()
	go func() { _, _ = io.WriteString(its, `{"return": {}}`+"\n") }()
	if _, err := Open(t.Context(), ours); err == nil || !strings.Contains(err.Error(), "greet") {
		t.Errorf("%v", err)
	}
	ours, its = net.Pipe()
	_ = its.Close()
	if _, err := Open(t.Context(), ours); err == nil {
		t.Error("a connection that is closed is taken")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(greeting))
	f.Add([]byte(`{"return": {}, "id": 1}`))
	f.Add([]byte(`{"error": {"class": "GenericError", "desc": "x"}}`))
	f.Add([]byte(`{"return": {}, "event": "STOP"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := parse(line)
		if err == nil && m.Greeting == nil && m.Return == nil && m.Error == nil && m.Event == "" {
			t.Errorf("%q is taken for a message", line)
		}
	})
}
