package tsdbstore_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/embedded/tsdbstore"
)

// A store with damaged files opens and accepts samples. It moves unreadable files aside without deleting them.
func TestDamagedStoreOpens(t *testing.T) {
	write := func(t *testing.T, data string, path ...string) {
		t.Helper()
		at := filepath.Join(path...)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const block = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		aside  string // pattern of the moved files; empty: the database repairs the damage
	}{
		"garbage in the log": {func(t *testing.T, dir string) { write(t, "garbage garbage garbage", dir, "wal", "00000000") }, ""},
		"an empty log":       {func(t *testing.T, dir string) { write(t, "", dir, "wal", "00000000") }, ""},
		"a log with a gap":   {func(t *testing.T, dir string) { write(t, "", dir, "wal", "00000007") }, "wal.damaged-*"},
		"no folder of the log": {func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, "wal")); err != nil {
				t.Fatal(err)
			}
			write(t, "", dir, "wal")
		}, "wal.damaged-*"},
		"garbage in the head": {func(t *testing.T, dir string) { write(t, "garbage garbage", dir, "chunks_head", "000001") }, ""},
		"a block cut short":   {func(t *testing.T, dir string) { write(t, "{", dir, block, "meta.json") }, ""},
		"a block without index": {func(t *testing.T, dir string) {
			write(t, `{"version":1,"ulid":"`+block+`","minTime":1,"maxTime":2,"compaction":{"level":1,"sources":["`+block+`"]}}`, dir, block, "meta.json")
		}, block + ".damaged-*"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store, err := tsdbstore.Open(dir, tsdbstore.Config{Log: discard()})
			if err != nil {
				t.Fatal(err)
			}
			sample := []metrics.Sample{{Type: metrics.System, Name: "m", Time: time.Now().Add(-time.Minute), Value: 1}}
			if err := store.Write(t.Context(), sample); err != nil {
				t.Fatal(err)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			c.damage(t, dir)
			again := open(t, dir)
			sample[0].Time = time.Now()
			if err := again.Write(t.Context(), sample); err != nil {
				t.Fatal(err)
			}
			got, err := again.Window(t.Context(), metrics.Query{Type: metrics.System, Name: "m", From: sample[0].Time.Add(-time.Second), To: sample[0].Time.Add(time.Second)})
			if err != nil || len(got) != 1 {
				t.Errorf("window after the damage: %v, %v, want the new sample", got, err)
			}
			if c.aside == "" {
				return
			}
			if aside, err := filepath.Glob(filepath.Join(dir, c.aside)); err != nil || len(aside) != 1 {
				entries, _ := os.ReadDir(dir)
				t.Errorf("set aside: %q, %v of %v, want %s", aside, err, entries, c.aside)
			}
		})
	}
}
