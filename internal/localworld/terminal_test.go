package localworld

import (
	"bytes"
	"io"
	"testing"
	"time"
)

func TestTerminalThatIsNotRead(t *testing.T) {
	r, w := io.Pipe() // no reader
	defer r.Close()
	term := newTerminal(w)
	for range 1000 {
		if n, err := term.Write([]byte("tick\n")); n != 5 || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	term.close(time.Millisecond)
}

func TestTerminalThatIsRead(t *testing.T) {
	var out bytes.Buffer
	term := newTerminal(&out)
	for _, line := range []string{"one\n", "two\n"} {
		if _, err := term.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	term.close(time.Minute)
	if got := out.String(); got != "one\ntwo\n" {
		t.Errorf("it was given %q", got)
	}
}
