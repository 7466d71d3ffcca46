package daemon

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A crash may leave the file of a holder's name empty. The process then gets a new name and waits for the end of the
// old lease.
func TestHolderNameOfAnEmptyFile(t *testing.T) {
	dir := t.TempDir()
	first, err := HolderName(slog.New(slog.DiscardHandler), dir, "c", "p")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := HolderName(slog.New(slog.DiscardHandler), dir, "c", "p"); err != nil || again != first {
		t.Errorf("HolderName again = %q, %v, want %q", again, err, first)
	}
	if err := os.Truncate(filepath.Join(dir, "locks", "holder.c.p"), 0); err != nil {
		t.Fatal(err)
	}
	second, err := HolderName(slog.New(slog.DiscardHandler), dir, "c", "p")
	if err != nil || second == first {
		t.Errorf("HolderName of an empty file = %q, %v, want another name than %q", second, err, first)
	}
}

// A damaged file is set aside, with one line, and the process gets a new name.
func TestHolderNameOfADamagedFile(t *testing.T) {
	for name, content := range map[string]string{"random": "\x00\xff{garbage", "long": strings.Repeat("a", 1<<20), "short": "abc", "spaces": "not hexadecimal, but of this size"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "locks", "holder.c.p")
			if err := WriteFile(path, []byte(content)); err != nil {
				t.Fatal(err)
			}
			var lines bytes.Buffer
			log := slog.New(slog.NewTextHandler(&lines, nil))
			first, err := HolderName(log, dir, "c", "p")
			if err != nil || strings.Count(lines.String(), "\n") != 1 || !strings.Contains(lines.String(), path+".damaged-") {
				t.Errorf("HolderName = %q, %v, with the log %q", first, err, lines.String())
			}
			if again, err := HolderName(log, dir, "c", "p"); err != nil || again != first {
				t.Errorf("HolderName again = %q, %v, want %q", again, err, first)
			}
		})
	}
}
