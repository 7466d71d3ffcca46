package bulkapi

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/bulkapi/bulktest"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

const goodRow = `{"id":"a","instances":2,"state":"STARTED","memory":256,"package_state":"STAGED","updated_at":"2012-11-16 00:00:00 UTC","version":"v1"}`

func page(rows string) string { return `{"results":{` + rows + `},"bulk_token":{"id":7}}` }

func collectedFrom(text string) (*collected, error) {
	h := newCollected(newFootprints(Config{Footprint: Footprint{Pool: "default", CPUs: 1, Mem: 64, Disk: 100}}))
	return h, h.page(strings.NewReader(text))
}

func TestPages(t *testing.T) {
	big := strings.Repeat("x", maxToken)
	for _, tt := range []struct {
		name, text string
		err        error // nil: rows and token are valid
		token      string
	}{
		{"in order", page(`"a":` + goodRow), nil, `{"id":7}`},
		{"token first", `{"bulk_token":"abc","more":[{}],"results":{"a":` + goodRow + `}}`, nil, `"abc"`},
		{"token in many lines", `{"results":{"a":` + goodRow + `},"bulk_token":{ "id" :` + "\n" + ` 7 }} ` + "\n", nil, `{"id":7}`},
		{"numeric token", `{"results":{"a":` + goodRow + `},"bulk_token":7}`, nil, `7`},
		{"no token", `{"results":{"a":` + goodRow + `}}`, errBadAnswer, ""},
		{"null token", `{"results":{"a":` + goodRow + `},"bulk_token":null}`, errBadAnswer, ""},
		{"first token again", `{"results":{"a":` + goodRow + `},"bulk_token":{}}`, errBadAnswer, ""},
		{"long token", `{"results":{"a":` + goodRow + `},"bulk_token":"` + big + `"}`, errBadAnswer, ""},
		{"empty", ``, errUnavailable, ""},
		{"cut in a row", page(`"a":` + goodRow)[:60], errUnavailable, ""},
		{"cut between rows", `{"results":{"a":` + goodRow, errUnavailable, ""},
		{"cut before its token", `{"results":{"a":` + goodRow + `}`, errUnavailable, ""},
		{"a list", `[]`, errBadAnswer, ""},
		{"null", `null`, errBadAnswer, ""},
		{"no results", `{"bulk_token":{"id":7}}`, errBadAnswer, ""},
		{"null results", `{"results":null,"bulk_token":{"id":7}}`, errBadAnswer, ""},
		{"a list of results", `{"results":[],"bulk_token":{"id":7}}`, errBadAnswer, ""},
		{"no colon", `{"results" {}}`, errBadAnswer, ""},
		{"more behind it", page(`"a":`+goodRow) + `{}`, errBadAnswer, ""},
		{"bytes", "\x00\xff", errBadAnswer, ""},
		{"too deep", strings.Repeat(`{"results":`, 1) + strings.Repeat("[", 20000), errBadAnswer, ""},
		{"a row too deep", `{"results":{"a":` + strings.Repeat("[", 20000), errBadAnswer, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, err := collectedFrom(tt.text)
			if tt.err != nil {
				if !errors.Is(err, tt.err) || len(h.rows) > 0 || h.token != firstToken || h.done {
					t.Errorf("page() = %v with %d rows and token %s, want %v and nothing", err, len(h.rows), h.token, tt.err)
				}
				return
			}
			if err != nil || len(h.rows) != 1 || h.token != tt.token || h.done {
				t.Errorf("page() = %v with %d rows and token %s, want 1 and %s", err, len(h.rows), h.token, tt.token)
			}
		})
	}
}

func TestLastPage(t *testing.T) {
	for _, text := range []string{
		`{"results":{},"bulk_token":{"id":null}}`, `{"results":{}}`, `{"results":{},"bulk_token":{}}`,
	} {
		if h, err := collectedFrom(text); err != nil || !h.done {
			t.Errorf("page(%s) = %v, done %v, want that this was all", text, err, h.done)
		}
	}
}

