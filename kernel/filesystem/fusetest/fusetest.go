// Package fusetest gives tests a file system whose only file is read and written by the test: it can
// fail chosen requests, and stop answering at all.
//
// It speaks as much of the FUSE protocol as that takes. The source is
// include/uapi/linux/fuse.h of Linux, version 7.31 of the protocol.
package fusetest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Name is that of the file.
const Name = "file"

// System is a file system that is mounted until its test ends.
type System struct {
	Directory string // that it is mounted on

	device *os.File
	data   []byte
	fails  atomic.Pointer[Fails]
	silent atomic.Bool
	served sync.WaitGroup
}

// Fails tells whether a read or a write of some bytes of the file fails with EIO.
type Fails func(write bool, offset, length int64) bool

// Mount mounts one with a file of so many bytes. Where there is no FUSE, or this is not root, the test
// is skipped.
//
// A file system that does not answer holds up every program that looks at all mounts: a test of
// such a one is [Apart].
func Mount(t testing.TB, size int64) *System {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENODEV) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &System{Directory: t.TempDir(), device: device, data: make([]byte, size)}
	clear(s.data) // all of it is in memory before any is asked for
	options := fmt.Sprintf("fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other", device.Fd())
	if err := unix.Mount("tare-fusetest", s.Directory, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		t.Fatal(errors.Join(os.NewSyscallError("mount", err), device.Close()))
	}
	for range 4 {
		s.served.Go(s.serve)
	}
	t.Cleanup(func() {
		// Forced, it ends whatever waits for an answer.
		if err := unix.Unmount(s.Directory, unix.MNT_FORCE|unix.MNT_DETACH); err != nil {
			t.Errorf("umount %s: %v", s.Directory, err)
		}
		s.served.Wait()
		if err := device.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// File is the path of the file.
func (s *System) File() string { return filepath.Join(s.Directory, Name) }

// Fail has requests fail from now on; nil has none fail.
func (s *System) Fail(f Fails) {
	if f == nil {
		s.fails.Store(nil)
		return
	}
	s.fails.Store(&f)
}

// Silence has no request answered from now on, until the test ends. Who waits for an answer cannot be
// killed, since the server has taken the request.
func (s *System) Silence() { s.silent.Store(true) }

// Ends fails the test where f does not end. What it waits for ends with the file system.
func (s *System) Ends(t testing.TB, what string, f func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: it waits for a file system that does not answer", what)
	}
}

// Operations of the protocol.
const (
	opLookup     = 1
	opForget     = 2
	opGetattr    = 3
	opSetattr    = 4
	opOpen       = 14
	opRead       = 15
	opWrite      = 16
	opStatfs     = 17
	opRelease    = 18
	opFsync      = 20
	opFlush      = 25
	opInit       = 26
	opOpendir    = 27
	opReaddir    = 28
	opReleasedir = 29
	opInterrupt  = 36
	opDestroy    = 38
	opBatch      = 42 // of opForget
)

const (
	rootNode, fileNode = 1, 2

	inHeader, outHeader = 40, 16
	mostWrite           = 128 << 10
	directIO            = 1 // FOPEN_DIRECT_IO: no page cache comes between
)

// serve answers until the file system is unmounted.
func (s *System) serve() {
	request := make([]byte, inHeader+mostWrite+4096)
	for {
		n, err := unix.Read(int(s.device.Fd()), request)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOENT): // of a request that was given up
			continue
		case err != nil, n < inHeader: // ENODEV: it is unmounted
			return
		}
		if s.silent.Load() {
			continue
		}
		header, in := request[:inHeader], request[inHeader:n]
		opcode, node := native.Uint32(header[4:]), native.Uint64(header[16:])
		if opcode == opForget || opcode == opBatch || opcode == opInterrupt {
			continue // they have no answer
		}
		out, errno := s.answer(opcode, node, in)
		reply := make([]byte, outHeader, outHeader+len(out))
		native.PutUint32(reply, uint32(outHeader+len(out)))
		native.PutUint32(reply[4:], uint32(-int32(errno)))
		copy(reply[8:], header[8:16]) // which request it is of
		_, _ = unix.Write(int(s.device.Fd()), append(reply, out...))
	}
}

var native = binary.NativeEndian

func (s *System) answer(opcode uint32, node uint64, in []byte) (out []byte, errno unix.Errno) {
	switch opcode {
	case opInit:
		out = make([]byte, 64)
		native.PutUint32(out, 7)
		native.PutUint32(out[4:], 31)
		native.PutUint32(out[8:], mostWrite) // read ahead
		native.PutUint32(out[20:], mostWrite)
		native.PutUint32(out[24:], 1) // granularity of times, ns
		return out, 0
	case opLookup:
		if node != rootNode || string(in) != Name+"\x00" {
			return nil, unix.ENOENT
		}
		out = make([]byte, 40) // it is looked up anew each time
		native.PutUint64(out, fileNode)
		return append(out, s.attributes(fileNode)...), 0
	case opGetattr, opSetattr:
		return append(make([]byte, 16), s.attributes(node)...), 0
	case opOpen, opOpendir:
		out = make([]byte, 16)
		native.PutUint32(out[8:], directIO)
		return out, 0
	case opRead, opWrite:
		return s.transfer(opcode == opWrite, in)
	case opStatfs:
		return make([]byte, 80), 0
	case opRelease, opReleasedir, opFlush, opFsync, opReaddir, opDestroy:
		return nil, 0
	}
	return nil, unix.ENOSYS
}

// attributes are those of a file: a struct fuse_attr.
func (s *System) attributes(node uint64) []byte {
	out := make([]byte, 88)
	native.PutUint64(out, node)
	mode, links := uint32(unix.S_IFDIR|0o755), uint32(2)
	if node == fileNode {
		native.PutUint64(out[8:], uint64(len(s.data)))
		native.PutUint64(out[16:], uint64(len(s.data)/512))
		mode, links = unix.S_IFREG|0o755, 1
	}
	native.PutUint32(out[60:], mode)
	native.PutUint32(out[64:], links)
	native.PutUint32(out[80:], 4096)
	return out
}

// transfer reads from the file, or writes to it.
func (s *System) transfer(write bool, in []byte) (out []byte, errno unix.Errno) {
	offset, length := int64(native.Uint64(in[8:])), int64(native.Uint32(in[16:]))
	if fails := s.fails.Load(); fails != nil && (*fails)(write, offset, length) {
		return nil, unix.EIO
	}
	here := s.data[min(offset, int64(len(s.data))):min(offset+length, int64(len(s.data)))]
	if !write {
		return here, 0
	}
	const writeHeader = 40
	done := make([]byte, 8)
	native.PutUint32(done, uint32(copy(here, in[writeHeader:])))
	return done, 0
}
