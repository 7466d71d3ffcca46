package cloudwatch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/source"
	"github.com/weirkeeper/weirkeeper/metrics/store"
)

// key is the key of the kind below a source, and the name of the service in the endpoint of an account.
const key = "cloudwatch"

// settings is the value of the key "cloudwatch" of a source.
type settings struct {
	Region        string        `yaml:"region"`          // of the metrics
	EndpointURL   string        `yaml:"endpoint_url"`    // default: that of the block "aws", else AWS
	AccessKeyFile string        `yaml:"access_key_file"` // the same
	Timeout       time.Duration `yaml:"timeout"`         // of all calls of a tick; default 5s
}

const (
	defaultTimeout = 5 * time.Second
	// defaultLag is the time after the end of a period in which most services of AWS still add to it.
	defaultLag = time.Minute
	day        = 24 * time.Hour
)

// Bounds of AWS.
const (
	maxDimensions = 30
	maxName       = 255  // bytes of a namespace, of the name of a metric or of a dimension
	maxValue      = 1024 // bytes of the value of a dimension
	oldest        = 455 * day
)

// Kind returns the kind of CloudWatch.
func Kind() source.Kind {
	return source.Kind{
		Key: key, About: "metrics of AWS, such as the length of a queue",
		New: func() store.Settings { return &settings{} }, Compile: compile,
		Open: func(site source.Site) (source.Source, error) { return open(site, *site.Settings.(*settings)) },
	}
}

var region = regexp.MustCompile(`^[a-z]{2,}(-[a-z]+)+-\d{1,2}$`)

// Check implements store.Settings.
func (s *settings) Check() strictyaml.Problems {
	var ps strictyaml.Problems
	if !region.MatchString(s.Region) {
		ps = append(ps, &strictyaml.Problem{Key: "region", What: fmt.Sprintf("is %q: want the region of the metrics, such as eu-west-1", s.Region)})
	}
	if u, err := url.Parse(s.EndpointURL); s.EndpointURL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		ps = append(ps, &strictyaml.Problem{Key: "endpoint_url", What: fmt.Sprintf("is %q: want http(s)://host[:port]", s.EndpointURL)})
	}
	if s.Timeout < 0 || s.Timeout > time.Minute {
		ps = append(ps, &strictyaml.Problem{Key: "timeout", What: fmt.Sprintf("is %v: want at most 1m", s.Timeout)})
	}
	return ps
}

// Below resolves relative paths below dir.
func (s *settings) Below(dir string) {
	if s.AccessKeyFile != "" && !filepath.IsAbs(s.AccessKeyFile) {
		s.AccessKeyFile = filepath.Join(dir, s.AccessKeyFile)
	}
}

// compile implements source.Kind. The text of the query is the metric as JSON. The point of a period has the time of its
// begin, so it is complete a period and the lag later.
func compile(f source.Form, window time.Duration) (source.Query, strictyaml.Problems) {
	ps := f.Unused(key, "metric", "period", "lag")
	problem := func(key, what string) { ps = append(ps, &strictyaml.Problem{Key: key, What: what}) }
	lag := defaultLag
	if f.Lag != nil {
		lag = *f.Lag
	}
	least := leastPeriod(window)
	q := source.Query{Step: cmp.Or(f.Period, max(least, time.Minute))}
	q.Lag = lag + q.Step
	switch {
	case q.Step < time.Second || q.Step < time.Minute && !slices.Contains([]int64{1, 5, 10, 20, 30}, int64(q.Step/time.Second)) || q.Step%time.Second != 0 || q.Step > time.Minute && q.Step%time.Minute != 0:
		problem("period", fmt.Sprintf("is %v: want 1, 5, 10, 20 or 30 seconds, or whole minutes", f.Period))
	case q.Step%least != 0:
		problem("period", fmt.Sprintf("is %v: AWS has points as old as the range, %v, by %v only; want a multiple of that", q.Step, window, least))
	case window > oldest:
		problem("range", fmt.Sprintf("is %v: AWS has points of 455 days", window))
	case lag < 0 || window < q.Lag+q.Step:
		problem("lag", fmt.Sprintf("is %v: the range %v has no complete period of %v then", lag, window, q.Step))
	}
	if f.Metric == nil {
		problem("metric", "is missing: want {namespace: AWS/SQS, name: ..., dimensions: {...}, stat: Maximum}")
		return q, ps
	}
	for _, p := range mistakes(*f.Metric) {
		problem("metric."+p.Key, p.What)
	}
	text, _ := json.Marshal(f.Metric) // texts only
	q.Text = string(text)
	return q, ps
}

