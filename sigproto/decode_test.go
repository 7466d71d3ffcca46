package sigproto

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// decodeFast decodes a body that arrives in pieces of that size, and reports whether the fast decoder read it.
func decodeFast(body []byte, piece int) (e Evaluation, fast bool, err error) {
	padded := append(append([]byte{}, body...), strings.Repeat("9", lookahead)...) // the bytes after the body must have no effect
	var d decoder
	d.reset()
	for n := 0; n < len(body); {
		n = min(n+piece, len(body))
		d.feed(padded[:n])
	}
	e, err = d.finish(padded[:len(body)])
	return e, d.state == done, err
}

func TestDecodeForms(t *testing.T) {
	series := func(values ...float64) Evaluation {
		s := Series{Name: "m", Values: values}
		for i := range values {
			s.Times = append(s.Times, int64(i+1))
		}
		return Evaluation{Timestamp: 7, Series: []Series{s}}
	}
	for _, test := range []struct {
		name, body string
		want       Evaluation
		fast       bool
	}{
		{"empty", `{"metrics":{},"timestamp":7}`, Evaluation{Timestamp: 7}, true},
		{"empty series", `{"metrics":{"m":[]},"timestamp":7}`, series(), true},
		{"Python's white space", `{"metrics": {"m": [[1, 0.5], [2, 2]]}, "timestamp": 7}`, series(0.5, 2), true},
		{"any white space", " {\n\"metrics\":\t{ \"m\" : [ [ 1 , 3 ] ] } , \"timestamp\" : 7 }\r\n", series(3), true},
		{"exponents and signs", `{"metrics":{"m":[[1,1e3],[2,-2E-2],[3,-0]]},"timestamp":7}`, series(1000, -0.02, math.Copysign(0, -1)), true},
		{"many digits", `{"metrics":{"m":[[1,0.1000000000000000055511151231257827],[2,123456789012345678901234567890]]},"timestamp":7}`,
			series(0.1, 123456789012345678901234567890), true},
		{"other order", `{"timestamp":7,"metrics":{"m":[[1,3]]}}`, series(3), false},
		{"escaped name", `{"metrics":{"\u006d":[[1,3]]},"timestamp":7}`, series(3), false},
		{"times with fractions", `{"metrics":{"m":[[1.9,3],[2.0,4]]},"timestamp":7e0}`, series(3, 4), false},
		{"unknown key", `{"metrics":{"m":[[1,3]]},"timestamp":7,"zone":[{}]}`,
			Evaluation{Timestamp: 7, Series: series(3).Series, Unknown: []string{"zone"}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, piece := range []int{1, 3, 1000} {
				got, fast, err := decodeFast([]byte(test.body), piece)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("in pieces of %d (-want +got):\n%s", piece, diff)
				}
				if fast != test.fast {
					t.Errorf("in pieces of %d: fast = %v, want %v", piece, fast, test.fast)
				}
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	values := map[string]string{"leading zero": "01", "no decimals": "1.", "no whole": ".5", "too large": "1e999", "string": `"1"`,
		"null": "null", "NaN": "NaN", "infinity": "Infinity", "plus": "+1", "no exponent": "1e", "two signs": "--1", "minus only": "-", "array": "[1]"}
	bodies := map[string]string{
		"one number":        `{"metrics":{"m":[[1]]},"timestamp":7}`,
		"three numbers":     `{"metrics":{"m":[[1,2,3]]},"timestamp":7}`,
		"time is a string":  `{"metrics":{"m":[["1",2]]},"timestamp":7}`,
		"time is too large": `{"metrics":{"m":[[1e15,2]]},"timestamp":7}`,
		"time goes back":    `{"metrics":{"m":[[2,2],[1,2]]},"timestamp":7}`,
		"null series":       `{"metrics":{"m":null},"timestamp":7}`,
		"series twice":      `{"metrics":{"m":[],"m":[]},"timestamp":7}`,
		"comma at the end":  `{"metrics":{"m":[[1,2],]},"timestamp":7}`,
	}
	for name, value := range values {
		bodies[name] = `{"metrics":{"m":[[1700000000,` + value + `]]},"timestamp":7}`
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			_, _, err := decodeFast([]byte(body), 1000)
			if err == nil || !strings.HasPrefix(err.Error(), "metrics.m: ") {
				t.Errorf("error = %v, want one that names metrics.m", err)
			}
		})
	}
	for name, body := range map[string]string{
		"nothing": "", "no metrics": `{"timestamp":7}`, "no timestamp": `{"metrics":{}}`, "timestamp null": `{"metrics":{},"timestamp":null}`,
		"metrics null": `{"metrics":null,"timestamp":7}`, "byte order mark": "\xef\xbb\xbf" + `{"metrics":{},"timestamp":7}`, "UTF-16": "{\x00}\x00", "array": `[]`, "cut": `{"metrics":{"m":[[1,2`, "two bodies": `{"metrics":{},"timestamp":7}{}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := decodeFast([]byte(body), 1000); err == nil {
				t.Error("no error")
			}
		})
	}
}

// The fast decoder reads what the encoder writes, for all values.
func TestRoundTrip(t *testing.T) {
	value := rapid.OneOf(
		rapid.Map(rapid.Uint64(), math.Float64frombits),
		rapid.Map(rapid.IntRange(-2_000_000_000, 2_000_000_000), func(n int) float64 { return float64(n) / 1e3 }),
		rapid.Map(rapid.Int64(), func(n int64) float64 { return float64(n) / 1e6 }),
		rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 99999.999, 99999.9996, 1e5, 1e-6, 1e-7, 1e21, 1 << 53, 1<<53 - 1, 1<<53 + 2,
			math.MaxFloat64, math.SmallestNonzeroFloat64, 0.1, 9007199254.740991}),
	).Filter(func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) })
	rapid.Check(t, func(t *rapid.T) {
		e := Evaluation{Timestamp: rapid.Int64Range(-1e12, 1e12).Draw(t, "timestamp")}
		for i := range rapid.IntRange(0, 3).Draw(t, "series") {
			s := Series{Name: string(rune('a' + i))}
			at := rapid.SampledFrom([]int64{-1e12, 0, 999_999_990, 1_700_000_000, 9_999_999_990}).Draw(t, "start")
			for range rapid.IntRange(0, 50).Draw(t, "points") {
				at += rapid.Int64Range(0, 100_000).Draw(t, "step")
				s.Times, s.Values = append(s.Times, at), append(s.Values, value.Draw(t, "value"))
			}
			e.Series = append(e.Series, s)
		}
		body, err := encodeJSON(e)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(body) {
			t.Fatalf("no JSON: %s", body)
		}
		got, fast, err := decodeFast(body, rapid.IntRange(1, 200).Draw(t, "piece"))
		if err != nil || !fast {
			t.Fatalf("fast = %v, error %v: %s", fast, err, body)
		}
		if diff := cmp.Diff(e, got, cmp.Comparer(sameBits)); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", body, diff)
		}
	})
}

// encodeJSON returns the body of a client without a cache.
func encodeJSON(e Evaluation) ([]byte, error) {
	pieces, err := encodePieces(e)
	return bytes.Join(pieces, nil), err
}

func encodePieces(e Evaluation) ([][]byte, error) {
	var c bodyCache
	return c.encode(nil, e)
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

func TestNames(t *testing.T) {
	for _, name := range []string{"", "plain", `quo"ted`, `back\slash`, "tab\t", "ünï", "<&>", "\x7f"} {
		body, err := encodeJSON(Evaluation{Series: []Series{{Name: name}}})
		if err != nil {
			t.Fatal(err)
		}
		e, _, err := decodeFast(body, 1000)
		if err != nil || e.Series[0].Name != name {
			t.Errorf("%q came back as %+v, %v", name, e, err)
		}
	}
}

// The fast decoder may give up, but its result must equal that of the slow one.
func FuzzBody(f *testing.F) {
	f.Add([]byte(goldenBody), 7)
	f.Add([]byte(`{"metrics": {"a": [[1700000000, 1.5], [1700000001, -2e-3]], "b": []}, "timestamp": 1}`), 1)
	f.Add([]byte(`{"metrics":{"a":[[1700000000,00.5]]},"timestamp":1}`), 50)
	f.Add([]byte(`{"metrics":{"a":[[1700000000,12345.678],[1700000000,0.1234567890123456789]]},"timestamp":1} `), 9)
	f.Fuzz(func(t *testing.T, body []byte, piece int) {
		if piece < 1 {
			piece = 1
		}
		got, _, err := decodeFast(body, piece)
		want, wantErr := decodeAny(body)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("fast returns %v, the other %v", err, wantErr)
		}
		if err == nil && !cmp.Equal(want, got, cmp.Comparer(sameBits)) {
			t.Fatal(cmp.Diff(want, got, cmp.Comparer(sameBits)))
		}
	})
}

