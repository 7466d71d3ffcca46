package influx

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/metrics"
)

func TestPlaces(t *testing.T) {
	tests := map[string]struct {
		kind metrics.Type
		name string
		want place
	}{
		"system":               {metrics.System, "cpus_allocated", place{"system_metrics", "cpus_allocated"}},
		"system with a comma":  {metrics.System, "a,b", place{"system_metrics", "a,b"}},
		"application":          {metrics.App, "web,requests", place{"web", "requests"}},
		"more commas":          {metrics.App, "web,requests,total", place{"web", "requests,total"}},
		"no application":       {metrics.App, "requests", place{"app_metrics", "requests"}},
		"empty application":    {metrics.App, ",requests", place{"app_metrics", ",requests"}},
		"empty name":           {metrics.App, "web,", place{"app_metrics", "web,"}},
		"called as a type":     {metrics.App, "metadata,x", place{"␛6detadata", "x"}},
		"called as app":        {metrics.App, "app_metrics,x", place{"␛61pp_metrics", "x"}},
		"reserved by InfluxDB": {metrics.App, "_internal,time", place{"␛5finternal", "␛74ime"}},
		"a comment":            {metrics.App, "#web,#x", place{"␛23web", "␛23x"}},
		"lost characters":      {metrics.System, "a\\b\n␛", place{"system_metrics", "a␛5cb␛0a␛e2␛90␛9b"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := placeOf(tt.kind, tt.name)
			if got != tt.want {
				t.Errorf("placeOf(%s, %q) = %v, want %v", tt.kind, tt.name, got, tt.want)
			}
			if name, ok := nameAt(tt.kind, got); !ok || name != tt.name {
				t.Errorf("nameAt(%v) = %q, %v, want %q", got, name, ok, tt.name)
			}
		})
	}
}

func TestNamesOfOthers(t *testing.T) {
	tests := map[string]struct {
		place place
		want  string
		ok    bool
	}{
		"plain":               {place{"cpu", "usage_idle"}, "cpu,usage_idle", true},
		"backslash":           {place{`C:\x`, "free"}, `C:\x,free`, true},
		"half an escape":      {place{"a␛", "b␛4"}, "a␛,b␛4", true},
		"no digits":           {place{"a␛zz", "b"}, "a␛zz,b", true},
		"not UTF-8 after it":  {place{"a␛ff", "b"}, "a␛ff,b", true},
		"comma":               {place{"a,b", "c"}, "", false},
		"of another type":     {place{"system_metrics", "cpus"}, "", false},
		"nobody's but a name": {place{"app_metrics", "cpus"}, "cpus", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := nameAt(metrics.App, tt.place)
			if ok != tt.ok || ok && got != tt.want {
				t.Errorf("nameAt(%v) = %q, %v, want %q, %v", tt.place, got, ok, tt.want, tt.ok)
			}
		})
	}
}

// TestNamesRoundTrip: each name has its own place, in preserved characters.
func TestNamesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(metrics.Types()).Draw(t, "type")
		name := rapid.StringMatching(`(?s)(metadata|_|#|time|web)?,?.{1,20}`).Draw(t, "name")
		where := placeOf(kind, name)
		if got, ok := nameAt(kind, where); !ok || got != name {
			t.Fatalf("%q of %s is at %q, where %q is", name, kind, where, got)
		}
		for _, s := range []string{where.measurement, where.field} {
			if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == '\\' }) {
				t.Fatalf("%q is at %q", name, where)
			}
		}
	})
}
