package bus_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// The greeting has the certificate that a client rejects, also if the server wants one of the client.
func TestGreet(t *testing.T) {
	ca := newAuthority(t)
	expired := time.Now().Add(-time.Hour).Truncate(time.Second)
	mutual := ca.serverTLS(expired)
	mutual.TLSConfig.ClientAuth, mutual.TLSVerify = tls.RequireAndVerifyClientCert, true
	for name, tc := range map[string]struct {
		options   server.Options
		jetStream bool
		encrypted bool
	}{
		"plain":       {server.Options{ServerName: "n1", JetStream: true, StoreDir: t.TempDir()}, true, false},
		"TLS":         {ca.serverTLS(expired), false, true},
		"mutual TLS":  {mutual, false, true},
		"needs users": {server.Options{Authorization: "hush"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			g, err := bus.Greet(ctx, bustest.Serve(t, tc.options).ClientURL())
			if err != nil || g.Version != server.VERSION || g.JetStream != tc.jetStream || (g.Certificates != nil) != tc.encrypted {
				t.Fatalf("Greet = %+v, %v", g, err)
			}
			if tc.encrypted && !g.Certificates[0].NotAfter.Equal(expired) {
				t.Errorf("the certificate ends at %v, want %v", g.Certificates[0].NotAfter, expired)
			}
		})
	}
}

// A server that sends nothing, or no greeting, costs the deadline at most.
func TestGreetOfAnotherServer(t *testing.T) {
	for name, tc := range map[string]struct {
		sends   string
		timeout time.Duration
	}{"silent": {"", 50 * time.Millisecond}, "HTTP": {"HTTP/1.1 400 Bad Request\r\n\r\n", patience}, "endless": {string(make([]byte, 1<<20)), patience}} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			done := make(chan struct{})
			go func() {
				defer close(done)
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				_, _ = c.Write([]byte(tc.sends)) // fails if the client has enough
				_, _ = c.Read(make([]byte, 1))   // until the client ends
			}()
			ctx, cancel := context.WithTimeout(t.Context(), tc.timeout)
			defer cancel()
			if g, err := bus.Greet(ctx, "nats://"+l.Addr().String()); err == nil {
				t.Errorf("Greet = %+v, want an error", g)
			}
			<-done
		})
	}
}

// Files with an end are listed with their key.
func TestExpiries(t *testing.T) {
	ca := newAuthority(t)
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	_, cert, key := ca.leaf(end)
	all, err := bus.NATS{Servers: []string{"tls://n1"}, TLS: bus.TLS{CAFile: ca.file, CertFile: cert, KeyFile: key}}.Expiries()
	if err != nil || len(all) != 2 || all[0].Key != "tls.cert_file" || all[0].Path != cert || !all[0].End.Equal(end) || all[1].Key != "tls.ca_file" || all[1].End.IsZero() {
		t.Errorf("Expiries = %+v, %v", all, err)
	}
	if all, err := (bus.NATS{TLS: bus.TLS{CAFile: cert + ".missing"}}).Expiries(); err == nil {
		t.Errorf("Expiries of a missing file = %+v", all)
	}
}
