// Command lock makes the lock files of package image's recipes anew from what
// the distribution's archive has now:
//
//	go run ./image/lock                 all recipes, this host's architecture
//	go run ./image/lock -arch arm64 redis
//
// It needs root, apt and a network; look at the difference before committing.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"tare/image"
	"tare/terminal"
)

func main() {
	arch := flag.String("arch", runtime.GOARCH, "architecture, as Go names it")
	dir := flag.String("dir", "image/recipes", "where the lock files lie")
	store := flag.String("store", filepath.Join(os.TempDir(), "tare-lock"), "image store to work in; packages are kept there for the next time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	names := flag.Args()
	if len(names) == 0 {
		names = image.LockedRecipes()
	}
	if err := relock(ctx, *store, *dir, *arch, names); err != nil {
		terminal.Fprintln(os.Stderr, "lock:", err)
		stop()
		os.Exit(1)
	}
}

func relock(ctx context.Context, storeDir, dir, arch string, names []string) error {
	s, err := image.OpenStore(storeDir, func(line string) { terminal.Fprintln(os.Stderr, line) })
	if err != nil {
		return err
	}
	for _, name := range names {
		file, text, err := s.Relock(ctx, name, arch)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o644); err != nil {
			return err
		}
		fmt.Println(filepath.Join(dir, file))
	}
	return nil
}
