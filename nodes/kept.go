package nodes

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"tare/record"
)

// keptFor is for how long a pod keeps results that nobody fetches. The node's disk keeps them longer.
const keptFor = 24 * time.Hour

// greatestRun is the size of a run's store that is accepted from a node.
const greatestRun = 4 << 30

// Export writes a node's run to one who fetches it: a line with the node's time, and a store with that run
// alone, compressed by gzip.
func Export(ctx context.Context, store *record.Store, of record.Part, to io.Writer) (err error) {
	if _, err := fmt.Fprintln(to, time.Now().Format(time.RFC3339Nano)); err != nil {
		return err
	}
	// Beside the store: the container can write nowhere else.
	dir, err := os.MkdirTemp(filepath.Dir(store.Path()), "export-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "run.db")
	one, err := record.Open(path)
	if err != nil {
		return err
	}
	if err := errors.Join(store.CopyTo(ctx, one, of.ID()), one.Close()); err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	// Who reads may go at any moment, and this process with it: the open file goes then too.
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	packed := gzip.NewWriter(to)
	if _, err := io.Copy(packed, file); err != nil {
		return err
	}
	return packed.Close()
}

// receive reads what Export wrote into a store, and gives the node's time. A run that is not the
// part's is refused.
func receive(
	ctx context.Context,
	from io.Reader,
	to *record.Store,
	of record.Part,
) (clock, heard time.Time, err error) {
	lines := bufio.NewReader(from)
	line, err := lines.ReadSlice('\n') // as long as the reader's buffer at the most
	if err != nil {
		return clock, heard, fmt.Errorf("read the node's time: %w", err)
	}
	heard = time.Now()
	if clock, err = time.Parse(time.RFC3339Nano, lastLine(string(line))); err != nil {
		return clock, heard, fmt.Errorf("read the node's time: %w", err)
	}
	dir, err := os.MkdirTemp("", "tare-node-")
	if err != nil {
		return clock, heard, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "run.db")
	if err := unpack(lines, path); err != nil {
		return clock, heard, fmt.Errorf("read the run: %w", err)
	}
	one, err := record.OpenReceived(ctx, path) // an older tare's is brought up to date
	if err != nil {
		return clock, heard, err
	}
	defer func() { err = errors.Join(err, one.Close()) }()
	runs, err := one.Runs()
	if err != nil {
		return clock, heard, err
	}
	if len(runs) != 1 || runs[0].ID != of.ID() || runs[0].Plan.Part == nil || *runs[0].Plan.Part != of {
		return clock, heard, fmt.Errorf("the pod gave another run than %s", of.ID())
	}
	return clock, heard, one.CopyTo(ctx, to, of.ID())
}

func unpack(from io.Reader, path string) (err error) {
	packed, err := gzip.NewReader(from)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	n, err := io.Copy(file, io.LimitReader(packed, greatestRun+1))
	if err == nil && n > greatestRun {
		err = fmt.Errorf("it has more than %d GiB", greatestRun>>30)
	}
	return err
}

// Acknowledge removes a node's run and its page from the node: it lies in the store of who started
// the study. One that was acknowledged before is no error: the answer may have been lost.
func Acknowledge(store *record.Store, of record.Part) error {
	page := filepath.Join(filepath.Dir(store.Path()), "reports", filepath.Base(of.ID())+".html")
	if err := os.Remove(page); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	err := store.Remove(of.ID())
	if gone := new(record.NotFound); errors.As(err, &gone) {
		return nil
	}
	return err
}

// Keep waits until a node's run was acknowledged, for a day at most. Nothing is measured meanwhile.
func Keep(ctx context.Context, path string, of record.Part) error {
	end, look := time.NewTimer(keptFor), time.NewTicker(time.Second)
	defer end.Stop()
	defer look.Stop()
	for {
		// A store that another tare writes just now is looked at again.
		kept, err := keeps(path, of)
		if err == nil && !kept {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end.C:
			return err
		case <-look.C:
		}
	}
}

func keeps(path string, of record.Part) (kept bool, err error) {
	store, err := record.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	_, err = store.StatusOf(of.ID())
	if gone := new(record.NotFound); errors.As(err, &gone) {
		return false, nil
	}
	return err == nil, err
}
