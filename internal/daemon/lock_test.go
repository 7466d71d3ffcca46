package daemon

import (
	"os"
	"path/filepath"
	"testing"
)

// A crash may leave the file of a holder's name empty. The process then gets a new name and waits for the end of the
// old lease.
func TestHolderNameOfAnEmptyFile(t *testing.T) {
	dir := t.TempDir()
	first, err := HolderName(dir, "c", "p")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := HolderName(dir, "c", "p"); err != nil || again != first {
		t.Errorf("HolderName again = %q, %v, want %q", again, err, first)
	}
	if err := os.Truncate(filepath.Join(dir, "locks", "holder.c.p"), 0); err != nil {
		t.Fatal(err)
	}
	second, err := HolderName(dir, "c", "p")
	if err != nil || second == first {
		t.Errorf("HolderName of an empty file = %q, %v, want another name than %q", second, err, first)
	}
}
