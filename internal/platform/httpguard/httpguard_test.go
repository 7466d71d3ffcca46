package httpguard_test

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/internal/platform/httpguard"
)

func request(headers map[string]string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8080/", nil)
	for k, v := range headers {
		r.Header.Set(k, v)
	}
	return r
}

// A page of another site is refused by its site or its origin; programs and the own pages are served.
func TestSameSite(t *testing.T) {
	for _, test := range []struct {
		headers map[string]string
		want    bool
	}{
		{nil, true},
		{map[string]string{"Sec-Fetch-Site": "none"}, true},
		{map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:8080"}, true},
		{map[string]string{"Sec-Fetch-Site": "cross-site"}, false},
		{map[string]string{"Sec-Fetch-Site": "same-site"}, false},
		{map[string]string{"Origin": "http://127.0.0.1:9090"}, false},
		{map[string]string{"Origin": "null"}, false},
		{map[string]string{"Origin": "://"}, false},
	} {
		if got := httpguard.SameSite(request(test.headers)); got != test.want {
			t.Errorf("SameSite(%v) = %t, want %t", test.headers, got, test.want)
		}
	}
}

// On a loopback address, names of other hosts are refused. On other addresses every name is served.
func TestOfThisHost(t *testing.T) {
	for _, test := range []struct {
		own, host string
		want      bool
	}{
		{"127.0.0.1", "127.0.0.1:8080", true}, {"127.0.0.1", "localhost:8080", true}, {"::1", "[::1]:8080", true}, {"127.0.0.1", "", true},
		{"127.0.0.1", "rebound.example:8080", false}, {"::ffff:127.0.0.1", "rebound.example", false}, {"10.0.0.1", "weir.example", true},
	} {
		r := request(nil)
		r.Host = test.host
		if got := httpguard.OfThisHost(&net.TCPAddr{IP: net.ParseIP(test.own), Port: 8080}, r); got != test.want {
			t.Errorf("OfThisHost(%s, %q) = %t, want %t", test.own, test.host, got, test.want)
		}
	}
}

func TestBearer(t *testing.T) {
	for header, want := range map[string]string{"": "", "Bearer secret": "secret", "Basic secret": "", "Bearer ": ""} {
		if got := httpguard.Bearer(request(map[string]string{"Authorization": header})); got != want {
			t.Errorf("Bearer(%q) = %q, want %q", header, got, want)
		}
	}
	if !httpguard.Equal("a", "a") || httpguard.Equal("a", "b") || httpguard.Equal("", "b") {
		t.Error("Equal compares other than by value")
	}
}

// All requests beyond the slots are refused, and a slot is free after its request.
func TestAtMost(t *testing.T) {
	slots := make(chan struct{}, 1)
	h := httpguard.AtMost(slots, func(http.ResponseWriter, *http.Request) {})
	serve := func() int {
		w := httptest.NewRecorder()
		h(w, request(nil))
		return w.Code
	}
	slots <- struct{}{}
	if got := serve(); got != http.StatusServiceUnavailable {
		t.Errorf("status %d with all slots taken, want 503", got)
	}
	<-slots
	if first, second := serve(), serve(); first != http.StatusOK || second != http.StatusOK {
		t.Errorf("status %d and %d with a free slot, want 200", first, second)
	}
}

// Ten thousand clients that send no request, or as many as the limit of open files permits, do not keep others out.
func TestSlowConnectionsAreClosed(t *testing.T) {
	const most = 1024 // as the API
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httpguard.Server(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), most, slog.New(slog.DiscardHandler))
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	defer func() {
		server.Close()
		<-done
	}()
	for range min(10_000, files.Cur/2) {
		slow, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer slow.Close()
		if _, err := slow.Write([]byte("GET / HT")); err != nil {
			t.Fatal(err)
		}
	}
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("status %d, want 200", answer.StatusCode)
	}
}

// A handler may take longer than the server waits for a request, with and without a body. A body that does not arrive ends at
// that time.
func TestHandlerOutlivesTheReadTimeout(t *testing.T) {
	t.Parallel()
	const wait = time.Second
	server := httpguard.Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusRequestTimeout)
			return
		}
		select {
		case <-time.After(wait * 3 / 2):
		case <-r.Context().Done():
			w.WriteHeader(http.StatusGatewayTimeout)
		}
	}), 8, slog.New(slog.DiscardHandler))
	server.ReadTimeout = wait
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns := map[string]net.Conn{}
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n":                                "HTTP/1.1 200 OK",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody":      "HTTP/1.1 200 OK",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nno end":    "HTTP/1.1 408 Request Timeout",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n": "HTTP/1.1 408 Request Timeout",
	} {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, request); err != nil { // before the server waits for it
			t.Fatal(err)
		}
		conns[want+"\n"+request] = conn
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	defer func() {
		server.Close()
		<-done
	}()
	for name, conn := range conns {
		want, _, _ := strings.Cut(name, "\n")
		if line, err := bufio.NewReader(conn).ReadString('\n'); strings.TrimSpace(line) != want {
			t.Errorf("%q, %v: want %q", line, err, name)
		}
	}
}
