package prometheus

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/metrics/source"
	"github.com/weirkeeper/weirkeeper/metrics/store"
)

// settings is the value of the key "prometheus" of a source.
type settings struct {
	URL             string        `yaml:"url"`               // of the API, without /api/v1
	BearerTokenFile string        `yaml:"bearer_token_file"` // read for each request
	User            string        `yaml:"user"`              // with password_file
	PasswordFile    string        `yaml:"password_file"`
	TLS             tlsFiles      `yaml:"tls"`
	Timeout         time.Duration `yaml:"timeout"` // of a request; default 5s
}

// tlsFiles has the files of an encrypted connection. A new connection reads them again.
type tlsFiles struct {
	CAFile     string `yaml:"ca_file"`   // PEM certificates that sign the server's; default: those of the system
	CertFile   string `yaml:"cert_file"` // PEM certificate of this client, with key_file
	KeyFile    string `yaml:"key_file"`
	ServerName string `yaml:"server_name"` // in the server's certificate; default: the host of the URL
}

const (
	defaultTimeout = 5 * time.Second
	defaultStep    = 15 * time.Second
	// maxPoints is how many points of a series Prometheus answers at most.
	maxPoints = 11_000
	// maxText bounds a query, in bytes.
	maxText = 16 << 10
)

// Kind returns the kind of servers with the API of Prometheus.
func Kind() source.Kind {
	return source.Kind{
		Key: "prometheus", About: "a server with the API of Prometheus, such as Thanos, Mimir or VictoriaMetrics",
		New: func() store.Settings { return &settings{} }, Compile: compile,
		Open: func(site source.Site) (source.Source, error) { return open(site.Name, *site.Settings.(*settings)) },
	}
}

// Check implements store.Settings.
func (s *settings) Check() strictyaml.Problems {
	return s.check("http(s)://host[:port][/path], without /api/v1")
}

// check returns the mistakes of the settings. form is the form of the url.
func (s *settings) check(form string) strictyaml.Problems {
	var ps strictyaml.Problems
	problem := func(key, what string) { ps = append(ps, &strictyaml.Problem{Key: key, What: what}) }
	u, err := url.Parse(s.URL)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		problem("url", fmt.Sprintf("is %q: want %s", s.URL, form))
	case u.User != nil:
		problem("url", "contains a password: put it into password_file, with user")
	case u.RawQuery != "" || u.Fragment != "":
		problem("url", "has a query or a fragment: want the address only")
	case u.Scheme == "http" && s.TLS != (tlsFiles{}):
		problem("url", "is without encryption, but tls is given: want https, or remove tls")
	}
	if s.BearerTokenFile != "" && s.User != "" {
		problem("bearer_token_file", "conflicts with user: keep one way to authenticate")
	}
	if (s.User == "") != (s.PasswordFile == "") {
		problem("user", "needs password_file, and password_file needs user: give both, or neither")
	}
	if (s.TLS.CertFile == "") != (s.TLS.KeyFile == "") {
		problem("tls", "has cert_file or key_file alone: give both, or neither")
	}
	if s.Timeout < 0 || s.Timeout > time.Minute {
		problem("timeout", fmt.Sprintf("is %v: want at most 1m", s.Timeout))
	}
	return ps
}

// Below resolves relative paths below dir.
func (s *settings) Below(dir string) {
	for _, path := range []*string{&s.BearerTokenFile, &s.PasswordFile, &s.TLS.CAFile, &s.TLS.CertFile, &s.TLS.KeyFile} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
}

// compile implements source.Kind.
func compile(f source.Form, window time.Duration) (source.Query, strictyaml.Problems) {
	ps := f.Unused("prometheus", "query", "step", "lag")
	problem := func(key, what string) { ps = append(ps, &strictyaml.Problem{Key: key, What: what}) }
	q := source.Query{Text: f.Query, Step: cmp.Or(f.Step, defaultStep), Whole: ofRange.MatchString(f.Query)}
	if f.Lag != nil {
		q.Lag = *f.Lag
	}
	switch what := mistake(f.Query); {
	case f.Query == "":
		problem("query", "is missing: want an expression in PromQL")
	case len(f.Query) > maxText:
		problem("query", fmt.Sprintf("has %d bytes: want at most %d", len(f.Query), maxText))
	case what != "":
		problem("query", what)
	}
	switch points := window / max(q.Step, 1); {
	case q.Step < time.Second || q.Step%time.Second != 0:
		problem("step", fmt.Sprintf("is %v: want whole seconds", f.Step))
	case q.Step > window:
		problem("step", fmt.Sprintf("is %v: the range %v has no two points", q.Step, window))
	case points > maxPoints:
		problem("step", fmt.Sprintf("is %v: the range %v has %d points then, at most %d are possible; want %v or more", q.Step, window, points, maxPoints, leastStep(window)))
	}
	if q.Lag < 0 || q.Lag >= window {
		problem("lag", fmt.Sprintf("is %v: want less than the range", q.Lag))
	}
	return q, ps
}

// leastStep returns the shortest step of a window, in whole seconds.
func leastStep(window time.Duration) time.Duration {
	return (window/maxPoints + time.Second - 1).Truncate(time.Second)
}
