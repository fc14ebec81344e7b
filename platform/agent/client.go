package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"tare/image"
	"tare/platform"
)

// HandshakeBound is how long either end may take to shake hands, where the caller's context
// sets no other bound.
const HandshakeBound = 10 * time.Second

// Bounds of what one end may keep the other waiting for.
const (
	aliveInterval = 10 * time.Second // between askings whether it is alive
	aliveBound    = 30 * time.Second // its answer to that: a guest whose CPUs are taken is slow
	undoBound     = time.Minute      // undoing what was given up
)

// Client is the calling end of a stream. Its methods may be called from several
// goroutines.
type Client struct {
	// Machine is what instances name as their machine ([platform.Apart]): "vm:tcg". It
	// is set before the first is launched.
	Machine string

	session *yamux.Session
	conn    io.Closer
	web     *http.Client
	version string
	hello   Hello

	asleep   atomic.Int64 // times that Sleep was called more than Wake
	slept    atomic.Int64 // times that Sleep was called
	serial   atomic.Int64 // of instances
	crossing sync.Mutex   // one image at a time
}

// Connect shakes hands with the agent at the other end of conn. The error is a
// *Mismatch where it is another tare. The client owns conn from then on, and has
// closed it where there is an error.
func Connect(ctx context.Context, conn io.ReadWriteCloser, version string) (*Client, error) {
	return connect(ctx, conn, version, aliveInterval, aliveBound)
}

// connect asks every interval whether the agent is alive, and waits for its answer for
// no longer than bound.
func connect(
	ctx context.Context,
	conn io.ReadWriteCloser,
	version string,
	interval, bound time.Duration,
) (*Client, error) {
	config := multiplex()
	config.ConnectionWriteTimeout = bound
	session, err := yamux.Client(conn, config)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	c := &Client{Machine: "agent", session: session, conn: conn, version: version}
	c.web = &http.Client{Transport: &http.Transport{
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return session.Open() },
		DisableCompression: true,
		// Streams are cheap to open, and an idle one keeps goroutines at both ends.
		MaxIdleConnsPerHost: 2,
		ReadBufferSize:      64 << 10,
		WriteBufferSize:     64 << 10,
	}}
	if err := c.shakeHands(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	go c.watchPeer(interval)
	return c, nil
}

func (c *Client) shakeHands(ctx context.Context) error {
	bounded := ctx
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, HandshakeBound)
		defer cancel()
	}
	hello, err := call[Hello](bounded, c, "hello", nothing{})
	switch {
	case err == nil:
	case ctx.Err() == nil && bounded.Err() != nil:
		return fmt.Errorf("no agent answers within %v: %w", HandshakeBound, err)
	case errors.Is(err, platform.ErrGone), ctx.Err() != nil:
		return fmt.Errorf("no agent answers: %w", err)
	default:
		return fmt.Errorf("the agent refuses: %w", err)
	}
	if hello.Protocol != Protocol || hello.Version != c.version {
		return &Mismatch{Own: c.version, Peer: hello.Version, OwnProtocol: Protocol, PeerProtocol: hello.Protocol}
	}
	c.hello = hello
	return nil
}

// watchPeer closes the session of a peer that is dead: no call that waits for it
// would end otherwise.
func (c *Client) watchPeer(interval time.Duration) {
	every := time.NewTicker(interval)
	defer every.Stop()
	if c.untilDead(c.session.CloseChan(), every.C, func() error { _, err := c.session.Ping(); return err }) {
		_ = c.Close()
	}
}

// untilDead asks at each beat, but not a peer that sleeps, until the session is over or
// the peer is dead.
func (c *Client) untilDead(over <-chan struct{}, beats <-chan time.Time, ask func() error) (dead bool) {
	for {
		select {
		case <-over:
			return false
		case <-beats:
		}
		before := c.slept.Load()
		if c.asleep.Load() > 0 {
			continue
		}
		// A peer that went to sleep meanwhile could not answer.
		if err := ask(); err != nil && c.slept.Load() == before {
			return true
		}
	}
}

// Sleep says that the agent's machine is being paused, so that its silence is no sign
// of death, until as many calls of Wake.
func (c *Client) Sleep() {
	c.asleep.Add(1)
	c.slept.Add(1)
}

// Wake says that the machine goes on.
func (c *Client) Wake() { c.asleep.Add(-1) }

// Hello is what the agent said of itself.
func (c *Client) Hello() Hello { return c.hello }

// call makes one call of the agent's. Where the caller's time is over, the error wraps
// its context's; where the stream has ended, ErrGone.
func call[Answered any](ctx context.Context, c *Client, name string, asked any) (Answered, error) {
	var answered Answered
	body, err := json.Marshal(asked)
	if err != nil {
		return answered, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent/v1/"+name, bytes.NewReader(body))
	if err != nil {
		return answered, err
	}
	request.Header.Set("Content-Type", "application/json")
	return send[Answered](c, request)
}

func send[Answered any](c *Client, request *http.Request) (answered Answered, err error) {
	ctx := request.Context()
	c.label(request)
	response, err := c.web.Do(request)
	if err != nil {
		return answered, c.broken(ctx, err)
	}
	defer response.Body.Close()
	decoder := json.NewDecoder(io.LimitReader(response.Body, longestAnswer))
	if response.StatusCode != http.StatusOK {
		return answered, c.refusal(ctx, response, decoder)
	}
	if err := decoder.Decode(&answered); err != nil {
		return answered, c.broken(ctx, err)
	}
	// To its end, so that the stream can be used again.
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<10))
	return answered, nil
}

