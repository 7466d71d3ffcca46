package influx

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictyaml"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/store"
)

// settings is the value of the key "metrics.influx" in the service file: a bucket.
type settings struct {
	URL       string `yaml:"url"`
	Org       string `yaml:"org"`    // of InfluxDB 2
	Bucket    string `yaml:"bucket"` // of InfluxDB 1.8: "database/retention policy"
	TokenFile string `yaml:"token_file"`
}

// Ignored returns why keys are ignored.
func (settings) Ignored() map[string]string {
	return map[string]string{"language": "is ignored: windows are read with InfluxQL, which all versions have"}
}

// maxToken bounds the file of a token, in bytes.
const maxToken = 64 << 10

// StoreKind returns InfluxDB's kind.
func StoreKind() store.Kind {
	return store.Kind{
		Key: "influx", About: "a bucket of InfluxDB 1.8, 2 or 3", New: func() store.Settings { return new(settings) },
		Open: func(site store.Site) (metrics.Store, error) {
			s := site.Settings.(*settings) // New has created it
			var token string
			if s.TokenFile != "" {
				data, err := inputfile.Read(s.TokenFile, maxToken)
				if err != nil {
					return nil, fmt.Errorf("metrics.influx.token_file: %w", err)
				}
				if len(data) > maxToken {
					return nil, fmt.Errorf("metrics.influx.token_file: %s has more than %d bytes: name the file of a token", s.TokenFile, maxToken)
				}
				token = strings.TrimSpace(string(data))
			}
			return New(Config{URL: s.URL, Org: s.Org, Bucket: s.Bucket, Token: Token(token)})
		},
	}
}

// Check implements store.Settings.
func (s *settings) Check() strictyaml.Problems {
	var ps strictyaml.Problems
	problem := func(key, what string) { ps = append(ps, &strictyaml.Problem{Key: key, What: what}) }
	if u, err := url.Parse(s.URL); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		problem("url", fmt.Sprintf("is %q: want http(s)://host[:port]", s.URL))
	} else if u.User != nil {
		problem("url", "contains a password: put the token in token_file")
	}
	if s.Bucket == "" {
		problem("bucket", "is missing: want the bucket, of InfluxDB 1.8 database/retention policy")
	}
	return ps
}
