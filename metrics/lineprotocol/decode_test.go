package lineprotocol

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	influx "github.com/influxdata/line-protocol/v2/lineprotocol"
)

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"m value=1 1", "m,a=b,app=c x=1i,y=2u,z=t\n", "# c\r\n\r\nm\\,n,a\\ =\\=b v=-.5e3 5\n", `m v="x\"` + "\n" + `y"`,
		"m v=", "m,a", ",", "\\", "\r", "m v=1\r1", "m v=1 9223372036854775807", "\x00#",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		kept := bytes.Clone(body)
		b, err := decoder{app: "web", precision: influx.Second, now: time.Unix(1, 0)}.decode(body)
		if !bytes.Equal(kept, body) {
			t.Error("the body was changed")
		}
		if err != nil {
			if line, ok := errors.AsType[*lineError](err); !ok || line.line < 1 || line.line > 1+bytes.Count(body, []byte("\n")) {
				t.Errorf("%v, want a line of %d bytes", err, len(body))
			}
			return
		}
		if len(b.samples) != len(b.lines) {
			t.Errorf("%d samples of %d lines", len(b.samples), len(b.lines))
		}
		for _, s := range b.samples {
			if s.Name == "" || math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
				t.Errorf("sample %+v", s)
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	body := bytes.Repeat([]byte("requests,zone=a,host=web-1 value=120.5,errors=3i 1700000000\n"), 1000)
	d := decoder{app: "web", precision: influx.Second, now: time.Unix(1, 0)}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.decode(body); err != nil {
			b.Fatal(err)
		}
	}
}
