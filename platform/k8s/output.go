package k8s

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"tare/kernel/file"
	"tare/platform/engine"
)

// follow hands on what the program prints, from the container's log.
func (l *launch) follow() error {
	name := filepath.Join(l.logDir(), containerName, "0.log")
	log, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read the log of pod %s: %w", l.spec.Name, err)
	}
	changes, err := fsnotify.NewWatcher()
	if err == nil {
		err = changes.Add(filepath.Dir(name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("follow the log of pod %s: %w", l.spec.Name, err), log.Close())
	}
	l.output = engine.NewOutput(l.spec.Stdout, l.spec.Stderr)
	hungUp := make(chan struct{})
	l.output.Follow(func() error {
		defer changes.Close()
		return l.copyLog(log, changes, hungUp)
	}, func() { close(hungUp) })
	return nil
}

// copyLog copies until the log is whole, and closes it. The CRI plugin deletes the task when its pipes
// have ended, writes what it has read, and closes the log. At 10 MiB (containerLogMaxSize) the kubelet
// renames the log, and has the plugin go on in a new one of the same name.
func (l *launch) copyLog(log *os.File, changes *fsnotify.Watcher, hungUp <-chan struct{}) error {
	defer func() { _ = log.Close() }()
	stdout, stderr := l.output.Writers()
	lines := logReader{from: bufio.NewReader(log), to: map[string]io.Writer{"stdout": stdout, "stderr": stderr}}
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	deleted, closing := (<-chan struct{})(l.pod.deleted), (<-chan time.Time)(nil)
	for {
		if err := lines.copy(); err != nil {
			return err
		}
		select {
		case e := <-changes.Events:
			if e.Name == log.Name() && e.Has(fsnotify.Create) {
				closing = ticker.C
			}
			continue
		case <-changes.Errors: // events are lost, which may have been of a new log
			closing = ticker.C
			continue
		case <-deleted:
			deleted, closing = nil, ticker.C
			continue
		case <-closing:
		case <-hungUp:
			return nil
		}
		if written, err := file.HasWriter(log); err != nil {
			return err
		} else if written {
			continue
		}
		if err := lines.copy(); err != nil {
			return err
		}
		next, err := following(log)
		switch {
		case err != nil:
			return err
		case next != nil:
			_ = log.Close()
			log = next
			lines.from.Reset(log)
		case deleted == nil:
			return nil
		}
		if deleted != nil {
			closing = nil
		}
	}
}

// following opens the file that has a log's name by now; it is nil where that is the log itself, or none.
func following(log *os.File) (*os.File, error) {
	next, err := os.Open(log.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	was, err := log.Stat()
	if err != nil {
		return nil, errors.Join(err, next.Close())
	}
	if is, err := next.Stat(); err != nil || os.SameFile(was, is) {
		return nil, errors.Join(err, next.Close())
	}
	return next, nil
}

// logReader reads a log as the Container Runtime Interface has it: a line is "TIME STREAM TAG TEXT",
// where tag P says that the program's line goes on (kubernetes/design-proposals-archive,
// node/kubelet-cri-logging.md). One that is not whole is kept for the next copy.
type logReader struct {
	from *bufio.Reader
	to   map[string]io.Writer
	part []byte
}

// copy copies until the end of what is there.
func (r *logReader) copy() error {
	for {
		text, err := r.from.ReadBytes('\n')
		r.part = append(r.part, text...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line := r.part
		r.part = nil
		if err := r.line(line); err != nil {
			return err
		}
	}
}

func (r *logReader) line(line []byte) error {
	words := bytes.SplitN(line, []byte(" "), 4)
	if len(words) < 4 {
		return fmt.Errorf("the container's log has a line %q, which is not of the format of the Container Runtime Interface", line)
	}
	text := words[3]
	if string(words[2]) == "P" {
		text = bytes.TrimSuffix(text, []byte("\n"))
	}
	to := r.to[string(words[1])]
	if to == nil {
		return nil
	}
	_, err := to.Write(text)
	return err
}
