package grpc

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

func TestCheck(t *testing.T) {
	for text, want := range map[string]string{
		"{address: 'unix:///run/x.sock', group: web}":                                                          "",
		"{address: '127.0.0.1:1', group: 'web-*', timeout: 1m}":                                                "",
		"{address: 'localhost:1', group: 'a b'}":                                                               "",
		"{address: '[::1]:1', group: '?'}":                                                                     "",
		"{address: 'machines:1', group: web, tls: {}}":                                                         "",
		"{address: 'machines:1', group: web, tls: {ca_file: /a, cert_file: /b, key_file: /c, server_name: n}}": "",
		"{address: 'unix:///s', group: web, tls: {server_name: n}}":                                            "",
		"{}":                                                 `address: is "": want host:port or unix:///path, group: is ""`,
		"{address: machines, group: web}":                    `address: is "machines": want host:port`,
		"{address: ':1', group: web}":                        "address: is \":1\"",
		"{address: 'https://h:1', group: web}":               "address: is \"https://h:1\"",
		"{address: 'unix://run/x', group: web}":              "want unix:///path, with three slashes",
		"{address: 'machines:1', group: web}":                "tls: is missing: machines:1 is not on this host",
		"{address: '10.0.0.1:1', group: web}":                "tls: is missing: 10.0.0.1:1 is not on this host",
		"{address: 'unix:///s', group: w, tls: {}}":          "tls.server_name: is missing",
		"{address: 'h:1', group: web, tls: {ca_file: a}}":    `tls.ca_file: is "a": want an absolute path`,
		"{address: 'h:1', group: web, tls: {cert_file: /a}}": "tls: has cert_file or key_file alone",
		"{address: 'localhost:1', group: '['}":               `group: is "[": want the id of a group, or a pattern`,
		`{address: 'localhost:1', group: "\e[2J"}`:           `group: is "\x1b[2J"`,
		"{address: 'localhost:1', group: w, timeout: -1s}":   "timeout: is -1s: want at most 1m0s",
		"{address: 'localhost:1', group: w, timeout: 61s}":   "timeout: is 1m1s",
	} {
		s := new(selector)
		if err := yaml.Unmarshal([]byte(text), s); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range s.Check() {
			got = append(got, p.Key+": "+p.What)
		}
		if all := strings.Join(got, ", "); want == "" && all != "" || !strings.Contains(all, want) {
			t.Errorf("%s: %q, want %q", text, all, want)
		}
	}
}
