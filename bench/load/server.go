package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"tare/kernel/clock"
	"tare/kernel/process"
	"tare/kernel/socket"
	"tare/terminal"
)

// serveCommand is the argument by which this program is the server.
const serveCommand = "serve"

// An answer's body is the server's own span of the request, in nanoseconds, from
// when its last byte was read until just before the answer is written.
const (
	answerHead = "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n"
	bodyDigits = 12
)

// behaviour is how a server answers.
type behaviour struct {
	delay    time.Duration // of each request, spent spinning: a sleep would end when it likes
	poll     bool          // for requests, so that waking up is no part of the path
	every    int           // of so many requests of a connection one stalls, the last; 0 is none
	stall    time.Duration // for so long, asleep
	realtime bool
}

func (b behaviour) arguments() []string {
	return []string{"-delay", b.delay.String(), "-poll=" + strconv.FormatBool(b.poll), "-every", strconv.Itoa(b.every),
		"-stall", b.stall.String(), "-realtime=" + strconv.FormatBool(b.realtime)}
}

// server is a server in a process of its own.
type server struct {
	address string
	command *exec.Cmd
	life    io.Closer // its standard input: it ends with that
}

func startServer(cpu int, b behaviour) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &server{
		command: exec.Command(self, append([]string{serveCommand, "-cpu", strconv.Itoa(cpu)}, b.arguments()...)...),
	}
	s.command.Stderr = os.Stderr
	if s.life, err = s.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.command.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the server told no address: %w", err), s.stop())
	}
	s.address = strings.TrimSpace(line)
	return s, nil
}

func (s *server) stop() error {
	s.life.Close()
	return s.command.Wait()
}

// serve is the server's process.
func serve(args []string) error {
	var b behaviour
	flags := flag.NewFlagSet(serveCommand, flag.ContinueOnError)
	cpu := flags.Int("cpu", 0, "")
	flags.DurationVar(&b.delay, "delay", 0, "")
	flags.BoolVar(&b.poll, "poll", false, "")
	flags.IntVar(&b.every, "every", 0, "")
	flags.DurationVar(&b.stall, "stall", 0, "")
	flags.BoolVar(&b.realtime, "realtime", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if _, err := process.Confine([]int{*cpu}); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if err := b.answer(conn); err != nil {
					terminal.Fprintln(os.Stderr, "load: server:", err)
				}
			}()
		}
	}()
	_, err = io.Copy(io.Discard, os.Stdin) // until the measuring side has ended
	return err
}

// answer answers the requests of one connection, which have no bodies.
func (b behaviour) answer(conn net.Conn) error {
	if b.realtime {
		runtime.LockOSThread()
		restore, err := process.Punctual()
		if err != nil {
			return err
		}
		defer restore()
	}
	if b.poll {
		var err error
		if conn, err = socket.Poll(conn, socket.LongestPoll); err != nil {
			return err
		}
	}
	request := make([]byte, 0, 4096)
	answer := make([]byte, 0, len(answerHead)+bodyDigits)
	for n := 1; ; n++ {
		request = request[:0]
		for !strings.HasSuffix(string(request), "\r\n\r\n") {
			if len(request) == cap(request) {
				return errors.New("a request without an end")
			}
			read, err := conn.Read(request[len(request):cap(request)])
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			request = request[:len(request)+read]
		}
		began := clock.Monotonic()
		if b.every > 0 && n%b.every == 0 {
			time.Sleep(b.stall)
		} else {
			for b.delay > 0 && clock.Monotonic()-began < b.delay {
			}
		}
		span := clock.Monotonic() - began
		answer = fmt.Appendf(append(answer[:0], answerHead...), "%0*d", bodyDigits, int64(span))
		if _, err := conn.Write(answer); err != nil {
			return err
		}
	}
}

// spanOf reads the server's span from the body of an answer.
func spanOf(body []byte) (time.Duration, error) {
	ns, err := strconv.ParseInt(string(body), 10, 64)
	if err != nil || len(body) != bodyDigits {
		return 0, fmt.Errorf("%.40q is no span", body)
	}
	return time.Duration(ns), nil
}