// ages bound the ages of the first point of a window, for which AWS has points of a second, of a minute (twice), of 5 minutes,
// and of an hour. They are shorter than those of AWS: the begin of a call is up to an hour earlier than that of a window.
var ages = [...]time.Duration{3*time.Hour - 10*time.Minute, day, 15*day - 2*time.Hour, 63*day - 2*time.Hour, math.MaxInt64}

// leastPeriod returns the shortest period of which AWS has all points of a window.
func leastPeriod(window time.Duration) time.Duration {
	return [...]time.Duration{time.Second, time.Minute, time.Minute, 5 * time.Minute, time.Hour}[ageOf(window)]
}

// ageOf returns the index in ages of the age of a point.
func ageOf(age time.Duration) (i int) {
	for age > ages[i] {
		i++
	}
	return i
}

var stat = regexp.MustCompile(`^(SampleCount|Average|Sum|Minimum|Maximum|IQM|(p|tm|tc|ts|wm)(100|\d{1,2}(\.\d{1,10})?)|(TM|TC|TS|WM|PR)\([0-9.%]*:[0-9.%]*\))$`)

// mistakes returns what AWS would reject in a metric.
func mistakes(m source.Metric) (ps strictyaml.Problems) {
	problem := func(key, format string, args ...any) {
		ps = append(ps, &strictyaml.Problem{Key: key, What: fmt.Sprintf(format, args...)})
	}
	for _, name := range []struct{ key, is string }{{"namespace", m.Namespace}, {"name", m.Name}} {
		if !proper(name.is, maxName) {
			problem(name.key, "is %.100q: want 1 to %d characters of ASCII that do not begin with a colon", name.is, maxName)
		} else if v, _ := variable(name.is); v != "" {
			problem(name.key, "has the variable $%.100s: variables are for values of dimensions", v)
		}
	}
	if len(m.Dimensions) > maxDimensions {
		problem("dimensions", "has %d dimensions: want at most %d", len(m.Dimensions), maxDimensions)
	}
	for name, value := range m.Dimensions {
		v, known := variable(value)
		switch own, _ := variable(name); {
		case !proper(name, maxName) || own != "":
			problem("dimensions", "has the name %.100q: want 1 to %d characters of ASCII that do not begin with a colon, without variables", name, maxName)
		case !proper(value, maxValue):
			problem("dimensions."+name, "is %.100q: want 1 to %d characters of ASCII that do not begin with a colon", value, maxValue)
		case !known:
			problem("dimensions."+name, "has the unknown variable $%.100s: want $%s", v, strings.Join(metrics.Variables(), ", $"))
		}
	}
	if !stat.MatchString(m.Stat) {
		problem("stat", "is %.100q: want Average, Sum, Minimum, Maximum, SampleCount, or a percentile such as p99", m.Stat)
	}
	return ps
}

// proper reports whether AWS accepts a text as a name or a value.
func proper(text string, most int) bool {
	ascii := strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0
	return strings.TrimSpace(text) != "" && len(text) <= most && ascii && text[0] != ':'
}

// variable returns an unknown variable of a text, or one of its variables, or nothing.
func variable(text string) (name string, known bool) {
	for i := range len(text) {
		if text[i] != '$' {
			continue
		}
		if v, _ := source.VariableAt(text, i); v != "" {
			name = v
			if !slices.Contains(metrics.Variables(), v) {
				return name, false
			}
		}
	}
	return name, true
}

// expand returns a value with its variables replaced.
func expand(text string, values map[string]string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		name, end := "", i
		if text[i] == '$' {
			name, end = source.VariableAt(text, i)
		}
		if name == "" {
			b.WriteByte(text[i])
			continue
		}
		b.WriteString(values[name])
		i = end - 1
	}
	return b.String()
}
