package shadow_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/autoscaler/shadow"
	"github.com/weirkeeper/weirkeeper/resource"
)

const value = "value"

func cpus(x float64) resource.Request { return resource.Request{}.With(resource.CPUs, x) }

func TestCompare(t *testing.T) {
	none := resource.Request{}
	tests := []struct {
		name           string
		own, candidate shadow.Response
		tolerance      float64
		want           string
	}{
		{"nothing", shadow.Response{}, shadow.Response{}, 0, ""},
		{"equal", shadow.Response{Verdict: value, Request: cpus(4)}, shadow.Response{Verdict: value, Request: cpus(4)}, 0, ""},
		{"more", shadow.Response{Verdict: value, Request: cpus(4)}, shadow.Response{Verdict: value, Request: cpus(5)}, 0.1, "cpus 4 -> 5 (+25 %, tolerance 10 %)"},
		{"less", shadow.Response{Verdict: value, Request: cpus(4)}, shadow.Response{Verdict: value, Request: cpus(3)}, 0.1, "cpus 4 -> 3 (-25 %, tolerance 10 %)"},
		{"just within", shadow.Response{Verdict: value, Request: cpus(4)}, shadow.Response{Verdict: value, Request: cpus(4.4)}, 0.1, ""},
		{"just within, below", shadow.Response{Verdict: value, Request: cpus(0.7)}, shadow.Response{Verdict: value, Request: cpus(0.63)}, 0.1, ""},
		{"just over", shadow.Response{Verdict: value, Request: cpus(4)}, shadow.Response{Verdict: value, Request: cpus(4.401)}, 0.1, "cpus 4 -> 4.401 (+10 %, tolerance 10 %)"},
		{"no tolerance", shadow.Response{Verdict: value, Request: cpus(4)}, shadow.Response{Verdict: value, Request: cpus(4.0001)}, 0, "cpus 4 -> 4.0001 (+0.0025 %, tolerance 0 %)"},
		{"a tolerance that is none", shadow.Response{Verdict: value, Request: cpus(4)}, shadow.Response{Verdict: value, Request: cpus(5)}, math.NaN(), "cpus 4 -> 5 (+25 %, tolerance 0 %)"},
		{"the last bit", shadow.Response{Verdict: value, Request: cpus(0.1 + 0.2)}, shadow.Response{Verdict: value, Request: cpus(0.3)}, 0, ""},
		{"both zero", shadow.Response{Verdict: value, Request: cpus(0)}, shadow.Response{Verdict: value, Request: cpus(0)}, 0, ""},
		{"from zero", shadow.Response{Verdict: value, Request: cpus(0)}, shadow.Response{Verdict: value, Request: cpus(0.5)}, 10, "cpus 0 -> 0.5 (from nothing)"},
		{"to zero", shadow.Response{Verdict: value, Request: cpus(2)}, shadow.Response{Verdict: value, Request: cpus(0)}, 0.5, "cpus 2 -> 0 (-100 %, tolerance 50 %)"},
		{"absent is not zero", shadow.Response{Verdict: value, Request: cpus(0)}, shadow.Response{Verdict: value, Request: none}, 1, "cpus 0 -> absent"},
		{"two kinds", shadow.Response{Verdict: value, Request: cpus(4).With(resource.Mem, 512)}, shadow.Response{Verdict: value, Request: cpus(8).With(resource.GPUs, 1)}, 0.1,
			"cpus 4 -> 8 (+100 %, tolerance 10 %), mem 512 -> absent, gpus absent -> 1"},
		{"huge", shadow.Response{Verdict: value, Request: cpus(math.SmallestNonzeroFloat64)}, shadow.Response{Verdict: value, Request: cpus(math.MaxFloat64)}, 0.1,
			"cpus 4.94065645841e-324 -> 1.79769313486e+308 (+1.8e+308 %, tolerance 10 %)"},
		{"both have no opinion", shadow.Response{Verdict: "no_opinion", Request: none}, shadow.Response{Verdict: "no_opinion", Request: none}, 0, ""},
		{"another verdict", shadow.Response{Verdict: value, Request: cpus(4)}, shadow.Response{Verdict: "stale", Request: none}, 1, "verdict value -> stale"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := shadow.Compare(test.own, test.candidate, test.tolerance); got != test.want {
				t.Errorf("Compare(%v, %v, %v) = %q, want %q", test.own, test.candidate, test.tolerance, got, test.want)
			}
		})
	}
}

func amount() *rapid.Generator[float64] {
	return rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1e6), rapid.Float64Range(0, math.MaxFloat64))
}

func answer() *rapid.Generator[shadow.Response] {
	return rapid.Custom(func(t *rapid.T) shadow.Response {
		a := shadow.Response{Verdict: value}
		for _, k := range resource.Kinds() {
			if rapid.Bool().Draw(t, "named") {
				a.Request = a.Request.With(k, amount().Draw(t, "amount"))
			}
		}
		return a
	})
}

func TestAnAnswerAgreesWithItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := answer().Draw(t, "answer")
		if got := shadow.Compare(a, a, rapid.Float64().Draw(t, "tolerance")); got != "" {
			t.Fatalf("%+v differs from itself: %s", a, got)
		}
	})
}

// More tolerance never finds more differences, and a text is always one line with each kind at most
// once.
func TestToleranceOnlyForgives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := answer().Draw(t, "own"), answer().Draw(t, "candidate")
		tight := rapid.Float64Range(0, 2).Draw(t, "tight")
		wide := tight + rapid.Float64Range(0, 2).Draw(t, "more")
		strict, loose := shadow.Compare(a, b, tight), shadow.Compare(a, b, wide)
		for _, k := range resource.Kinds() {
			if strings.Count(strict, k.String()+" ") > 1 {
				t.Fatalf("%q names %s twice", strict, k)
			}
			if strings.Contains(loose, k.String()+" ") && !strings.Contains(strict, k.String()+" ") {
				t.Fatalf("tolerance %v: %q; %v: %q", tight, strict, wide, loose)
			}
		}
	})
}