func TestPageOfBrokenConnection(t *testing.T) {
	h := newCollected(newFootprints(Config{}))
	err := h.page(io.MultiReader(strings.NewReader(`{"results":{"a":`+goodRow), iotest.ErrReader(io.ErrClosedPipe)))
	if !errors.Is(err, errUnavailable) || !errors.Is(err, io.ErrClosedPipe) || len(h.rows) > 0 {
		t.Errorf("page() = %v with %d rows, want the connection's error and none", err, len(h.rows))
	}
}

// with returns the good row with one changed field; "" removes the field.
func with(field, value string) string {
	var out []string
	for part := range strings.SplitSeq(strings.Trim(goodRow, "{}"), `,"`) {
		part = `"` + strings.TrimPrefix(part, `"`)
		if !strings.HasPrefix(part, `"`+field+`":`) {
			out = append(out, part)
		}
	}
	if value != "" {
		out = append(out, `"`+field+`":`+value)
	}
	return "{" + strings.Join(out, ",") + "}"
}

func TestRows(t *testing.T) {
	good := api.App{
		Name: "a", Pool: "default", Instances: 2, Version: "v1", CPUs: 1, Mem: 256, Disk: 100,
		State: api.AppStarted, Package: api.PackageStaged, Updated: time.Date(2012, 11, 16, 0, 0, 0, 0, time.UTC),
	}
	but := func(change func(a *api.App)) *api.App {
		a := good
		change(&a)
		return &a
	}
	for _, tt := range []struct {
		name, row string
		want      *api.App // nil: unreadable
	}{
		{"good", goodRow, &good},
		{"no id", with("id", ""), &good},
		{"null id", with("id", "null"), &good},
		{"other id", with("id", `"b"`), nil},
		{"id is a list", with("id", `["a"]`), nil},
		{"version is a number", with("version", "7"), but(func(a *api.App) { a.Version = "7" })},
		{"version is escaped", with("version", `"v\u0031"`), &good},
		{"no memory", with("memory", ""), but(func(a *api.App) { a.Mem = 64 })},
		{"null memory", with("memory", "null"), but(func(a *api.App) { a.Mem = 64 })},
		{"memory is zero", with("memory", "0"), but(func(a *api.App) { a.Mem = 0 })},
		{"memory is a float", with("memory", "256.5"), but(func(a *api.App) { a.Mem = 256.5 })},
		{"stopped", with("state", `"STOPPED"`), but(func(a *api.App) { a.State = api.AppStopped })},
		{"pending", with("package_state", `"PENDING"`), but(func(a *api.App) { a.Package = api.PackagePending })},
		{"failed", with("package_state", `"FAILED"`), but(func(a *api.App) { a.Package = api.PackageFailed })},
		{"framework", with("framework", `"rails"`), but(func(a *api.App) { a.Labels = map[string]string{"framework": "rails"} })},
		{"runtime is null", with("runtime", `null`), &good},
		{"runtime is empty", with("runtime", `""`), &good},
		{"more keys", with("more", `{"a":[1,2,{}]}`), &good},
		{"no copies", with("instances", "0"), but(func(a *api.App) { a.Instances = 0 })},
		{"null", "null", nil}, {"a list", "[]", nil}, {"a text", `"a"`, nil}, {"a number", "1e999", nil}, {"true", "true", nil},
		{"null instances", with("instances", "null"), nil},
		{"negative instances", with("instances", "-1"), nil},
		{"most instances", with("instances", "100001"), nil},
		{"huge instances", with("instances", "1"+strings.Repeat("0", 400)), nil},
		{"float instances", with("instances", "2.5"), nil},
		{"text instances", with("instances", `"2"`), nil},
		{"other state", with("state", `"started"`), nil},
		{"number as state", with("state", `1`), nil},
		{"other package state", with("package_state", `"UNKNOWN"`), nil},
		{"empty version", with("version", `""`), nil},
		{"long version", with("version", `"`+strings.Repeat("v", message.MaxID+1)+`"`), nil},
		{"float version", with("version", `1.5`), nil},
		{"negative memory", with("memory", "-1"), nil},
		{"huge memory", with("memory", "1e300"), nil},
		{"endless memory", with("memory", "1e999"), nil},
		{"text memory", with("memory", `"256"`), nil},
		{"long framework", with("framework", `"`+strings.Repeat("f", message.MaxLabel+1)+`"`), nil},
		{"number as framework", with("framework", `3`), nil},
		{"no time", with("updated_at", `"yesterday"`), nil},
		{"true time", with("updated_at", `true`), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, err := collectedFrom(page(`"a":` + tt.row))
			if err != nil {
				t.Fatalf("page() = %v, want a row that is unreadable at most", err)
			}
			if tt.want == nil {
				if len(h.rows) > 0 || h.unreadableRows != 1 || len(h.unreadable) == 0 || h.problem == nil {
					t.Errorf("page() = %v, want it unreadable", h.rows)
				}
				return
			}
			if diff := cmp.Diff([]api.App{*tt.want}, h.rows); diff != "" {
				t.Errorf("rows (-want +got):\n%s\n%v", diff, h.problem)
			}
		})
	}
}

