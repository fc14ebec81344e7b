package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"tare/kernel/process"
)

// Busy is a socket at which something listens already.
type Busy struct{ Socket string }

func (b *Busy) Error() string {
	return fmt.Sprintf("something listens at %s already: another annexd? end it, or give this one a socket of its own (control.socket)", b.Socket)
}

// Listen makes the socket. Its directory is made where it is missing, for root alone; a
// socket that a daemon left which is no more is removed. The error is a *Busy where
// something listens there.
func Listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the socket: %w", err)
	}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s is there and is no socket: move it away, or name another (control.socket)", path)
	default:
		conn, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			conn.Close()
			return nil, &Busy{path}
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove the socket that was left: %w", err)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	// Until then whoever the umask lets may connect, and is refused as a stranger.
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Serve answers at a listener of Listen's until ctx ends, which is no error. Requests that
// are under way then have a moment to end; who only looks on is sent away.
func Serve(ctx context.Context, l net.Listener, d Daemon) error {
	s := server{d, ctx}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", s.status)
	mux.HandleFunc("GET /top", s.top)
	mux.HandleFunc("GET /explain", s.explain)
	mux.HandleFunc("POST /drain", s.drain)
	mux.HandleFunc("POST /off", s.off)
	mux.HandleFunc("POST /reload", s.reload)
	return serve(ctx, trusted{l}, web(mux))
}

// web is a server of what any may ask.
func web(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		// No ReadTimeout, and no WriteTimeout: they would end streams, whose requests are never
		// read to their end.
		IdleTimeout:    time.Minute,
		MaxHeaderBytes: 16 << 10,
	}
}

func serve(ctx context.Context, l net.Listener, web *http.Server) error {
	var ending sync.WaitGroup
	ending.Add(1)
	served := make(chan struct{})
	go func() {
		defer ending.Done()
		select {
		case <-ctx.Done():
		case <-served:
		}
		soon, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if web.Shutdown(soon) != nil {
			web.Close()
		}
	}()
	err := web.Serve(l)
	close(served)
	ending.Wait()
	if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
		return nil
	}
	return err
}

// trusted is a listener at which only root's connections arrive.
type trusted struct{ net.Listener }

func (t trusted) Accept() (net.Conn, error) {
	for {
		conn, err := t.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if isRoot(conn) {
			return conn, nil
		}
		conn.Close()
	}
}

// isRoot tells whether the other end of a connection is root's.
func isRoot(conn net.Conn) bool {
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return false
	}
	uid, err := process.PeerUser(unix)
	return err == nil && uid == 0
}

type server struct {
	daemon Daemon
	ctx    context.Context // of the server: streams end with it
}

func (s server) status(w http.ResponseWriter, _ *http.Request) {
	answer(w, s.daemon.Status())
}

// The times between two statuses of a stream.
const (
	usualInterval = time.Second
	leastInterval = 50 * time.Millisecond
	mostInterval  = time.Hour
)

func (s server) top(w http.ResponseWriter, r *http.Request) {
	every := usualInterval
	if text := r.URL.Query().Get("interval"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < leastInterval || d > mostInterval {
			refuse(w, badRequest(fmt.Sprintf("an interval of %q: want %v to %v", text, leastInterval, mostInterval)))
			return
		}
		every = d
	}
	w.Header().Set("Content-Type", "application/jsonl")
	flush := http.NewResponseController(w)
	lines := json.NewEncoder(w)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		// One who does not read is not waited for.
		_ = flush.SetWriteDeadline(time.Now().Add(every + 10*time.Second))
		if lines.Encode(s.daemon.Status()) != nil || flush.Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-s.ctx.Done():
			return
		}
	}
}

func (s server) explain(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("container")
	if name == "" {
		refuse(w, badRequest("no container is named: want /explain?container=NAME"))
		return
	}
	e, err := s.daemon.Explain(name)
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, e)
}

func (s server) drain(w http.ResponseWriter, r *http.Request) {
	var rate int64
	if text := r.URL.Query().Get("rate"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			refuse(w, badRequest(fmt.Sprintf("a rate of %q: want bytes a second", text)))
			return
		}
		rate = n
	}
	done(w, s.daemon.Drain(r.Context(), rate))
}

func (s server) off(w http.ResponseWriter, r *http.Request) { done(w, s.daemon.Off(r.Context())) }

// Reloaded is the answer to a reload: the keys whose change takes a restart.
type Reloaded struct {
	Restart []string `json:"restart"`
}

func (s server) reload(w http.ResponseWriter, r *http.Request) {
	restart, err := s.daemon.Reload(r.Context())
	if err != nil {
		refuse(w, err)
		return
	}
	if restart == nil {
		restart = []string{}
	}
	answer(w, Reloaded{restart})
}

func answer(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		refuse(w, fmt.Errorf("write the answer: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// Whoever has left misses nothing.
	_, _ = w.Write(append(text, '\n'))
}

func done(w http.ResponseWriter, err error) {
	if err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
