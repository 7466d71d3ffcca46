package message

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestCause(t *testing.T) {
	beat := func(field, value string) []byte {
		return fmt.Appendf(nil, `{"dea":"n","droplets":[{"droplet":"a","version":"v","instance":"i","state":"RUNNING",%q:%s}]}`, field, value)
	}
	heartbeat := func(data []byte) error { _, err := DecodeHeartbeat(data); return err }
	start := func(data string) error { _, err := DecodeStart([]byte(data)); return err }
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"no JSON":                   {heartbeat([]byte("x")), "not_json"},
		"half a message":            {heartbeat([]byte(`{"dea":`)), "not_json"},
		"a strange error":           {errors.New("x"), "not_json"},
		"too long":                  {heartbeat([]byte(strings.Repeat(" ", maxBytes+1))), "too_long"},
		"a field":                   {heartbeat([]byte(`{"dea":{}}`)), "dea"},
		"a field of an element":     {heartbeat(beat("index", "-1")), "index"},
		"an element":                {heartbeat([]byte(`{"dea":"n","droplets":[3]}`)), "droplets"},
		"an element without fields": {start(`{"droplet":"a","indices":[-1]}`), "indices"},
		"a key of the sender's":     {start(`{"droplet":"a","indices":[],"running":{"mine]. .[":-1}}`), "running"},
	} {
		if got := Cause(tt.err); tt.err == nil || got != tt.want {
			t.Errorf("%s: Cause(%v) = %q, want %q", name, tt.err, got, tt.want)
		}
	}
}