func TestLackingFields(t *testing.T) {
	for _, field := range []string{"instances", "state", "package_state", "updated_at", "version"} {
		for _, value := range []string{"", "null"} {
			h, err := collectedFrom(page(`"a":` + with(field, value)))
			if err != nil || h.unreadableRows != 1 || h.problem == nil || h.problem.Error() != `app "a": `+field+` is missing` {
				t.Errorf("row without %s: %v, %d refused, %v", field, err, h.unreadableRows, h.problem)
			}
		}
	}
}

// TestNames: an app with an invalid name is still reported as present.
func TestNames(t *testing.T) {
	for _, tt := range []struct {
		key        string
		unreadable []string
	}{
		{"web", nil},
		{"17", nil},
		{"0aae16c2-4a39-4fb7-9a44-9a1b6d1f2a1b", nil},
		{"a.b", []string{"a.b"}},
		{"ü", []string{"ü"}},
		{"", nil},
		{strings.Repeat("x", message.MaxID+1), nil},
	} {
		h, err := collectedFrom(page(strconv.Quote(tt.key) + ":" + with("id", "")))
		readable := names.Valid(tt.key)
		if err != nil || readable != (len(h.rows) == 1) || readable == (h.unreadableRows == 1) || !cmp.Equal(tt.unreadable, h.unreadable) {
			t.Errorf("key %.20q: %v, rows %v, unreadable %q, want %q", tt.key, err, h.rows, h.unreadable, tt.unreadable)
		}
	}
	if h, _ := collectedFrom(page(`"17":` + with("id", "17"))); len(h.rows) != 1 || h.rows[0].Name != "17" {
		t.Errorf("numeric id: %v, %v, want a row", h.rows, h.problem)
	}
}

func TestTimes(t *testing.T) {
	at := time.Date(2012, 11, 16, 10, 20, 30, 0, time.UTC)
	half := at.Add(500 * time.Millisecond)
	for text, want := range map[string]time.Time{
		`"2012-11-16T10:20:30Z"`:             at,
		`"2012-11-16T10:20:30.5Z"`:           half,
		`"2012-11-16T12:20:30+02:00"`:        at,
		`"2012-11-16T12:20:30+0200"`:         at,
		`"2012-11-16T10:20:30.500-00:00"`:    half,
		`"2012-11-16 10:20:30 UTC"`:          at,
		`"2012-11-16 10:20:30.5 UTC"`:        half,
		`"2012-11-16 10:20:30 +0000"`:        at,
		`"2012-11-16 02:20:30 -0800"`:        at,
		`"2012-11-16 02:20:30.500000 -0800"`: half,
		`"2012-11-16 10:20:30"`:              at,
		`1353061230`:                         at,
		`1353061230.5`:                       half,
		`0`:                                  time.Unix(0, 0),
		`""`:                                 {}, `"2012"`: {}, `" UTC"`: {}, `"2012-11-16"`: {}, `"2012-13-16 10:20:30 UTC"`: {},
		`"2012-11-16 10:20:30 CET"`: {}, `"1969-12-31 23:59:59 UTC"`: {}, `"10000-01-01 00:00:00 UTC"`: {},
		`-1`: {}, `1e300`: {}, `253402300800`: {}, `"T"`: {}, `"Z"`: {}, `{}`: {},
	} {
		var r reader
		got := r.time("updated_at", []byte(text))
		if !got.Equal(want) || (r.err != nil) != want.IsZero() {
			t.Errorf("time %s = %v, %v, want %v", text, got, r.err, want)
		}
	}
}

