package mount_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"tare/kernel/filesystem/fusetest"
	"tare/kernel/mount"
)

func TestAnswers(t *testing.T) {
	if !fusetest.Apart(t) {
		return
	}
	s := fusetest.Mount(t, 4096)
	missing := filepath.Join(s.Directory, "a", "b")
	for _, path := range []string{"/", "/proc/nothing/here", s.Directory, s.File(), missing} {
		if err := mount.Answers(t.Context(), path, time.Minute); err != nil {
			t.Error(err)
		}
	}
	s.Silence()
	for _, path := range []string{s.Directory, s.File(), missing} {
		err := mount.Answers(t.Context(), path, 100*time.Millisecond)
		if silent := new(mount.NoAnswer); !errors.As(err, &silent) || silent.Path != path {
			t.Errorf("%s: %v", path, err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := errors.New("ended")
		time.AfterFunc(10*time.Millisecond, func() { cancel(ended) })
		if err := mount.Answers(ctx, path, time.Minute); !errors.Is(err, ended) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := mount.Answers(t.Context(), "/", time.Minute); err != nil {
		t.Errorf("another file system: %v", err)
	}
}
