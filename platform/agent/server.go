package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"

	"tare/image"
	"tare/kernel/host"
	"tare/platform"
	"tare/probe/causes"
)

// Server is what an agent has to give. Its Serve may run for several streams at a
// time; its fields are set before the first.
type Server struct {
	// Version is tare's own; a client of another is refused.
	Version string
	// Platforms gives a platform by its name, over the agent's own ledger. It need not
	// be safe for several callers at a time.
	Platforms func(name string) (platform.Platform, error)
	// ImageDir is where images that cross are kept, as an image store.
	ImageDir string
	// Mount mounts the image that lies on a block device of the agent's host and gives
	// its root; nil where images come by the stream alone.
	Mount func(ctx context.Context, device, digest string) (root string, err error)
	// Boxes makes a bound around several programs of the agent's host; nil makes none. It
	// may be called several times at once.
	Boxes func(ctx context.Context, spec platform.BoxSpec) (platform.Box, error)
	// Phases are what it took until the agent was there.
	Phases []Phase
	// PowerOff ends the agent's machine; nil where that is refused.
	PowerOff func()
	// Watch watches a program for the causes of its overhead; nil is package causes'
	// own way.
	Watch func(t causes.Target, o causes.Options) (platform.Watch, error)

	platforms sync.Mutex // one call of Platforms at a time
	images    cabinet
}

// Bounds of what a client may keep the server waiting for.
const (
	headerBound = 10 * time.Second // a request's head, once begun
	endBound    = time.Minute      // ending all that a client has left
)

// streamWindow is how much of one stream may be on its way.
const streamWindow = 1 << 20

// multiplex is how yamux is used at both ends. The client asks whether the agent is alive, by
// [Client.watchPeer]: yamux's own asking knows no peer that sleeps on purpose. Opening a stream
// is not waited for either, for the same reason. The agent does not ask: its machine ends with
// the client's process.
func multiplex() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false
	c.StreamOpenTimeout = 0
	c.ConnectionWriteTimeout = aliveBound
	c.MaxStreamWindowSize = streamWindow
	c.LogOutput = io.Discard // what goes wrong is reported to who waits for it
	return c
}

// Serve serves one client until the stream ends or ctx does, closes the stream, and
// then stops every instance that the client has left. Its error is nil where the
// client has left.
func (s *Server) Serve(ctx context.Context, conn io.ReadWriteCloser) error {
	session, err := yamux.Server(conn, multiplex())
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	v := &visit{server: s, instances: map[string]*resident{}, prepared: map[string]platform.Platform{}}
	web := &http.Server{
		Handler:           v.handler(),
		ReadHeaderTimeout: headerBound,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = session.Close() })
	served := web.Serve(streams{session})
	stop()
	// Their connections are closed, which ends whatever calls go on.
	_ = web.Close()
	_ = session.Close()
	v.calls.Wait()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endBound)
	defer cancel()
	return errors.Join(ctx.Err(), departure(served), v.end(ending))
}

// streams are a session's, as a listener whose end is its end: package http would try
// again after an error that calls itself temporary, as a deadline's does.
type streams struct{ *yamux.Session }

func (s streams) Accept() (net.Conn, error) {
	stream, err := s.Session.Accept()
	if err != nil {
		return nil, fmt.Errorf("accepting a stream: %w", err)
	}
	return stream, nil
}

// departure is what a stream's end says: that a client goes away, in whatever manner,
// is no error; that it speaks something else is.
func departure(err error) error {
	for _, ordinary := range []error{
		io.EOF, io.ErrClosedPipe, net.ErrClosed, http.ErrServerClosed, yamux.ErrSessionShutdown,
		syscall.ECONNRESET, syscall.EPIPE, syscall.EIO,
	} {
		if errors.Is(err, ordinary) {
			return nil
		}
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("the stream does not carry a client of tare's agent: %w", err)
}

// platform gives a platform by its name.
func (s *Server) platform(name string) (platform.Platform, error) {
	s.platforms.Lock()
	defer s.platforms.Unlock()
	return s.Platforms(name)
}

func (s *Server) hello() Hello {
	facts := host.Read("/")
	return Hello{
		Protocol: Protocol, Version: s.Version, Kernel: facts.Kernel, Architecture: facts.Arch, CPUs: facts.CPUs,
		Memory: facts.Memory, Cgroup: cgroupWord(facts.Cgroup), Phases: s.Phases,
	}
}

// cgroupWord is the first word of "hybrid (controllers on v1)".
func cgroupWord(mode string) string {
	for i, r := range mode {
		if r == ' ' {
			return mode[:i]
		}
	}
	return mode
}

// cabinet is where the server finds images, by their digest.
type cabinet struct {
	mu       sync.Mutex
	store    *image.Store
	attached map[string]string // the root of an image on a device
}

func (s *Server) store() (*image.Store, error) {
	s.images.mu.Lock()
	defer s.images.mu.Unlock()
	if s.images.store == nil {
		if s.ImageDir == "" {
			return nil, &image.Missing{What: "the agent keeps no images", Mend: "start it with a directory for them"}
		}
		store, err := image.OpenStore(s.ImageDir, nil)
		if err != nil {
			return nil, err
		}
		s.images.store = store
	}
	return s.images.store, nil
}

func (s *Server) attachedRoot(digest string) (string, bool) {
	s.images.mu.Lock()
	defer s.images.mu.Unlock()
	root, ok := s.images.attached[digest]
	return root, ok
}

// locate fills in where an image's parts lie on the agent's host.
func (s *Server) locate(ctx context.Context, img image.Image) (image.Image, error) {
	if root, ok := s.attachedRoot(img.Digest); ok {
		img.Root = root
		return img, nil
	}
	store, err := s.store()
	if err != nil {
		return image.Image{}, err
	}
	found, err := store.Lookup(img)
	if err == nil {
		img.Root, img.Archive, img.Reference = found.Root, found.Archive, found.Reference
		return img, nil
	}
	// The same root under another name or configuration.
	if has, herr := store.HasRoot(img.Digest); herr != nil || !has {
		return image.Image{}, errors.Join(err, herr)
	}
	return store.Receive(ctx, img, nil)
}

func (s *Server) has(digest string) (bool, error) {
	if _, ok := s.attachedRoot(digest); ok {
		return true, nil
	}
	store, err := s.store()
	if err != nil {
		return false, err
	}
	return store.HasRoot(digest)
}

func (s *Server) attach(ctx context.Context, digest, device string) error {
	if s.Mount == nil {
		return &platform.Missing{What: "this agent mounts no devices", Mend: "let the image cross by the stream"}
	}
	if _, ok := s.attachedRoot(digest); ok {
		return nil
	}
	root, err := s.Mount(ctx, device, digest)
	if err != nil {
		return fmt.Errorf("mount %s, which holds image %s: %w", device, digest, err)
	}
	s.images.mu.Lock()
	defer s.images.mu.Unlock()
	if s.images.attached == nil {
		s.images.attached = map[string]string{}
	}
	s.images.attached[digest] = root
	return nil
}