// TestRowsInAreRowsReported: all rows are reported, for any page size.
func TestRowsInAreRowsReported(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9_-]{0,62}`), 0, 40, rapid.ID[string]).Draw(r, "ids")
		w := inProcess(t, Config{BatchSize: rapid.IntRange(1, 50).Draw(r, "batch_size")}, 0, 0)
		var good, bad []string
		for _, id := range ids {
			if rapid.IntRange(0, 4).Draw(r, "kind") > 0 {
				w.api.Set(bulktest.Row{ID: id, Instances: rapid.IntRange(0, message.MaxInstances).Draw(r, "instances")})
				good = append(good, id)
			} else {
				w.api.Set(bulktest.Row{ID: id, JSON: rapid.SampledFrom([]string{`null`, `3`, `[]`, `{}`, `{"state": 1}`}).Draw(r, "row")})
				bad = append(bad, id)
			}
		}
		p, err := w.passOnce(t.Context())
		if err != nil {
			r.Fatal(err)
		}
		wantWhole(r, p, good)
		if !cmp.Equal(bad, p.unreadable) {
			r.Errorf("unreadable %q, want %q", p.unreadable, bad)
		}
	})
}

func FuzzPage(f *testing.F) {
	f.Add(page(`"a":` + goodRow))
	f.Add(page(`"a":` + with("updated_at", "1.5") + `,"17":{"id":17},"":null,"b":[]`))
	f.Add(`{"bulk_token":"x","results":{}}`)
	f.Add(`{"results":{"a":{"framework":"\u00fc"`)
	f.Fuzz(func(t *testing.T, text string) {
		h, err := collectedFrom(text)
		for _, a := range h.rows {
			if problem := message.ValidateApp(a); problem != nil || a.Updated.Unix() < 0 || a.Version == "" {
				t.Errorf("reported %+v: %v", a, problem)
			}
		}
		rows := len(h.rows) + h.unreadableRows
		switch {
		case err != nil && (rows > 0 || h.done || h.token != firstToken):
			t.Errorf("page() = %v and %d rows", err, rows)
		case err == nil && h.done != (rows == 0):
			t.Errorf("%d rows, done %v", rows, h.done)
		}
		for _, known := range []error{errUnavailable, errBadAnswer, errTooLarge} {
			if errors.Is(err, known) {
				return
			}
		}
		if err != nil {
			t.Errorf("page() = %v, which is not an error of this package", err)
		}
	})
}

func FuzzUsers(f *testing.F) {
	f.Add(`{"counts":{"user":3}}`)
	f.Add(`{"counts":{"user":-1}}`)
	f.Add(`{"counts":[]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := readUsers(strings.NewReader(text)); n < 0 || err != nil && n != 0 {
			t.Errorf("readUsers() = %d, %v", n, err)
		}
	})
}

func BenchmarkPage(b *testing.B) {
	var rows []string
	for i := range 500 {
		rows = append(rows, fmt.Sprintf(`"app-%d":%s`, i, with("id", fmt.Sprintf(`"app-%d"`, i))))
	}
	text := page(strings.Join(rows, ","))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if h, err := collectedFrom(text); err != nil || len(h.rows) != 500 {
			b.Fatal(err, h.problem)
		}
	}
	b.ReportMetric(500*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// TestTokensAreBounded: a pass of endless small pages with long tokens ends.
func TestTokensAreBounded(t *testing.T) {
	h, long := newCollected(newFootprints(Config{Footprint: Footprint{Pool: "default"}})), strings.Repeat("x", maxToken-100)
	var err error
	pages := 0
	for ; err == nil && pages <= maxTokens/len(long)+1; pages++ {
		err = h.page(strings.NewReader(fmt.Sprintf(`{"results":{"a%d":%s},"bulk_token":"%d%s"}`, pages, goodRow, pages, long)))
	}
	if !errors.Is(err, errTooLarge) {
		t.Errorf("%d pages: %v, want %v", pages, err, errTooLarge)
	}
}