func (c *Client) label(request *http.Request) {
	request.Header.Set(headerVersion, c.version)
	request.Header.Set(headerProtocol, strconv.Itoa(Protocol))
	if left := timeLeft(request.Context()); left != "" {
		request.Header.Set(headerTimeout, left)
	}
}

// refusal is the error that an answer holds.
func (c *Client) refusal(ctx context.Context, response *http.Response, body *json.Decoder) error {
	if err := ctx.Err(); err != nil {
		return c.broken(ctx, err)
	}
	var failure wireError
	if err := body.Decode(&failure); err != nil || response.StatusCode != statusFailed || failure.Text == "" {
		return fmt.Errorf("the agent answers %s: is it another program at the other end?", response.Status)
	}
	return failure.decode()
}

// broken is the error of a call that had no answer.
func (c *Client) broken(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		if cause := context.Cause(ctx); !errors.Is(cause, ended) {
			return fmt.Errorf("%w: %w", ended, cause)
		}
		return ended
	}
	return fmt.Errorf("the agent is %w: %w", platform.ErrGone, err)
}

// Clock compares the clocks, by the quickest of several round trips (Cristian 1989):
// the agent's reading was taken within it, and stands for its middle.
func (c *Client) Clock(ctx context.Context) (Clock, error) {
	const trips = 16
	best := Clock{Within: -1}
	for range trips {
		asked := time.Now()
		read, err := call[clockReading](ctx, c, "clock", nothing{})
		took := time.Since(asked)
		if err != nil {
			return Clock{}, fmt.Errorf("reading the agent's clock: %w", err)
		}
		if best.Within < 0 || took/2 < best.Within {
			middle := asked.UnixNano() + int64(took/2)
			best = Clock{Offset: time.Duration(read.UnixNanos - middle), Within: took / 2}
		}
	}
	return best, nil
}

// Has reports whether the agent has the image's root.
func (c *Client) Has(ctx context.Context, of string) (bool, error) {
	is, err := call[whether](ctx, c, "has", digest{of})
	return is.Is, err
}

// Attach informs the agent that the image lies on a block device of its host, so that
// Prepare sends nothing. The device is believed to hold what it is said to hold.
func (c *Client) Attach(ctx context.Context, digest, device string) error {
	_, err := call[nothing](ctx, c, "attach", attach{digest, device})
	return err
}

// PowerOff ends the agent's machine; Done is closed when it has.
func (c *Client) PowerOff(ctx context.Context) error {
	_, err := call[nothing](ctx, c, "power-off", nothing{})
	if errors.Is(err, platform.ErrGone) && c.session.IsClosed() {
		return nil // quicker than its answer
	}
	return err
}

// Done is closed when the stream has ended.
func (c *Client) Done() <-chan struct{} { return c.session.CloseChan() }

// Close ends the stream, and with it whatever of this client runs.
func (c *Client) Close() error {
	err := c.session.Close()
	c.web.CloseIdleConnections()
	// Closed by the session already, where that began at all.
	_ = c.conn.Close()
	return err
}

// bring has the image cross, unless the agent has it.
func (c *Client) bring(ctx context.Context, img image.Image) error {
	c.crossing.Lock()
	defer c.crossing.Unlock()
	has, err := c.Has(ctx, img.Digest)
	if err != nil || has {
		return err
	}
	return c.carry(ctx, img)
}

// carry sends an image: its description, and its root as a canonical layer.
func (c *Client) carry(ctx context.Context, img image.Image) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	read, write := io.Pipe()
	form := multipart.NewWriter(write)
	sent := make(chan error, 1)
	go func() {
		err := sendImage(ctx, form, img)
		_ = write.CloseWithError(err) // EOF where it is nil
		sent <- err
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://agent/v1/image", read)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", form.FormDataContentType())
	_, err = send[nothing](c, request)
	_ = read.CloseWithError(errAnswered) // the writer need not go on
	if reading := <-sent; reading != nil && !errors.Is(reading, errAnswered) && !errors.Is(reading, io.ErrClosedPipe) &&
		ctx.Err() == nil {
		err = errors.Join(reading, err)
	}
	if err != nil {
		return fmt.Errorf("sending image %s to the agent: %w", img.Name, err)
	}
	return nil
}

var errAnswered = errors.New("the agent has answered")

func sendImage(ctx context.Context, form *multipart.Writer, img image.Image) error {
	part, err := form.CreateFormField("image")
	if err != nil {
		return err
	}
	if err := json.NewEncoder(part).Encode(imageOf(img)); err != nil {
		return err
	}
	if part, err = form.CreateFormField("layer"); err != nil {
		return err
	}
	if err := image.SendLayer(ctx, part, img.Root); err != nil {
		return err
	}
	return form.Close()
}
