package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// maxBinary bounds the stripped binary of production, in bytes.
const maxBinary = 45_000_000

// The binary of production stays small: code that keeps the linker from dropping what is
// unused, such as html/template or a whole client of a cloud, shows here.
func TestWeirIsSmall(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "weir")
	build := exec.Command("go", "build", "-trimpath", "-tags=grpcnotrace", "-ldflags=-s -w", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > maxBinary {
		t.Errorf("weir has %d bytes, want at most %d", info.Size(), maxBinary)
	}
}
