package influx

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// Parts of responses of influxd 1.8.10.
const (
	head = "#datatype,string,long,dateTime:RFC3339,double,string\r\n#group,false,false,false,false,true\r\n" +
		"#default,points,,,,\r\n,result,table,_time,_value,zone\r\n"
	rowA = ",,0,2023-11-14T22:13:20Z,1.5,a\r\n,,0,2023-11-14T22:13:21.5Z,2,a\r\n"
	rowB = ",,1,2023-11-14T22:13:20Z,-3e-9,b\r\n"
	tail = "\r\n#datatype,string,long,string\r\n#group,false,false,false\r\n#default,points_end,,\r\n,result,table,end\r\n,,0,end\r\n\r\n"
	oops = "\r\n#datatype,string,string\r\n#group,true,true\r\n#default,,\r\n,error,reference\r\n,engine: shard is gone,\r\n"
)

func query() boundedQuery {
	return boundedQuery{
		Query: metrics.Query{Type: metrics.System, Name: "m"},
		from:  1_700_000_000, to: 1_700_000_060, maxPoints: 3, maxSeries: 2,
	}
}

func read(q boundedQuery, text string) ([]metrics.Series, error) {
	w := q.window()
	if err := w.read(strings.NewReader(text)); err != nil {
		return nil, err
	}
	return w.answer(), nil
}

