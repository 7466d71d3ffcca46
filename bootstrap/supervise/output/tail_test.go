package output

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func texts(lines []Line) (all []string) {
	for _, l := range lines {
		all = append(all, fmt.Sprintf("%d %s %s", l.Seq, l.Stream, l.Text))
	}
	return all
}

func TestTail(t *testing.T) {
	tests := []struct {
		name         string
		lines, bytes int
		add          []string
		since        uint64
		want         []string
	}{
		{"nothing", 3, 100, nil, 0, nil},
		{"few", 3, 100, []string{"a", "b"}, 0, []string{"1 stdout a", "2 stdout b"}},
		{"more than lines", 3, 100, []string{"a", "b", "c", "d", "e"}, 0, []string{"3 stdout c", "4 stdout d", "5 stdout e"}},
		{"more than bytes", 9, 5, []string{"aaa", "bb", "cc", ""}, 0, []string{"2 stdout bb", "3 stdout cc", "4 stdout "}},
		{"one line over all bytes", 9, 5, []string{"a", "bbbbbbb"}, 0, []string{"2 stdout bbbbb"}},
		{"no room asked for", 0, 0, []string{"a", "bb"}, 0, []string{"2 stdout b"}},
		{"since a line", 9, 100, []string{"a", "b", "c"}, 2, []string{"3 stdout c"}},
		{"since the last", 9, 100, []string{"a", "b"}, 2, nil},
		{"since one that is lost", 2, 100, []string{"a", "b", "c", "d"}, 1, []string{"3 stdout c", "4 stdout d"}},
		{"since the future", 9, 100, []string{"a"}, 7, nil},
		{"since the end of numbers", 9, 100, []string{"a"}, 1<<64 - 1, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tail := NewTail(test.lines, test.bytes)
			for _, line := range test.add {
				tail.Add(Stdout, []byte(line))
			}
			got, _ := tail.Since(test.since)
			if diff := cmp.Diff(test.want, texts(got)); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}

// The stored lines are the last ones, within both bounds.
func TestTailProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines, bytes := rapid.IntRange(1, 8).Draw(t, "lines"), rapid.IntRange(1, 64).Draw(t, "bytes")
		tail := NewTail(lines, bytes)
		var all []string
		for _, text := range rapid.SliceOf(rapid.StringN(0, 40, 100)).Draw(t, "texts") {
			tail.Add(Stderr, []byte(text))
			all = append(all, text[:min(len(text), bytes)])
			kept, _ := tail.Since(0)
			size := 0
			for i, line := range kept {
				size += len(line.Text)
				if seq := len(all) - len(kept) + i; line.Text != all[seq] || line.Seq != uint64(seq)+1 {
					t.Fatalf("line %d of %d is %+v, want %q", i, len(kept), line, all[seq])
				}
			}
			if len(kept) == 0 || len(kept) > lines || size > bytes {
				t.Fatalf("%d lines, %d bytes, bounds %d, %d", len(kept), size, lines, bytes)
			}
		}
	})
}

// A reader that follows a tail receives each line once, in order.
func TestTailIsFollowed(t *testing.T) {
	const n = 1000
	tail := NewTail(n, n*10)
	var following sync.WaitGroup
	for range 3 {
		following.Go(func() {
			for seen := uint64(0); seen < n; {
				lines, more := tail.Since(seen)
				for _, line := range lines {
					if line.Seq != seen+1 {
						t.Errorf("line %d follows %d", line.Seq, seen)
					}
					seen = line.Seq
				}
				if len(lines) == 0 {
					<-more
				}
			}
		})
	}
	var adding sync.WaitGroup
	for _, stream := range []string{Stdout, Stderr} {
		adding.Go(func() {
			for range n / 2 {
				tail.Add(stream, []byte("x"))
			}
		})
	}
	adding.Wait()
	following.Wait()
}
