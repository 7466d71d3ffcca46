package metricstest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// matching returns a query for a pattern around the base.
func (s suite) matching(pattern, prefix string, d metrics.Dimensions) metrics.Query {
	q := s.all(pattern, d)
	q.Type, q.Regex, q.Prefix = metrics.App, true, prefix
	return q
}

func (s suite) app(name string, d metrics.Dimensions, value float64) metrics.Sample {
	sample := s.sampleAt(name, d, 0, value)
	sample.Type = metrics.App
	return sample
}

// testRegex: the pattern matches anywhere in the whole key, application and dimensions included, as in Clusterman.
func testRegex(t *testing.T, s suite) {
	zone := func(z string) metrics.Dimensions { return metrics.Dimensions{"zone": z} }
	s.write(t,
		s.app("web,requests", zone("a"), 1), s.app("web,requests", zone("b"), 2), s.app("web,errors", nil, 3),
		s.app("shop,requests", zone("a"), 4), s.app("web.requests", nil, 5), s.app("new\nline,requests", nil, 6),
		s.sampleAt("web,requests", zone("c"), 0, 7), // of another type
	)
	webA, webB := s.line("web,requests", zone("a"), [2]float64{0, 1}), s.line("web,requests", zone("b"), [2]float64{0, 2})
	errs, shop := s.line("web,errors", nil, [2]float64{0, 3}), s.line("shop,requests", zone("a"), [2]float64{0, 4})
	dot, line := s.line("web.requests", nil, [2]float64{0, 5}), s.line("new\nline,requests", nil, [2]float64{0, 6})
	tests := map[string]struct {
		pattern, prefix string
		dimensions      metrics.Dimensions
		want            []metrics.Series
	}{
		"anywhere":                    {"eques", "", nil, []metrics.Series{line, shop, webA, webB, dot}},
		"anchored at the application": {"^web,", "", nil, []metrics.Series{errs, webA, webB}},
		"anchored at the dimensions":  {"a$", "", nil, []metrics.Series{shop, webA}},
		"the bar before dimensions":   {`s\|zone=[bc]`, "", nil, []metrics.Series{webB}},
		"a dot is any character":      {"^web.requests$", "", nil, []metrics.Series{dot}},
		"alternatives":                {"errors|zone=b", "", nil, []metrics.Series{errs, webB}},
		"with dimensions":             {"requests", "", zone("a"), []metrics.Series{shop, webA}},
		"of one application":          {"requests|errors", "web,", nil, []metrics.Series{errs, webA, webB}},
		"prefix is no pattern":        {"requests", "we.", nil, nil},
		"prefix with a new line":      {"requests", "new\nline,", nil, []metrics.Series{line}},
		"no match":                    {"^requests", "", nil, nil},
		"case matters":                {"REQUESTS", "", nil, nil},
		"unless the pattern has (?i)": {"(?i)ERRORS", "", nil, []metrics.Series{errs}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { s.want(t, s.matching(tt.pattern, tt.prefix, tt.dimensions), tt.want...) })
	}
	late := s.matching("requests", "", nil)
	late.From = s.base.Add(time.Second)
	s.want(t, late) // no point in the window
}

func testBadRegex(t *testing.T, s suite) {
	s.write(t, s.app("web,requests", nil, 1))
	tests := map[string]metrics.Query{
		"no expression":    s.matching("(", "", nil),
		"look ahead":       s.matching("(?=a)", "", nil),
		"empty":            s.matching("", "", nil),
		"too long":         s.matching(strings.Repeat("a", metrics.MaxPattern+1), "", nil),
		"of system metric": s.all("requests", nil),
	}
	for name, q := range tests {
		t.Run(name, func(t *testing.T) {
			q.Regex = true
			if got, err := s.store.Window(s.ctx, q); !errors.Is(err, metrics.ErrPattern) {
				t.Errorf("Window = %v, %v, want ErrPattern", got, err)
			}
		})
	}
	s.want(t, s.matching(strings.Repeat("a", metrics.MaxPattern), "", nil))
}

// testManyMatches: a partial result is never returned as complete.
func testManyMatches(t *testing.T, s suite) {
	samples := make([]metrics.Sample, metrics.MaxMatches)
	for i := range samples {
		samples[i] = s.app("web,requests", metrics.Dimensions{"i": fmt.Sprint(i)}, 1)
	}
	s.write(t, samples...)
	if got := s.window(t, s.matching("requests", "", nil)); len(got) != metrics.MaxMatches {
		t.Errorf("%d series, want %d", len(got), metrics.MaxMatches)
	}
	s.write(t, s.app("shop,requests", nil, 1))
	if got, err := s.store.Window(s.ctx, s.matching("requests", "", nil)); !errors.Is(err, metrics.ErrTooMany) {
		t.Errorf("Window = %d series, %v, want ErrTooMany", len(got), err)
	}
	if got := s.window(t, s.matching("requests", "web,", nil)); len(got) != metrics.MaxMatches {
		t.Errorf("of one application: %d series, want %d", len(got), metrics.MaxMatches)
	}
}
