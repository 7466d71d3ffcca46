package influx

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/metrics"
)

func query() boundedQuery {
	return boundedQuery{
		Query: metrics.Query{Type: metrics.System, Name: "m"},
		from:  1_700_000_000, to: 1_700_000_060, maxPoints: 3, maxSeries: 2,
	}
}

func TestNumber(t *testing.T) {
	for _, tt := range []struct {
		value any
		want  float64
		ok    bool
	}{
		{json.Number("-0.1"), -0.1, true}, {json.Number("-3"), -3, true}, {json.Number("18446744073709551615"), 1 << 64, true}, {true, 1, true}, {false, 0, true},
		{json.Number("1e999"), 0, false}, {[]any{}, 0, false},
	} {
		if got, err := number(tt.value); (err == nil) != tt.ok || got != tt.want {
			t.Errorf("number(%v) = %v, %v, want %v", tt.value, got, err, tt.want)
		}
	}
}

// read reads a response to a statement.
func read(q boundedQuery, text string) ([]metrics.Series, error) {
	w := q.window()
	if err := w.readJSON(strings.NewReader(text), false); err != nil {
		return nil, err
	}
	return w.answer(), nil
}

// A response is complete, or an error.
func TestAnswers(t *testing.T) {
	series := func(rows, more string) string {
		return `{"results":[{"statement_id":0,"series":[{"name":"system_metrics","tags":{"zone":"a","other":""},"columns":["time","m"],"values":[` + rows + `]` + more + `}]}]}`
	}
	const row = `[1700000000500,1.5]`
	for name, test := range map[string]struct {
		text string
		want error // nil: one point
	}{
		"complete":            {series(row, ""), nil},
		"a null":              {series(row+`,[1700000001000,null]`, ""), nil},
		"other keys":          {`{"more":{"a":[1]},` + series(row, "")[1:], nil},
		"ends early":          {series(row, "")[:100], io.ErrUnexpectedEOF},
		"goes on":             {series(row, "") + series(row, ""), ErrBadAnswer},
		"left out":            {series(row, `,"partial":true`), ErrBadAnswer},
		"left out of results": {`{"results":[{"partial":true}]}`, ErrBadAnswer},
		"no database":         {`{"results":[{"statement_id":0,"error":"database not found: x"}]}`, ErrNoBucket},
		"an error of all":     {`{"error":"not authorized"}`, ErrUnauthorized},
		"a text":              {series(`[1700000000000,"fine"]`, ""), ErrBadAnswer},
		"a list":              {series(`[1700000000000,[1]]`, ""), ErrBadAnswer},
		"another number":      {series(`[1700000000000,1e999]`, ""), ErrBadAnswer},
		"another time":        {series(`[1600000000000,1]`, ""), ErrBadAnswer},
		"no time":             {series(`[null,1]`, ""), ErrBadAnswer},
		"a long row":          {series(`[1700000000000,1,2]`, ""), ErrBadAnswer},
		"an empty row":        {series(`[]`, ""), ErrBadAnswer},
		"another metric":      {strings.Replace(series(row, ""), `"m"`, `"n"`, 1), ErrBadAnswer},
		"another measurement": {strings.Replace(series(row, ""), "system_metrics", "web", 1), ErrBadAnswer},
		"no columns":          {strings.Replace(series(row, ""), "columns", "colums", 1), ErrBadAnswer},
		"many points":         {series(row+","+row+","+row+","+row, ""), ErrTooLarge},
		"not JSON":            {"<html>", ErrBadAnswer},
		"another type":        {`{"results":{}}`, ErrBadAnswer},
		"another name":        {strings.Replace(series(row, ""), `"system_metrics"`, `7`, 1), ErrBadAnswer},
		"nothing":             {"", io.EOF},
	} {
		got, err := read(query(), test.text)
		if !errors.Is(err, test.want) || err == nil && (len(got) != 1 || fmt.Sprint(got[0].Dimensions, got[0].Times, got[0].Values) != "map[zone:a] [1700000000] [1.5]") {
			t.Errorf("%s: %v, %v, want %v", name, got, err, test.want)
		}
	}
}

