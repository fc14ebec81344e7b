package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// respServer is a little Redis: PING, SET, GET, and errors for the rest. It
// gives its address, and afterwards what it was asked, in order.
func respServer(t *testing.T) (address string, asked func() []string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var all []string
	store := map[string]string{}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				for {
					command, err := ReadReply(r)
					if err != nil {
						return
					}
					words := make([]string, len(command.Elems))
					for i, e := range command.Elems {
						words[i] = string(e.Text)
					}
					mu.Lock()
					all = append(all, strings.Join(words, " "))
					answer := "-ERR unknown command\r\n"
					switch words[0] {
					case "PING":
						answer = "+PONG\r\n"
					case "SET":
						store[words[1]] = words[2]
						answer = "+OK\r\n"
					case "GET":
						v := store[words[1]]
						answer = "$" + strconv.Itoa(len(v)) + "\r\n" + v + "\r\n"
					}
					mu.Unlock()
					if _, err := conn.Write([]byte(answer)); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String(), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

func TestRESPGoesThroughItsCommands(t *testing.T) {
	address, asked := respServer(t)
	target := RESP{Address: address, Pipeline: 2, Commands: [][]string{{"SET", "k", "v"}, {"GET", "k"}, {"PING"}}}
	r, err := Run(t.Context(), target, Options{Connections: 1, Count: 3})
	if err != nil || r.Requests != 3 || r.Failed() != 0 {
		t.Fatalf("%d answered, errors %v, %v", r.Requests, r.Errors, err)
	}
	want := "SET k v,GET k,PING,SET k v,GET k,PING"
	if got := strings.Join(asked(), ","); got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
}

func TestRESPCountsErrorReplies(t *testing.T) {
	address, _ := respServer(t)
	target := RESP{Address: address, Pipeline: 3, Commands: [][]string{{"PING"}, {"FLY"}, {"PING"}}}
	r, err := Run(t.Context(), target, Options{Connections: 2, Count: 10})
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 0 || r.Errors["reply ERR"] != 10 || r.Corrected.TotalCount() != 0 {
		t.Errorf("%d answered, errors %v, %d latencies", r.Requests, r.Errors, r.Corrected.TotalCount())
	}
}

// Commands that are drawn while the load runs are each checked as drawn; a reply
// that is an error is reported as such, checked or not.
func TestRESPDrawsCommands(t *testing.T) {
	address, _ := respServer(t)
	n := 0
	target := RESP{Address: address, Pipeline: 2, Next: func() ([]string, func(Reply) error) {
		n++
		want := strconv.Itoa(n - 1)
		switch n % 4 {
		case 1:
			return []string{"SET", "k", strconv.Itoa(n)}, nil
		case 2:
			return []string{"GET", "k"}, func(r Reply) error {
				if string(r.Text) != want {
					return fmt.Errorf("%q, want %q", r.Text, want)
				}
				return nil
			}
		case 3:
			return []string{"FLY"}, func(Reply) error { return errors.New("an error reply was checked") }
		default:
			return []string{"GET", "k"}, func(Reply) error { return errors.New("wrong") }
		}
	}}
	r, err := Run(t.Context(), target, Options{Connections: 1, Count: 5})
	if err != nil || r.Requests != 3 || r.Errors["reply ERR"] != 2 || r.Failed() != 2 {
		t.Errorf("%d answered, errors %v, %v", r.Requests, r.Errors, err)
	}
	target.Pipeline, n = 1, 3
	if r, _ := Run(t.Context(), target, Options{Connections: 1, Count: 4}); r.Errors["reply"] != 1 {
		t.Errorf("errors %v, want the one reply that was checked as wrong", r.Errors)
	}
}

func TestRESPOpenRefuses(t *testing.T) {
	for _, commands := range [][][]string{nil, {{}}} {
		if _, err := (RESP{Address: "127.0.0.1:1", Commands: commands}).Open(t.Context()); err == nil {
			t.Errorf("commands %v accepted", commands)
		}
	}
}

// More commands at once than the sockets' buffers hold must not lock up.
func TestRESPClientManyAtOnce(t *testing.T) {
	address, _ := respServer(t)
	client, err := DialRESP(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	value := strings.Repeat("v", 4096)
	commands := [][]string{{"SET", "k", value}}
	for range 5000 {
		commands = append(commands, []string{"GET", "k"})
	}
	replies, err := client.Do(t.Context(), commands...)
	if err != nil || len(replies) != len(commands) {
		t.Fatalf("%d replies, %v", len(replies), err)
	}
	if string(replies[0].Text) != "OK" || string(replies[5000].Text) != value {
		t.Errorf("replies %q ... %.10q", replies[0].Text, replies[5000].Text)
	}
}

func TestRESPClientCancelled(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.Read(make([]byte, 1)) // asked, and never answered
		cancel()
		<-t.Context().Done()
	}()
	client, err := DialRESP(t.Context(), listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Do(ctx, []string{"PING"}); err != context.Canceled {
		t.Errorf("error %v, want context.Canceled", err)
	}
}
