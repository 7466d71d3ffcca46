package testprograms_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
)

// TestWrite executes new programs while other goroutines start processes.
func TestWrite(t *testing.T) {
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for i := range 50 {
				path := filepath.Join(dir, fmt.Sprint(i))
				if err := testprograms.Write(path, "#!/bin/sh\n"); err != nil {
					t.Fatal(err)
				}
				if err := exec.Command(path).Run(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
