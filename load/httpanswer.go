package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Limits of an answer's head, so that a broken service cannot exhaust the generator.
const (
	maxHTTPLine    = 64 << 10
	maxHTTPHeaders = 10_000
	maxInterim     = 16 // responses before the final one
)

// httpAnswer is an HTTP/1 response as it is read (RFC 9112), and keeps no more of it than
// a load looks at. It refuses what net/http's ReadResponse does. That allocates some
// kilobytes for each response, all of its headers among them.
type httpAnswer struct {
	status int
	size   int64        // of the body so far
	body   bytes.Buffer // its first MiB, where it is wanted
	last   bool         // no other response follows on this connection

	headless bool // the request was one for a head
	wanted   bool // the body is looked at
	stage    httpStage
	left     int64 // of the body, or of the chunk
	interim  int   // responses that came before

	line  []byte // a long one
	bare  bool   // the last line did not end in CR LF
	chunk []byte // by which a body is read
}

// httpStage is what comes next of a response.
type httpStage int

const (
	httpHead     httpStage = iota
	httpSized              // a body of known length
	httpUnending           // a body up to the end of the stream
	httpChunk              // the head of a chunk
	httpChunked            // a chunk
	httpChunkEnd
	httpTrailer
)

// begin makes it ready for another answer.
func (a *httpAnswer) begin(headless, wanted bool) {
	*a = httpAnswer{headless: headless, wanted: wanted, body: a.body, line: a.line, chunk: a.chunk}
	a.body.Reset()
}

// some reads the next part of the response. whole tells that it was the last.
func (a *httpAnswer) some(r input) (whole bool, err error) {
	switch a.stage {
	case httpHead:
		return a.readHead(r)
	case httpSized, httpChunked:
		if err := a.readBody(r); err != nil {
			return false, fmt.Errorf("body after %d bytes: %w", a.size, unexpected(err))
		}
		if a.left == 0 && a.stage == httpChunked {
			a.stage = httpChunkEnd
			return false, nil
		}
		return a.left == 0, nil
	case httpUnending:
		a.left = maxKeptBody // at a time
		err := a.readBody(r)
		if err == io.EOF {
			return true, nil
		}
		return false, err
	case httpChunk:
		return false, a.readChunk(r)
	case httpChunkEnd:
		end, err := r.Peek(2)
		switch {
		case len(end) > 0 && end[0] != '\r', len(end) == 2 && end[1] != '\n':
			return false, errors.New("http: a chunk longer than its length")
		case err != nil:
			return false, unexpected(err)
		}
		a.stage = httpChunk
		_, err = r.Discard(2)
		return false, err
	default:
		_, err := a.readFields(r)
		return err == nil, err
	}
}

// readHead reads up to where the body begins.
func (a *httpAnswer) readHead(r input) (whole bool, err error) {
	line, err := a.readLine(r)
	if err != nil {
		return false, unexpected(err)
	}
	minor, status, ok := parseStatusLine(line)
	if !ok {
		return false, fmt.Errorf("http: a response that begins with %.60q", line)
	}
	fields, err := a.readFields(r)
	if err != nil {
		return false, err
	}
	chunked := fields.chunked && minor > 0 // HTTP/1.0 has no encodings
	if chunked && fields.otherCoding {
		return false, errors.New("http: a transfer encoding other than " + string(codingChunked))
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		if a.interim++; a.interim >= maxInterim {
			return false, errors.New("http: interim responses without end")
		}
		return false, nil
	}
	a.status = status
	a.last = fields.close || minor == 0 && !fields.keepAlive
	switch {
	case a.headless, status < 200, status == http.StatusNoContent, status == http.StatusNotModified:
		return true, nil
	case chunked:
		a.stage = httpChunk
	case fields.length >= 0:
		a.stage, a.left = httpSized, fields.length
		return a.left == 0, nil
	default:
		a.stage, a.last = httpUnending, true
	}
	return false, nil
}

