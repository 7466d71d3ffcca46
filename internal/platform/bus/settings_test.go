package bus_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
)

func TestCheckReportsEveryMistakeOfTheBlock(t *testing.T) {
	many := make([]string, 33)
	for i := range many {
		many[i] = fmt.Sprintf("nats://n%d", i)
	}
	servers := []string{"tls://n1:4222", "nats://n2", "n3:4222"}
	for name, tc := range map[string]struct {
		in   bus.NATS
		want []string
	}{
		"zero":      {bus.NATS{}, nil},
		"a cluster": {bus.NATS{Servers: servers, CredentialsFile: "c", TLS: bus.TLS{CAFile: "ca", CertFile: "c", KeyFile: "k"}, Replicas: 3}, nil},
		"a user":    {bus.NATS{Servers: []string{"nats://u:p@n1:4222/", "nats://n2"}}, nil},
		"password":  {bus.NATS{Servers: servers, User: "u", PasswordFile: "p"}, nil},
		"too many":  {bus.NATS{Servers: many}, []string{"servers: has 33 servers: want at most 32"}},
		"servers": {bus.NATS{Servers: []string{"http://n1", "nats://", "nats://n1/x", "nats://u:hu%zzsh@n1", "n2", "n2"}}, []string{
			`servers[0]: has the scheme "http": want nats://HOST:PORT or tls://HOST:PORT`,
			"servers[1]: has no host: want nats://HOST:PORT or tls://HOST:PORT",
			"servers[2]: has more than a host and a port: want nats://HOST:PORT or tls://HOST:PORT",
			"servers[3]: is not a URL: want nats://HOST:PORT or tls://HOST:PORT",
			"servers[5]: is in the list twice: remove one",
		}},
		"two ways":    {bus.NATS{Servers: servers, NKeyFile: "n", TokenFile: "t"}, []string{"token_file: conflicts with nkey_file: keep one way to authenticate"}},
		"half a user": {bus.NATS{Servers: servers, User: "u"}, []string{"user: needs password_file, and password_file needs user: give both, or neither"}},
		"two users":   {bus.NATS{Servers: []string{"nats://u:p@n1"}, TokenFile: "t"}, []string{"token_file: conflicts with the user in a server's URL: remove the user from the URL"}},
		"no servers":  {bus.NATS{CredentialsFile: "c", TLS: bus.TLS{CAFile: "ca"}}, []string{"servers: is missing: the other keys need it"}},
		"half a pair": {bus.NATS{Servers: servers, TLS: bus.TLS{KeyFile: "k"}}, []string{"tls: has cert_file or key_file alone: give both, or neither"}},
		"replicas":    {bus.NATS{Servers: servers, Replicas: 6}, []string{"replicas: is 6: want 1 to 5"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range tc.in.Check() {
				got = append(got, p.Key+": "+p.What)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Check (-want +got):\n%s", diff)
			}
		})
	}
}

func TestServersOfAFlagKeepCredentialsOfTheFile(t *testing.T) {
	file := bus.NATS{Servers: []string{"nats://n1"}, CredentialsFile: "c", TLS: bus.TLS{CAFile: "ca"}, Replicas: 3}
	want := bus.NATS{Servers: []string{"nats://n9"}, CredentialsFile: "c", TLS: bus.TLS{CAFile: "ca"}, Replicas: 3}
	if diff := cmp.Diff(want, file.At([]string{"nats://n9"})); diff != "" {
		t.Errorf("other servers (-want +got):\n%s", diff)
	}
	want = bus.NATS{Servers: []string{"nats://u:p@n9"}, TLS: bus.TLS{CAFile: "ca"}, Replicas: 3}
	if diff := cmp.Diff(want, file.At([]string{"nats://u:p@n9"})); diff != "" {
		t.Errorf("other servers with a user (-want +got):\n%s", diff)
	}
}

func TestBelowResolvesRelativePaths(t *testing.T) {
	abs := filepath.Join(t.TempDir(), "abs")
	got := bus.NATS{NKeyFile: "n", TLS: bus.TLS{CAFile: abs, KeyFile: "k/k.pem"}}.Below("/etc/weir")
	want := bus.NATS{NKeyFile: "/etc/weir/n", TLS: bus.TLS{CAFile: abs, KeyFile: "/etc/weir/k/k.pem"}}
	if !got.Equal(want) {
		t.Errorf("Below = %+v, want %+v", got, want)
	}
}