func TestAnswer(t *testing.T) {
	zone := func(z string) metrics.Dimensions { return metrics.Dimensions{"zone": z} }
	a := metrics.Series{Name: "m", Dimensions: zone("a"), Times: []int64{1_700_000_000, 1_700_000_001}, Values: []float64{1.5, 2}}
	b := metrics.Series{Name: "m", Dimensions: zone("b"), Times: []int64{1_700_000_000}, Values: []float64{-3e-9}}
	tests := map[string]struct {
		text string
		want []metrics.Series
		err  error
	}{
		"two tables":              {head + rowA + rowB + tail, []metrics.Series{a, b}, nil},
		"nothing":                 {tail, nil, nil},
		"in another order":        {head + rowB + ",,0,2023-11-14T22:13:21.5Z,2,a\r\n,,0,2023-11-14T22:13:20Z,1.5,a\r\n" + tail, []metrics.Series{a, b}, nil},
		"a table comes again":     {head + rowB + tail + head + rowA + tail, []metrics.Series{a, b}, nil},
		"without its end":         {head + rowA + rowB, nil, ErrBadAnswer},
		"empty":                   {"\r\n", nil, ErrBadAnswer},
		"an empty cell":           {`""`, nil, ErrBadAnswer},
		"no CSV":                  {"<html>\"</html>\n", nil, ErrBadAnswer},
		"not a number":            {head + ",,0,2023-11-14T22:13:20Z,NaN,a\r\n" + tail, nil, ErrBadAnswer},
		"infinite":                {head + ",,0,2023-11-14T22:13:20Z,-Inf,a\r\n" + tail, nil, ErrBadAnswer},
		"no value":                {head + ",,0,2023-11-14T22:13:20Z,,a\r\n" + tail, nil, ErrBadAnswer},
		"no time":                 {head + ",,0,,1,a\r\n" + tail, nil, ErrBadAnswer},
		"time before":             {head + ",,0,2023-11-14T22:13:19Z,1,a\r\n" + tail, nil, ErrBadAnswer},
		"time after":              {head + ",,0,2023-11-14T22:14:21Z,1,a\r\n" + tail, nil, ErrBadAnswer},
		"short row":               {head + ",,0,2023-11-14T22:13:20Z,1\r\n" + tail, nil, ErrBadAnswer},
		"text":                    {strings.Replace(head, "double", "string", 1) + rowA + tail, nil, ErrBadAnswer},
		"unknown type":            {strings.Replace(head, "double", "duration", 1) + rowA + tail, nil, ErrBadAnswer},
		"unknown annotation":      {strings.Replace(head, "#group", "#grope", 1) + rowA + tail, nil, ErrBadAnswer},
		"no value column":         {strings.Replace(head, "_value", "value", 1) + rowA + tail, nil, ErrBadAnswer},
		"no annotations":          {",result,table,_time,_value\r\n" + rowA + tail, nil, ErrBadAnswer},
		"another metric":          {strings.Replace(head, ",zone", ",_field", 1) + rowA + tail, nil, ErrBadAnswer},
		"too many points":         {head + rowA + rowB + rowB + tail, nil, ErrTooLarge},
		"too many series":         {head + rowA + rowB + ",,2,2023-11-14T22:13:20Z,1,c\r\n" + tail, nil, ErrTooLarge},
		"a line without end":      {head + ",,0,2023-11-14T22:13:20Z,1," + strings.Repeat("a", 2*maxRecord), nil, ErrTooLarge},
		"a quote without end":     {head + ",,0,2023-11-14T22:13:20Z,1,\"" + strings.Repeat("a\n", maxRecord), nil, ErrTooLarge},
		"error after some points": {head + rowA + oops, nil, &answerError{Status: 200, Message: "engine: shard is gone"}},
		"error after the end":     {head + rowA + tail + oops, nil, &answerError{Status: 200, Message: "engine: shard is gone"}},
		"error of the bucket":     {strings.Replace(oops, "engine: shard is gone", `could not find bucket ""x""`, 1), nil, ErrBadAnswer},
		"error without a text":    {head + rowA + tail + "\r\n#datatype,string,string\r\n,error,reference\r\n", nil, ErrBadAnswer},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := read(query(), tt.text)
			if want, ok := errors.AsType[*answerError](tt.err); ok {
				if got, ok := errors.AsType[*answerError](err); !ok || *got != *want {
					t.Errorf("read = %v, want %v", err, want)
				}
				return
			}
			if !errors.Is(err, tt.err) {
				t.Errorf("read = %v, want %v", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("window (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPartOfAResponse: a truncated response is never a window.
func TestPartOfAResponse(t *testing.T) {
	whole := head + rowA + rowB + tail
	enough := strings.LastIndex(whole, "end") + len("end") // only line breaks follow it
	for n := range enough {
		if got, err := read(query(), whole[:n]); !errors.Is(err, ErrBadAnswer) {
			t.Fatalf("%d of %d bytes = %v, %v, want ErrBadAnswer", n, len(whole), got, err)
		}
	}
}

func TestNumber(t *testing.T) {
	tests := map[string]struct {
		kind, text string
		want       float64
	}{
		"double": {"double", "-0.1", -0.1}, "long": {"long", "-3", -3}, "unsigned": {"unsignedLong", "18446744073709551615", 1 << 64},
		"true": {"boolean", "true", 1}, "false": {"boolean", "false", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got, err := number(tt.kind, tt.text); err != nil || got != tt.want {
				t.Errorf("number(%s, %s) = %v, %v, want %v", tt.kind, tt.text, got, err, tt.want)
			}
		})
	}
}

// FuzzAnswer: an accepted response is a valid window.
// readQL reads a response to a statement of InfluxQL.
func readQL(q boundedQuery, text string) ([]metrics.Series, error) {
	w := q.window()
	if err := w.readJSON(strings.NewReader(text), false); err != nil {
		return nil, err
	}
	return w.answer(), nil
}

// A response of InfluxQL is complete, or an error.
func TestInfluxQLAnswers(t *testing.T) {
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
		got, err := readQL(query(), test.text)
		if !errors.Is(err, test.want) || err == nil && (len(got) != 1 || fmt.Sprint(got[0].Dimensions, got[0].Times, got[0].Values) != "map[zone:a] [1700000000] [1.5]") {
			t.Errorf("%s: %v, %v, want %v", name, got, err, test.want)
		}
	}
}

func FuzzInfluxQLAnswer(f *testing.F) {
	f.Add(`{"results":[{"series":[{"name":"system_metrics","tags":{"a":"b"},"columns":["time","m"],"values":[[1700000000500,1.5],[1700000001000,true]]}]}]}`, false)
	f.Fuzz(func(t *testing.T, text string, regex bool) {
		q := query()
		q.maxPoints, q.maxSeries = 100, 10
		if regex {
			q.Type, q.pattern = metrics.App, regexp.MustCompile(".")
		}
		got, err := readQL(q, text)
		for _, s := range got {
			for j, at := range s.Times {
				if err != nil || len(s.Times) != len(s.Values) || at < q.from || at > q.to || j > 0 && at < s.Times[j-1] || s.Values[j]-s.Values[j] != 0 {
					t.Fatalf("%q gives %v, %v", text, got, err)
				}
			}
		}
	})
}

func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{"", tail, head + rowA + tail, oops} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, text string, regex bool) {
		q := query()
		q.maxPoints, q.maxSeries = 100, 10
		if regex {
			q.Type, q.pattern = metrics.App, regexp.MustCompile(".")
		}
		got, err := read(q, text)
		if err != nil {
			return
		}
		if !strings.Contains(text, endResult) {
			t.Fatalf("%q is taken for whole", text)
		}
		for i, s := range got {
			if len(s.Times) != len(s.Values) || i > 0 && metrics.Identify(s.Name, s.Dimensions).Compare(metrics.Identify(got[i-1].Name, got[i-1].Dimensions)) <= 0 {
				t.Fatalf("%q gives %v", text, got)
			}
			for j, at := range s.Times {
				if at < q.from || at > q.to || j > 0 && at < s.Times[j-1] || s.Values[j]-s.Values[j] != 0 {
					t.Fatalf("%q gives %v", text, s)
				}
			}
		}
	})
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