// parseStatusLine reads the first line of a response of HTTP/1.
func parseStatusLine(line []byte) (minor, status int, ok bool) {
	version, rest, ok := bytes.Cut(line, []byte(" "))
	if !ok || len(version) != len("HTTP/1.1") || string(version[:7]) != "HTTP/1." || !isDigit(version[7]) {
		return 0, 0, false
	}
	digits, _, _ := bytes.Cut(bytes.TrimLeft(rest, " "), []byte(" "))
	if len(digits) != 3 {
		return 0, 0, false
	}
	for _, d := range digits {
		if !isDigit(d) {
			return 0, 0, false
		}
		status = 10*status + int(d-'0')
	}
	return int(version[7] - '0'), status, status >= 100
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

// httpFields are the headers that tell where a response ends, and whether another may follow.
type httpFields struct {
	length           int64 // of the body; below 0 where it is not given
	chunked          bool  // encoded, at least
	otherCoding      bool  // than chunks alone
	close, keepAlive bool
}

// readFields reads headers, and the empty line behind them.
func (a *httpAnswer) readFields(r input) (fields httpFields, err error) {
	fields.length = -1
	for range maxHTTPHeaders {
		line, err := a.readLine(r)
		switch {
		case err != nil:
			return fields, unexpected(err)
		case a.bare && a.stage == httpTrailer:
			return fields, errors.New("http: a line behind the chunks that does not end in CR LF")
		case len(line) == 0:
			return fields, nil
		case line[0] == ' ' || line[0] == '\t':
			// RFC 9112, 5.2: a value that goes on, which is of another age.
			return fields, errors.New("http: a header of several lines")
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !isHeaderName(name) || !isHeaderValue(value) {
			return fields, fmt.Errorf("http: a header %.60q", line)
		}
		if err := fields.take(name, bytes.Trim(value, " \t")); err != nil {
			return fields, err
		}
	}
	return fields, fmt.Errorf("http: more than %d headers", maxHTTPHeaders)
}

var (
	headerConnection = []byte("Connection")
	headerLength     = []byte("Content-Length")
	headerCoding     = []byte("Transfer-Encoding")
	codingChunked    = []byte("chunked")
	tokenClose       = []byte("close")
	tokenKeepAlive   = []byte("keep-alive")
)

func (f *httpFields) take(name, value []byte) error {
	switch {
	case bytes.EqualFold(name, headerConnection):
		for len(value) > 0 {
			var token []byte
			token, value, _ = bytes.Cut(value, []byte(","))
			token = bytes.Trim(token, " \t")
			f.close = f.close || bytes.EqualFold(token, tokenClose)
			f.keepAlive = f.keepAlive || bytes.EqualFold(token, tokenKeepAlive)
		}
	case bytes.EqualFold(name, headerLength):
		n, ok := parseDigits(value, 10)
		if !ok || f.length >= 0 && f.length != n {
			return fmt.Errorf("http: a length of %.30q", value)
		}
		f.length = n
	case bytes.EqualFold(name, headerCoding):
		f.otherCoding = f.chunked || !bytes.EqualFold(value, codingChunked)
		f.chunked = true
	}
	return nil
}

// readChunk reads the head of a chunk: the length, and what may stand behind it.
func (a *httpAnswer) readChunk(r input) error {
	line, err := a.readLine(r)
	if err != nil {
		return unexpected(err)
	}
	digits, _, _ := bytes.Cut(bytes.TrimRight(line, " \t"), []byte(";"))
	n, ok := parseDigits(digits, 16)
	if !ok || a.bare || bytes.IndexByte(line, '\r') >= 0 {
		return fmt.Errorf("http: a chunk that begins with %.30q", line)
	}
	a.left, a.stage = n, httpChunked
	if n == 0 {
		a.stage = httpTrailer
	}
	return nil
}

// parseDigits reads a number that takes 62 bits or less.
func parseDigits(digits []byte, base int64) (n int64, ok bool) {
	if len(digits) == 0 || len(digits) > 16 && base == 16 {
		return 0, false
	}
	for _, d := range digits {
		var value int64
		switch {
		case isDigit(d):
			value = int64(d - '0')
		case base == 16 && 'a' <= d|0x20 && d|0x20 <= 'f':
			value = int64(d|0x20-'a') + 10
		default:
			return 0, false
		}
		if n = n*base + value; n >= 1<<58 {
			return 0, false
		}
	}
	return n, true
}

// readBody reads some of what is left.
func (a *httpAnswer) readBody(r input) (err error) {
	var n int
	if room := maxKeptBody - a.body.Len(); a.wanted && room > 0 {
		if a.chunk == nil {
			a.chunk = make([]byte, 32<<10)
		}
		n, err = r.Read(a.chunk[:min(a.left, int64(len(a.chunk)))])
		a.body.Write(a.chunk[:min(n, room)])
	} else {
		n, err = r.Discard(int(min(a.left, 1<<30)))
	}
	a.size += int64(n)
	a.left -= int64(n)
	if n > 0 {
		return nil
	}
	return err
}

// readLine gives a line without its end, until the next read; bare tells that this was a
// line feed alone.
func (a *httpAnswer) readLine(r input) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		a.line = append(a.line[:0], line...)
		for err == bufio.ErrBufferFull && len(a.line) <= maxHTTPLine {
			line, err = r.ReadSlice('\n')
			a.line = append(a.line, line...)
		}
		line = a.line
	}
	if err != nil {
		if len(line) > maxHTTPLine {
			err = fmt.Errorf("http: a line above %d bytes", maxHTTPLine)
		}
		return nil, err
	}
	line = line[:len(line)-1]
	if a.bare = len(line) == 0 || line[len(line)-1] != '\r'; a.bare {
		return line, nil
	}
	return line[:len(line)-1], nil
}

// isHeaderName and isHeaderValue are as forgiving as net/http: there may be a space in a
// name.
func isHeaderName(name []byte) bool {
	for _, c := range name {
		if !headerNameBytes[c] {
			return false
		}
	}
	return len(name) > 0
}

var headerNameBytes = func() (allowed [256]bool) {
	for c := byte(' '); c < 0x7f; c++ {
		allowed[c] = !strings.ContainsRune(`"(),/:;<=>?@[\]{}`, rune(c))
	}
	return allowed
}()

func isHeaderValue(value []byte) bool {
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
