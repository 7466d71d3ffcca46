package integrity

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func open(t *testing.T, path string) *seen {
	t.Helper()
	s, err := openSeen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func note(t *testing.T, s *seen, lines ...line) {
	t.Helper()
	if err := s.storeLines(lines...); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedLinesAreIgnored truncates the file at each length and inverts each of its bytes. The result of
// reading is the written data, or less.
func TestDamagedLinesAreIgnored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seen", "apps.jsonl")
	created := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	s := open(t, path)
	note(t, s, line{Created: &created}, line{Key: "web", Revision: 3})
	note(t, s, line{Key: "api", Revision: 4}, line{Key: "web", Revision: 5, Deleted: true})
	want := maps.Clone(s.keys)
	if again := open(t, path); !maps.Equal(again.keys, want) || again.last != 5 || !again.created.Equal(created) {
		t.Fatalf("read %v, last %d, created %v, want what was written", again.keys, again.last, again.created)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	written := map[string][]seenKey{"web": {{3, false}, {5, true}}, "api": {{4, false}}}
	check := func(what string, at int, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, path)
		for key, k := range s.keys {
			known := false
			for _, w := range written[key] {
				known = known || w == k
			}
			if !known {
				t.Fatalf("%s at %d: read %v of %s, which was never written", what, at, k, key)
			}
		}
		if s.last > 5 || !s.created.IsZero() && !s.created.Equal(created) {
			t.Fatalf("%s at %d: last %d, created %v", what, at, s.last, s.created)
		}
		note(t, s, line{Key: "job", Revision: 9})
		if again := open(t, path); again.keys["job"] != (seenKey{9, false}) || again.bad != 0 {
			t.Fatalf("%s at %d: what is noted after it is not read", what, at)
		}
	}
	for i := range whole {
		check("cut", i, whole[:i])
		flipped := append([]byte{}, whole...)
		flipped[i] ^= 0xff
		check("flipped", i, flipped)
	}
}

// TestFileSizeIsProportionalToKeys changes one key many times.
func TestFileSizeIsProportionalToKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "apps.jsonl")
	s := open(t, path)
	for revision := range uint64(10 * maxObsoleteLines) {
		note(t, s, line{Key: "web", Revision: revision + 1})
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if most := int64(2 * maxObsoleteLines * 100); info.Size() > most {
		t.Errorf("the file has %d bytes, want at most %d", info.Size(), most)
	}
	if again := open(t, path); again.keys["web"].revision != 10*maxObsoleteLines {
		t.Errorf("read revision %d, want %d", again.keys["web"].revision, 10*maxObsoleteLines)
	}
}

// TestLostOrOlderDataIsAProblem lists valid and invalid changes.
func TestLostOrOlderDataIsAProblem(t *testing.T) {
	created := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	before := []line{{Created: &created}, {Key: "web", Revision: 3}, {Key: "gone", Revision: 5, Deleted: true}}
	for name, tt := range map[string]struct {
		contents Contents
		problems []string // the keys; "": the bucket
	}{
		"as it was":            {Contents{Created: created, Last: 5, Keys: []Key{{Name: "web", Revision: 3}, {Name: "gone", Revision: 5, Deleted: true}}}, nil},
		"newer":                {Contents{Created: created, Last: 9, Keys: []Key{{Name: "web", Revision: 8}, {Name: "new", Revision: 9}}}, nil},
		"the marker is purged": {Contents{Created: created, Last: 5, Keys: []Key{{Name: "web", Revision: 3}}}, nil},
		"deleted later":        {Contents{Created: created, Last: 6, Keys: []Key{{Name: "web", Revision: 6, Deleted: true}}}, nil},
		"written again":        {Contents{Created: created, Last: 6, Keys: []Key{{Name: "web", Revision: 3}, {Name: "gone", Revision: 6}}}, nil},
		"a key is gone":        {Contents{Created: created, Last: 5, Keys: nil}, []string{"web"}},
		"an older row":         {Contents{Created: created, Last: 9, Keys: []Key{{Name: "web", Revision: 2}}}, []string{"web"}},
		"a deleted row":        {Contents{Created: created, Last: 5, Keys: []Key{{Name: "web", Revision: 3}, {Name: "gone", Revision: 2}}}, []string{"gone"}},
		"cut short":            {Contents{Created: created, Last: 4, Keys: []Key{{Name: "web", Revision: 3}}}, []string{""}},
		"unreadable":           {Contents{Created: created, Last: 5, Keys: []Key{{Name: "web", Damaged: true}}}, []string{"web"}},
		"created again":        {Contents{Created: created.Add(1), Last: 1, Keys: []Key{{Name: "new", Revision: 1}}}, []string{"web"}},
		"created again, and written": {
			Contents{Created: created.Add(1), Last: 1, Keys: []Key{{Name: "web", Revision: 1}}}, nil},
		"an older bucket": {Contents{Created: created.Add(-1), Last: 99, Keys: []Key{{Name: "web", Revision: 98}, {Name: "old", Revision: 99}}}, []string{"", "old", "web"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, "")
			note(t, s, before...)
			var got []string
			for _, p := range sorted(s.check("b", nil, tt.contents)) {
				got = append(got, p.Key)
			}
			if len(got) != len(tt.problems) {
				t.Fatalf("problems of %q, want of %q", got, tt.problems)
			}
			for i := range got {
				if got[i] != tt.problems[i] {
					t.Errorf("problems of %q, want of %q", got, tt.problems)
				}
			}
		})
	}
}
