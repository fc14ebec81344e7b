package lab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"tare/kernel/file"
	"tare/platform"
)

func sortNewestFirst(left []remaining) {
	sort.Slice(left, func(i, j int) bool { return left[i].n > left[j].n })
}

// Cleaned is what Clean did.
type Cleaned struct {
	Removed []platform.Entry // or would remove, where dry
	Failed  []CleanFailure
	Alive   []string // ledgers of runs that go on: not touched
}

// CleanFailure is a thing that could not be removed.
type CleanFailure struct {
	Entry platform.Entry
	Err   error
}

// Clean removes what dead runs left, by their ledgers in dir, newest thing
// first, and only that. platforms resolves a platform's name. A thing that
// cannot be removed keeps its ledger, so that Clean can be tried again.
func Clean(
	ctx context.Context,
	dir string,
	platforms func(name string) (platform.Platform, error),
	dry bool,
) (Cleaned, error) {
	var done Cleaned
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return done, nil
	}
	// What others could have written here is not carried out.
	if err := file.Private(dir); err != nil {
		return done, fmt.Errorf("clean: %w", err)
	}
	ledgers, err := os.ReadDir(dir) // sorted
	if err != nil {
		return done, fmt.Errorf("clean: %w", err)
	}
	for _, ledger := range ledgers {
		if !strings.HasSuffix(ledger.Name(), ledgerSuffix) {
			continue
		}
		if err := cleanOne(ctx, filepath.Join(dir, ledger.Name()), platforms, dry, &done); err != nil {
			return done, err
		}
	}
	return done, nil
}

func cleanOne(
	ctx context.Context,
	path string,
	platforms func(string) (platform.Platform, error),
	dry bool,
	done *Cleaned,
) error {
	ledger, err := file.Lock(path)
	if locked := new(file.Locked); errors.As(err, &locked) {
		done.Alive = append(done.Alive, path)
		return nil
	}
	if err != nil {
		return fmt.Errorf("clean: %w", err)
	}
	defer ledger.Close()
	text, err := io.ReadAll(ledger)
	if err != nil {
		return fmt.Errorf("clean: %w", err)
	}
	left, _, err := parseLedger(bufio.NewScanner(bytes.NewReader(text)))
	if err != nil {
		return fmt.Errorf("clean: ledger %s: %w", path, err)
	}
	failed := false
	for _, r := range left {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if dry {
			done.Removed = append(done.Removed, r.entry)
			continue
		}
		err := removeEntry(ctx, r.entry, platforms)
		if err != nil {
			failed = true
			done.Failed = append(done.Failed, CleanFailure{r.entry, err})
			continue
		}
		done.Removed = append(done.Removed, r.entry)
	}
	if failed || dry {
		return nil
	}
	if err := file.Unlock(ledger); err != nil {
		return fmt.Errorf("clean: %w", err)
	}
	return nil
}

func removeEntry(ctx context.Context, e platform.Entry, platforms func(string) (platform.Platform, error)) error {
	if e.Platform == hostEntry {
		return removeHostEntry(e)
	}
	p, err := platforms(e.Platform)
	if err != nil {
		return err
	}
	return p.Remove(ctx, e)
}
