package vm

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// The protocol of user-mode Linux' management console: a datagram each way
// (arch/um/drivers/mconsole.h).
const (
	mconsoleMagic   = 0xcafebabe
	mconsoleVersion = 2
	mconsoleData    = 512
)

var mconsoleAskers atomic.Int64

// mconsoleReply is one datagram of an answer.
type mconsoleReply struct {
	failed bool
	more   bool
	text   string
}

func parseMconsole(b []byte) (mconsoleReply, error) {
	if len(b) < 12 {
		return mconsoleReply{}, fmt.Errorf("an answer of %d bytes is none of user-mode Linux'", len(b))
	}
	failed, more, length := binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint32(b[4:]), binary.NativeEndian.Uint32(b[8:])
	if length > mconsoleData || int(length) > len(b)-12 {
		return mconsoleReply{}, fmt.Errorf("an answer that says to have %d bytes has %d", length, len(b)-12)
	}
	text := b[12 : 12+length]
	if end := bytes.IndexByte(text, 0); end >= 0 {
		text = text[:end]
	}
	return mconsoleReply{failed != 0, more != 0, strings.TrimSpace(string(text))}, nil
}

// mconsole has a machine of user-mode Linux do a command. dir is the machine's own: the
// names of sockets are short, and so the machine's is reached through a descriptor.
func mconsole(ctx context.Context, dir, command string) (string, error) {
	if len(command) >= mconsoleData {
		return "", fmt.Errorf("the command %.40q... is longer than user-mode Linux reads", command)
	}
	d, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	defer d.Close()
	// It answers to the name that the asker has, which has to mean the same to both: one
	// without a file does.
	own := &net.UnixAddr{Net: "unixgram", Name: fmt.Sprintf("@tare-vm-%d-%d", os.Getpid(), mconsoleAskers.Add(1))}
	conn, err := net.DialUnix("unixgram", own, &net.UnixAddr{Net: "unixgram", Name: fmt.Sprintf("/proc/self/fd/%d/%s/mconsole", d.Fd(), umlName)})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	ended := func(err error) error {
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("%w (%w)", cause, err) // one line: it ends up in one
		}
		return err
	}
	request := make([]byte, 12+mconsoleData)
	binary.NativeEndian.PutUint32(request, mconsoleMagic)
	binary.NativeEndian.PutUint32(request[4:], mconsoleVersion)
	binary.NativeEndian.PutUint32(request[8:], uint32(len(command)))
	copy(request[12:], command)
	if _, err := conn.Write(request); err != nil {
		return "", ended(err)
	}
	var said strings.Builder
	answer := make([]byte, 12+mconsoleData)
	for said.Len() < consoleSize {
		n, err := conn.Read(answer)
		if err != nil {
			return "", ended(err)
		}
		reply, err := parseMconsole(answer[:n])
		if err != nil {
			return "", err
		}
		said.WriteString(reply.text)
		if reply.failed {
			return "", fmt.Errorf("user-mode Linux refuses %q: %s", command, said.String())
		}
		if !reply.more {
			break
		}
	}
	return said.String(), nil
}
