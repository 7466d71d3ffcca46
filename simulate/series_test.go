package simulate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

const day = `time,app,cpus,mem
2026-03-01T12:00:00Z,web,1,100
2026-03-01 12:00:00,mail,2,
2026-03-01T13:00:00+00:00,web,3,300
2026-03-01 14:00,mail,4,400
`

func TestReadSeries(t *testing.T) {
	s, err := simulate.ReadSeries("day.csv", []byte(day), map[string]float64{"cpus": 0.5})
	if err != nil {
		t.Fatal(err)
	}
	if first, last := s.Span(); !first.Equal(noon) || !last.Equal(noon.Add(2*time.Hour)) || strings.Join(s.Apps(), " ") != "mail web" {
		t.Errorf("from %v to %v, apps %v", first, last, s.Apps())
	}
	tests := []struct {
		after  time.Duration
		linear bool
		app    string
		want   resource.Vector
	}{
		{0, false, "web", resource.Vector{0.5, 100}},
		{0, false, "", resource.Vector{1.5, 100}},
		{-time.Hour, false, "", resource.Vector{1.5, 100}},
		{59 * time.Minute, false, "web", resource.Vector{0.5, 100}},
		{time.Hour, false, "web", resource.Vector{1.5, 300}},
		{30 * time.Minute, true, "web", resource.Vector{1, 200}},
		{time.Hour, true, "", resource.Vector{3, 500}},
		{10 * time.Hour, true, "", resource.Vector{3.5, 700}},
		{0, true, "unknown", resource.Vector{}},
	}
	for _, test := range tests {
		s.Linear = test.linear
		if got := s.Requests(noon.Add(test.after), test.app); !same(got, test.want) {
			t.Errorf("%q needs %v after %v, linear %t; want %v", test.app, got, test.after, test.linear, test.want)
		}
	}
	if got := s.Next(noon); !got.Equal(noon.Add(time.Hour)) {
		t.Errorf("the next point is at %v", got)
	}
	if got := s.Next(noon.Add(2 * time.Hour)); !got.IsZero() {
		t.Errorf("there is a point at %v after the last one", got)
	}
}

// same reports whether a request has cpus and mem of those values, and nothing else.
func same(r resource.Request, want resource.Vector) bool {
	for _, k := range resource.Kinds() {
		x, requested := r.Get(k)
		if requested != (k == resource.CPUs || k == resource.Mem) || x != want[k] {
			return false
		}
	}
	return true
}

func TestBadSeries(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", "read series d.csv: the first row, of the columns time,app,"},
		{"time,price\n", `d.csv:1: column "price" is unknown`},
		{"time,time\n", `d.csv:1: column "time" is unknown or given twice`},
		{"time,mem\n2026-03-01T12:00:00Z,1\n", `d.csv:1: scale 2 of column "cpus"`},
		{"time,cpus\n", "d.csv:1: it has no point: add rows"},
		{"cpus\n1\n", `d.csv:2: time is ""`},
		{"time,cpus\nnoon,1\n", `d.csv:2: time is "noon": want a time as 2026-03-01T00:00:00Z`},
		{"time,cpus\n2026-03-01T12:00:00Z,many\n", `d.csv:2: cpus is "many": want a number`},
		{"time,cpus\n2026-03-01T12:00:00Z,-1\n", "d.csv:2: cpus is"},
		{"time,cpus\n2026-03-01T12:00:00Z,NaN\n", "d.csv:2: cpus is"},
		{"time,cpus\n2026-03-01T12:00:00Z,1e300\n", "d.csv:2: cpus is"},
		{"time,cpus,instances\n2026-03-01T12:00:00Z,1,1.5\n", `d.csv:2: instances is "1.5": want a whole number`},
		{"time,cpus\n2026-03-01T12:00:00Z,1\n2026-03-01T12:00:00Z,1\n", "d.csv:3: time 2026-03-01T12:00:00Z of app all does not follow 2026-03-01T12:00:00Z: sort the rows"},
		{"time,cpus\n2026-03-01T12:00:00Z,1\n2026-03-01T11:00:00Z,1\n", "d.csv:3: time 2026-03-01T11:00:00Z of app all does not follow"},
		{"time,cpus\n2026-03-01T12:00:00Z\n", "wrong number of fields"},
	}
	for _, test := range tests {
		if _, err := simulate.ReadSeries("d.csv", []byte(test.text), map[string]float64{"cpus": 2}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("ReadSeries(%q) = %v, want %q", test.text, err, test.want)
		}
	}
}

// A distance of three times the usual one is a gap. The number of instances of an app keeps it.
func TestGaps(t *testing.T) {
	const text = `time,instances
2026-03-01T12:00:00Z,1
2026-03-01T12:05:00Z,1
2026-03-01T12:10:00Z,1
2026-03-01T12:24:00Z,1
2026-03-01T12:39:00Z,1
2026-03-01T12:44:00Z,1
2026-03-01T12:49:00Z,1
`
	read, err := simulate.ReadSeries("d.csv", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := simulate.NewSeries()
	if err := s.Adopt("web", read); err != nil {
		t.Fatal(err)
	}
	want := simulate.Gap{File: "d.csv", Line: 6, App: "web", From: noon.Add(24 * time.Minute), To: noon.Add(39 * time.Minute)}
	if got := s.Gaps(); len(got) != 1 || got[0] != want {
		t.Errorf("the gaps are %v, want %v", got, want)
	}
}

func FuzzSeries(f *testing.F) {
	f.Add([]byte(day))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := simulate.ReadSeries("f", data, nil)
		if err != nil {
			return
		}
		first, last := s.Span()
		for _, at := range []time.Time{first, last, noon} {
			load := s.Step(at, nil)
			if load.Wanted.Validate() != nil || load.Lacks != load.Wanted {
				t.Errorf("load %+v at %v", load, at)
			}
		}
	})
}
