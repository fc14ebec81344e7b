package box

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"tare/annex/bound"
	"tare/platform"
)

// What a killed annexd had claimed is removed with its box, and what another has is not.
func TestAClaimGoesWithItsBox(t *testing.T) {
	before := claims
	defer func() { claims = before }()
	claims = t.TempDir()
	layout, err := bound.New(bound.Options{})
	if err != nil {
		t.Skip(err)
	}
	others, err := layout.Claim(claims)
	if err != nil {
		t.Fatal(err)
	}
	s := plain
	s.Extend = platform.ExtendAnnex
	for _, kind := range []platform.BoxKind{platform.BoxGroup, platform.BoxMachine} {
		s.Kind = kind
		dir := filepath.Join(t.TempDir(), extendDirectory, s.Name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		config, err := configuration(s, dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, configFile), []byte(config.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		left := filepath.Join(claims, "defended-%2Ftare%2F"+s.Name+".lock")
		if kind == platform.BoxGroup {
			if err := os.WriteFile(left, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := removeExtension(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: what was left is there still: %v", kind, err)
		}
	}
	if files, err := filepath.Glob(filepath.Join(claims, "*")); err != nil || len(files) != 1 {
		t.Errorf("%q, %v: want the one of who has it", files, err)
	}
	if err := others.Close(); err != nil {
		t.Error(err)
	}
}
