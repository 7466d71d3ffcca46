package control

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise/output"
)

func TestLineWriter(t *testing.T) {
	long := strings.Repeat("x", output.MaxLine)
	for _, test := range []struct {
		name   string
		writes []string
		want   []string
	}{
		{"lines", []string{"a\nb\r\n\nc"}, []string{"a", "b", "", "c"}},
		{"a line in pieces", []string{"a", "b", "c\nd\n"}, []string{"abc", "d"}},
		{"a line that is too long", []string{long, long, "y\nz\n"}, []string{long, "z"}},
		{"nothing", []string{""}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			w := newLineWriter(func(line []byte) { got = append(got, string(line)) })
			for _, text := range test.writes {
				if n, err := io.WriteString(w, text); n != len(text) || err != nil {
					t.Errorf("Write = %d, %v", n, err)
				}
			}
			w.close()
			_, _ = io.WriteString(w, "after\n")
			w.close()
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestLineWriterDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		w := newLineWriter(func(line []byte) { got = append(got, string(line)) })
		for n := range output.MaxLinesPerSecond + 7 {
			fmt.Fprintln(w, n)
		}
		<-time.After(time.Second)
		fmt.Fprintln(w, "last")
		want := []string{fmt.Sprintf("7 lines dropped: more than %d a second", output.MaxLinesPerSecond), "last"}
		if diff := cmp.Diff(want, got[output.MaxLinesPerSecond:]); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}
