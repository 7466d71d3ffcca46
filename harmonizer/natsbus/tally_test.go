package natsbus

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTallyLogsEachNameOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := newTally(slog.New(slog.NewTextHandler(&out, nil)))
		for range 3 {
			c.warn("a", "went wrong", errors.New("x"))
			c.warn("b", "went wrong", errors.New("x"))
		}
		if n := strings.Count(out.String(), "went wrong"); n != 2 {
			t.Errorf("%d lines, want one for each name:\n%s", n, &out)
		}
		<-time.After(time.Minute)
		c.warn("a", "went wrong", errors.New("x"))
		if !strings.Contains(out.String(), "so_far=4") {
			t.Errorf("a minute later nothing is logged:\n%s", &out)
		}
		if got := c.snapshot(); got["a"] != 4 || got["b"] != 3 {
			t.Errorf("counters %v", got)
		}
	})
}
