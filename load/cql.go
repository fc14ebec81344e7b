package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// CQL is a sequence of statements to a service that speaks Cassandra's native
// protocol, of which version 4 is spoken (the protocol's specification,
// "native_protocol_v4"). A request of the load is one statement, and a connection
// has one under way: as many are under way as there are connections.
type CQL struct {
	Address string // host:port
	// Statements are prepared by each connection as it is opened, so that no request
	// holds that; Next names one by its place among them.
	Statements []string
	// Next gives each request. It is called from several goroutines.
	Next func() CQLRequest

	// Dial connects; nil is TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// CQLRequest is one of a sequence.
type CQLRequest struct {
	Statement int
	Values    []string // bound to it, in order
	// Check says what is wrong with the rows of an answer; nil looks at none.
	Check func(rows []CQLRow) error
}

// CQLRow is a row of an answer: a value for each column, as the protocol has it. Nil
// is null.
type CQLRow [][]byte

// Open connects, and prepares the statements.
func (q CQL) Open(ctx context.Context) (Conn, error) {
	if q.Next == nil || len(q.Statements) == 0 {
		return nil, errors.New("cql: no statements")
	}
	client, err := dialCQL(ctx, q.Dial, q.Address)
	if err != nil {
		return nil, err
	}
	c := &cqlConn{next: q.Next, client: client}
	for _, text := range q.Statements {
		answer, err := client.do(ctx, func(b []byte) []byte { return appendPrepare(b, text) })
		if err != nil {
			client.Close()
			return nil, fmt.Errorf("prepare %s: %w", text, err)
		}
		c.prepared = append(c.prepared, answer.prepared)
	}
	return c, nil
}

type cqlConn struct {
	next     func() CQLRequest
	client   *CQLClient
	prepared [][]byte
	check    func(rows []CQLRow) error // of the request that was sent last
}

func (c *cqlConn) Close() error { return c.client.Close() }

func (c *cqlConn) Do(deadline time.Time) (reusable bool, err error) {
	conn := c.client.link.get()
	if conn == nil {
		return false, net.ErrClosed
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return false, err
	}
	raw, err := c.request()
	if err == nil {
		_, err = conn.Write(raw)
	}
	if err != nil {
		return false, err
	}
	return whole(c, c.client.reader)
}

func (c *cqlConn) request() ([]byte, error) {
	next := c.next()
	c.check = next.Check
	return c.client.request(func(b []byte) []byte {
		return appendExecute(b, c.prepared[next.Statement], next.Values)
	}), nil
}

func (c *cqlConn) answer(r input) (progress, error) {
	answer, err := c.client.answer(r)
	var refused *CQLError
	switch {
	case errors.As(err, &refused):
		return complete, &Error{Kind: fmt.Sprintf("error %#04x", refused.Code), Err: err}
	case err != nil:
		return partial, err
	case c.check == nil:
		return complete, nil
	}
	if err := c.check(answer.rows); err != nil {
		return complete, &Error{Kind: "rows", Err: err}
	}
	return complete, nil
}

func (c *cqlConn) settle(error) {}

func (c *cqlConn) detach() net.Conn { return c.client.link.detach() }

// CQLError is an answer by which the service refuses a request.
type CQLError struct {
	Code    int32
	Message string
}

func (e *CQLError) Error() string { return fmt.Sprintf("error %#04x: %s", e.Code, e.Message) }

// CQLClient sends single statements, for preparing and checking a service. It is for
// one goroutine at a time.
type CQLClient struct {
	link   link
	reader *bufio.Reader
	sent   int16 // numbers the requests
	buffer []byte
}

// DialCQL connects to host:port by dial, which may be nil for TCP. It returns when
// the service has answered that it is ready.
func DialCQL(
	ctx context.Context,
	by func(ctx context.Context, address string) (net.Conn, error),
	address string,
) (*CQLClient, error) {
	return dialCQL(ctx, by, address)
}

func dialCQL(ctx context.Context, by dialing, address string) (*CQLClient, error) {
	conn, err := dial(ctx, by, address)
	if err != nil {
		return nil, err
	}
	c := &CQLClient{reader: bufio.NewReaderSize(conn, 16<<10)}
	c.link.set(conn)
	if _, err := c.do(ctx, appendStartup); err != nil {
		c.Close()
		return nil, fmt.Errorf("cql: start up: %w", err)
	}
	return c, nil
}

// Close closes the connection.
func (c *CQLClient) Close() error { return c.link.close() }

// Do sends a statement and gives its rows. The error is a *CQLError where the service
// refused it; after any other the client is of no more use.
func (c *CQLClient) Do(ctx context.Context, statement string) ([]CQLRow, error) {
	answer, err := c.do(ctx, func(b []byte) []byte { return appendQuery(b, statement) })
	return answer.rows, err
}

func (c *CQLClient) do(ctx context.Context, request func([]byte) []byte) (cqlAnswer, error) {
	conn := c.link.get()
	if conn == nil {
		return cqlAnswer{}, net.ErrClosed
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	answer, err := c.exchange(conn, request)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return answer, err
}

// exchange sends a request and reads its answer.
func (c *CQLClient) exchange(conn net.Conn, request func([]byte) []byte) (cqlAnswer, error) {
	if _, err := conn.Write(c.request(request)); err != nil {
		return cqlAnswer{}, err
	}
	return c.answer(c.reader)
}

// request gives a request's bytes, until the next one. Its frame is appended to what the
// function is handed.
func (c *CQLClient) request(request func([]byte) []byte) []byte {
	c.sent = (c.sent + 1) & cqlStreams
	c.buffer = request(c.buffer[:0])
	finishFrame(c.buffer, c.sent)
	return c.buffer
}

// answer reads the answer to the last request.
func (c *CQLClient) answer(r io.Reader) (cqlAnswer, error) {
	stream, answer, err := readCQL(r)
	switch {
	case err != nil:
		return cqlAnswer{}, err
	case stream != c.sent:
		return cqlAnswer{}, fmt.Errorf("cql: the answer is to request %d, and %d was sent", stream, c.sent)
	}
	return answer, nil
}

// readCQL reads an answer, and which request it is to. The error is a *CQLError where
// the service refused.
func readCQL(r io.Reader) (stream int16, answer cqlAnswer, err error) {
	head, body, err := readFrame(r)
	if err != nil {
		return 0, cqlAnswer{}, err
	}
	answer, err = parseAnswer(head, body)
	return head.stream, answer, err
}
