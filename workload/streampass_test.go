package workload

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const aPass = `{"elements":1000,"threads":2,"stores":"plain","kernels":[{"kernel":"copy","bytes":16000,"seconds":0.001},` +
	`{"kernel":"scale","bytes":16000,"seconds":0.002},{"kernel":"add","bytes":24000,"seconds":0.003},{"kernel":"triad","bytes":24000,"seconds":0.004}],"valid":true}`

func TestParseStreamPass(t *testing.T) {
	p, err := parseStreamPass([]byte(aPass))
	if err != nil || p.Elements != 1000 || p.Threads != 2 || p.Stores != "plain" || p.Kernels[3] != (streamTime{"triad", 24000, 0.004}) {
		t.Errorf("%+v, %v", p, err)
	}
	for _, c := range []struct{ from, to, want string }{
		{aPass, "", "a pass of stream"},
		{aPass, "[]", "a pass of stream"},
		{`"valid":true`, `"valid":false`, "wrong results"},
		{`,"valid":true`, ``, "wrong results"},
		{`"scale"`, `"copy"`, `kernel "copy", want scale`},
		{`{"kernel":"copy","bytes":16000,"seconds":0.001},`, ``, "3 kernels"},
		{`0.001`, `0`, "cannot be"},
		{`24000`, `-1`, "cannot be"},
	} {
		if p, err := parseStreamPass([]byte(strings.Replace(aPass, c.from, c.to, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q in place of %q: %+v, %v, want %q", c.to, c.from, p, err, c.want)
		}
	}
}

func FuzzParseStreamPass(f *testing.F) {
	f.Add([]byte(aPass))
	f.Fuzz(func(t *testing.T, line []byte) {
		p, err := parseStreamPass(line)
		if err != nil {
			return
		}
		for _, k := range p.Kernels {
			if !(k.Seconds > 0) || k.Bytes <= 0 {
				t.Errorf("%+v was taken for a time", k)
			}
		}
	})
}

// servedPasses answers each byte on each connection as answer says, by the connection's
// number from 1; without a line it closes.
func servedPasses(t *testing.T, answer func(connection int) string) *trial {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for n := 1; ; n++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			for r := bufio.NewReader(conn); ; {
				if _, err := r.ReadByte(); err != nil {
					break
				}
				text := answer(n)
				if text == "" {
					break
				}
				if _, err := io.WriteString(conn, text); err != nil {
					break
				}
			}
			conn.Close()
		}
	}()
	return &trial{params: resolve(t, stream{}), address: listener.Addr().String()}
}

func TestStreamClient(t *testing.T) {
	// At first a proxy has taken the connection, and the program has not.
	c, err := streamPlan{}.connect(t.Context(), servedPasses(t, func(connection int) string {
		if connection == 1 {
			return ""
		}
		return aPass + "\n"
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for _, n := range []int{1, 3, mostPasses} {
		if passes, err := c.pass(t.Context(), n); err != nil || len(passes) != n || passes[n-1].Threads != 2 {
			t.Errorf("%d passes: %d, %v", n, len(passes), err)
		}
	}
	for _, n := range []int{0, mostPasses + 1} {
		if _, err := c.pass(t.Context(), n); err == nil || !strings.Contains(err.Error(), "1 to 1000") {
			t.Errorf("%d passes: %v", n, err)
		}
	}
}

func TestStreamClientFails(t *testing.T) {
	for want, line := range map[string]string{
		"wrong results":             strings.Replace(aPass, "true", "false", 1) + "\n",
		bufio.ErrBufferFull.Error(): strings.Repeat("x", 2*mostPassLine),
	} {
		first := true
		c, err := streamPlan{}.connect(t.Context(), servedPasses(t, func(int) string {
			if first {
				first = false
				return aPass + "\n"
			}
			return line
		}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.pass(t.Context(), 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		c.close()
	}
}

// Whoever asks can give up.
func TestStreamClientIsInterrupted(t *testing.T) {
	asked, answered := make(chan struct{}), 0
	c, err := streamPlan{}.connect(t.Context(), servedPasses(t, func(int) string {
		if answered++; answered == 1 {
			return aPass + "\n"
		}
		close(asked)
		return "{" // and no more
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	go func() {
		<-asked
		cancel(enough)
	}()
	if _, err := c.pass(ctx, 1); !errors.Is(err, enough) {
		t.Errorf("%v, want that it was given up", err)
	}
}

func TestStreamServes(t *testing.T) {
	w := stream{}
	program, placed, err := At(w, resolve(t, w, "elements", "1000", "threads", "2"), Place{Port: 7000, Listen: "127.0.0.1"})
	if err != nil || !program.Service || slices.Contains(program.Args, "--repetitions") {
		t.Errorf("%+v, %v", program, err)
	}
	// Nothing measures it as a whole.
	if err := w.Drive(t.Context(), &trial{params: placed}); err == nil || !strings.Contains(err.Error(), "passes on demand") {
		t.Errorf("it was driven: %v", err)
	}
	// An address alone is none: there is nothing that listens.
	if program, _, err := At(w, resolve(t, w), Place{Listen: "127.0.0.1"}); err != nil || program.Service || len(program.Ports) > 0 {
		t.Errorf("%+v, %v", program, err)
	}
}

func TestRealStreamServes(t *testing.T) {
	img := realImage(t, "stream")
	w := stream{}
	port, err := strconv.Atoi(freePort(t))
	if err != nil {
		t.Fatal(err)
	}
	_, p, err := At(w, resolve(t, w, "elements", "100000", "threads", "2"), Place{Port: port, Listen: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	tr := launch(t, w, p, img, func([]string) {}, 0)
	tr.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	// It takes one client after the other, and has its arrays set anew before their
	// numbers overflow.
	for range 2 {
		c, err := streamPlan{}.connect(t.Context(), tr)
		if err != nil {
			t.Fatal(err)
		}
		passes, err := c.pass(t.Context(), 400)
		if err != nil || len(passes) != 400 || passes[0].Elements != 100_000 || passes[0].Threads != 2 || passes[0].Kernels[2].Bytes != 2_400_000 {
			t.Errorf("%d passes, %v", len(passes), err)
		}
		if err := c.close(); err != nil {
			t.Error(err)
		}
	}
	select {
	case <-tr.ended:
		t.Errorf("it ended with %d", tr.exit.Code)
	default:
	}
}
