// Package source describes a source of windows, such as a Prometheus server, by one value, a [Kind]: its key in the
// service file, the form of its queries, and how to open it. internal/config/stores lists the kinds.
//
// A pool's own series are in its store. A window with the name of a source is read from that source instead; a [Router]
// does so. A source is only read. What it cannot answer completely is unknown, never empty or zero.
package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/store"
)

// Kind describes one kind of source.
type Kind struct {
	Key   string // below the name of a source in the service file
	About string // description in a few words
	// New returns a pointer to an empty struct with yaml tags, as for a store.
	New func() store.Settings
	// Compile returns the query of a metric in a pool file. The problems have keys below the metric.
	Compile func(Form, time.Duration) (Query, strictyaml.Problems)
	// Open returns a client. It does not connect: a source that is down is reported by the first request.
	Open func(Site) (Source, error)
}

// Form is what a pool file has about a metric of a source. Each kind uses some of the keys.
type Form struct {
	Query  string         `yaml:"query"`  // an expression in the language of the source
	Metric *Metric        `yaml:"metric"` // a metric by its name, of a source without a language
	Step   time.Duration  `yaml:"step"`   // distance of the points of an expression
	Period time.Duration  `yaml:"period"` // of each point of a metric
	Lag    *time.Duration `yaml:"lag"`    // how long after its time, or after the end of its period, a point is complete
}

// Metric names a metric, and what to take of each period.
type Metric struct {
	Namespace  string            `yaml:"namespace" json:"namespace"`
	Name       string            `yaml:"name" json:"name"`
	Dimensions map[string]string `yaml:"dimensions" json:"dimensions,omitempty"` // their values may have variables
	Stat       string            `yaml:"stat" json:"stat"`
}

// Unused returns a problem for each given key but these. kind is the key of the kind of source.
func (f Form) Unused(kind string, used ...string) (ps strictyaml.Problems) {
	for key, given := range map[string]bool{
		"query": f.Query != "", "metric": f.Metric != nil, "step": f.Step != 0, "period": f.Period != 0, "lag": f.Lag != nil,
	} {
		if given && !slices.Contains(used, key) {
			ps = append(ps, &strictyaml.Problem{Key: key, What: fmt.Sprintf("is not for a source of kind %s: use %s", kind, strings.Join(used, ", "))})
		}
	}
	return ps
}

// ErrQuery is an error about the query itself, which no later request repairs.
var ErrQuery = errors.New("is invalid")

// Query is a valid query of one kind.
type Query struct {
	Text  string
	Step  time.Duration // positive, whole seconds
	Lag   time.Duration
	Whole bool // as in metrics.Query
}

// Site has the parameters of opening a source.
type Site struct {
	Name     string         // in the service file
	Settings store.Settings // from New
	// Endpoint and Keys are those of the account of the service file, as in provider.Account.
	Endpoint func(service string) string
	Keys     func() (access, secret string, err error)
}

// Source answers queries. It is safe for concurrent use.
type Source interface {
	// Window returns the series of the answer in order of their Identity. Their names are empty, so that two metrics with
	// one query share an answer. Without a series the result is empty and not an error. An error means that the window is
	// unknown.
	Window(ctx context.Context, q metrics.Query) ([]metrics.Series, error)
}

// Router is a store that reads the windows of sources from them, and everything else from the store of the pool.
type Router struct {
	metrics.Store
	Sources map[string]Source // by name
}

// Window returns the series of a query; see metrics.Store.
func (r Router) Window(ctx context.Context, q metrics.Query) ([]metrics.Series, error) {
	if q.Source == "" {
		return r.Store.Window(ctx, q)
	}
	s, ok := r.Sources[q.Source]
	if !ok {
		return nil, fmt.Errorf("source %q is not in weir.yaml: it has %s", q.Source, strings.Join(slices.Sorted(maps.Keys(r.Sources)), ", "))
	}
	return s.Window(ctx, q)
}

// maxSkew is how far the clock of a source may differ from this host's.
const maxSkew = time.Minute

// Skew returns an error if the time of a source is far from now. The points of a source with another clock would appear
// newer or older than they are.
func Skew(there, now time.Time) error {
	if ahead := there.Sub(now); ahead > maxSkew || ahead < -maxSkew {
		return fmt.Errorf("the clock of the server differs by %v from this host's: synchronize both", ahead.Round(time.Second))
	}
	return nil
}

// VariableAt returns the name of the variable whose "$" is at i, and where it ends. The name is empty if no letter follows.
func VariableAt(text string, i int) (name string, end int) {
	end = i + 1
	for end < len(text) && (text[end] == '_' || text[end] >= 'a' && text[end] <= 'z' || text[end] >= 'A' && text[end] <= 'Z' || end > i+1 && text[end] >= '0' && text[end] <= '9') {
		end++
	}
	return text[i+1 : end], end
}

// Grid returns the first and the last second of the points of a query: multiples of its Step, complete, within the
// window. There is no point if to is before from.
func Grid(q metrics.Query) (from, to int64) {
	q.To = q.To.Add(-q.Lag)
	from, to = q.Seconds()
	step := max(int64(q.Step/time.Second), 1)
	return -floor(-from, step), floor(to, step)
}

// floor returns the largest multiple of step that is not above second.
func floor(second, step int64) int64 { return second - (second%step+step)%step }