func FuzzResponse(f *testing.F) {
	f.Add([]byte(goldenAnswer[1:]))
	f.Add([]byte(`{"Resources":{"cpus":NaN}}`))
	f.Add([]byte(`{"a":[[{}]],"Resources":{"cpus":null,"x":1}}`))
	f.Add([]byte(`{"Resources":{},"Verdict":"stale","Explanation":"no points\u001b[2J since\nnoon"}`))
	f.Add([]byte(`{"Resources":{"cpus":1,"mem":null,"disk":2e3,"gpus":0},"Explanation":"<b>"} `))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseResponse(data)
		var quick quickReader
		if fast, ok := quick.read(data); ok && (err != nil || !cmp.Equal(r, fast)) {
			t.Fatalf("quick returns %+v, the other %+v, %v", fast, r, err)
		}
		if err != nil {
			return
		}
		again, err := appendResponse(nil, r)
		if err != nil {
			t.Fatalf("accepted what is not valid: %v", err)
		}
		r.Unknown = nil
		if len(again) >= maxAnswer {
			t.Fatalf("a response of %d bytes cannot be sent", len(again))
		}
		if got, err := parseResponse(again); err != nil || !cmp.Equal(r, got) {
			t.Fatalf("%s came back as %+v, %v", again, got, err)
		}
	})
}

func FuzzHello(f *testing.F) {
	f.Add([]byte(goldenHello))
	f.Add([]byte(`{"parameters":{"pool":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := parseHello(data)
		if err != nil {
			return
		}
		if _, err := h.encode(); err != nil {
			t.Fatal(err)
		}
	})
}

// The end of an object does not depend on how it is split.
func FuzzFrame(f *testing.F) {
	f.Add([]byte(goldenAnswer[1:]+"rest"), 3)
	f.Add([]byte(" {\"a\\\"}\":[{}]} "), 1)
	f.Fuzz(func(t *testing.T, data []byte, piece int) {
		if piece < 1 {
			piece = 1
		}
		var whole, pieces frame
		n, _, err := whole.scan(data)
		total := 0
		for total < len(data) {
			k, pieceDone, pieceErr := pieces.scan(data[total:min(len(data), total+piece)])
			if pieceErr != nil {
				if err == nil {
					t.Fatalf("error %v only in pieces", pieceErr)
				}
				return
			}
			total += k
			if pieceDone {
				break
			}
		}
		if err != nil || n != total {
			t.Fatalf("ends after %d (%v), in pieces after %d", n, err, total)
		}
	})
}