// FuzzAnswer: an accepted response is a valid window.
func FuzzAnswer(f *testing.F) {
	f.Add(`{"results":[{"series":[{"name":"system_metrics","tags":{"a":"b"},"columns":["time","m"],"values":[[1700000000500,1.5],[1700000001000,true]]}]}]}`, false)
	f.Fuzz(func(t *testing.T, text string, regex bool) {
		q := query()
		q.maxPoints, q.maxSeries = 100, 10
		if regex {
			q.Type, q.pattern = metrics.App, regexp.MustCompile(".")
		}
		got, err := read(q, text)
		for _, s := range got {
			for j, at := range s.Times {
				if err != nil || len(s.Times) != len(s.Values) || at < q.from || at > q.to || j > 0 && at < s.Times[j-1] || s.Values[j]-s.Values[j] != 0 {
					t.Fatalf("%q gives %v, %v", text, got, err)
				}
			}
		}
	})
}

// A truncated response is never a window.
func TestPartOfAResponse(t *testing.T) {
	const whole = `{"results":[{"statement_id":0,"series":[{"name":"system_metrics","tags":{"zone":"a"},"columns":["time","m"],"values":[[1700000000500,1.5]]}]}]}`
	for n := range len(whole) {
		if got, err := read(query(), whole[:n]); err == nil {
			t.Fatalf("%d of %d bytes = %v, want an error", n, len(whole), got)
		}
	}
}

func TestServerErrors(t *testing.T) {
	tests := map[string]struct {
		err    answerError
		want   error
		passes bool
		late   bool
	}{
		"wrong token":                 {answerError{401, "authorization failed"}, ErrUnauthorized, false, false},
		"not allowed":                 {answerError{500, `user "x", requires READ for database "db"`}, ErrUnauthorized, false, false},
		"no database, reading 1.8":    {answerError{500, "failed to initialize execute state: no database"}, ErrNoBucket, false, false},
		"no database, writing 1.8":    {answerError{404, `database not found: "x"`}, ErrNoBucket, false, false},
		"no policy, writing 1.8":      {answerError{500, "retention policy not found: x"}, ErrNoBucket, false, false},
		"no bucket, reading 2":        {answerError{404, `failed to initialize execute state: could not find bucket "x"`}, ErrNoBucket, false, false},
		"partial":                     {answerError{400, "partial write: field type conflict: ... dropped=1"}, ErrPartial, false, false},
		"late, 1.8":                   {answerError{400, "partial write: points beyond retention policy dropped=1"}, ErrPartial, false, true},
		"late, 2":                     {answerError{422, "partial write: dropped 1 points outside retention policy of duration 1h0m0s"}, ErrPartial, false, true},
		"busy":                        {answerError{429, ""}, nil, true, false},
		"behind a proxy that is lost": {answerError{502, ""}, nil, true, false},
		"engine":                      {answerError{500, "timeout"}, nil, true, false},
		"bad request":                 {answerError{400, "unable to parse"}, nil, false, false},
		"redirect":                    {answerError{307, ""}, nil, false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []error{ErrUnauthorized, ErrNoBucket, ErrPartial} {
				if errors.Is(&tt.err, kind) != (kind == tt.want) {
					t.Errorf("%v: is %v is %v", &tt.err, kind, kind != tt.want)
				}
			}
			if tt.err.passes() != tt.passes || tt.err.late() != tt.late {
				t.Errorf("passes, late = %v, %v, want %v, %v", tt.err.passes(), tt.err.late(), tt.passes, tt.late)
			}
			if text := fmt.Sprint(&tt.err); !strings.Contains(text, fmt.Sprint(tt.err.Status)) {
				t.Errorf("%q does not name the status", text)
			}
		})
	}
}

func TestBoundedBody(t *testing.T) {
	end := errors.New("end")
	for size, want := range map[int]error{9: nil, 10: nil, 11: end} {
		body := &boundedBody{io.NopCloser(strings.NewReader(strings.Repeat("x", size))), 10, end}
		got, err := io.ReadAll(body)
		if !errors.Is(err, want) || len(got) != min(size, 10) {
			t.Errorf("%d bytes: read %d, %v, want %v", size, len(got), err, want)
		}
	}
}
