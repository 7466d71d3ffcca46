package agent

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
)

func startWith(instance string, ports ...api.Port) wire.StartRequest {
	return wire.StartRequest{App: "web", Version: "v1", Instance: instance, Command: "run", Ports: ports}
}

// No two instances of a node have one port, also before they listen on it.
func TestPortsAreKeptApart(t *testing.T) {
	m := newMachine(Config{ID: "n"}, "boot")
	foreign := map[int]bool{9000: true, 20_001: true}
	m.ports = ports{0, func(n int) bool { return !foreign[n] }}
	now := time.Unix(1_700_000_000, 0)
	admit := func(r wire.StartRequest, want string, ports map[string]int) {
		t.Helper()
		c, err := m.admit(now, r)
		if want != "" {
			e, _ := errors.AsType[*call.Error](err)
			if e == nil || e.Code != wire.CodePort || !strings.Contains(e.Message, want) {
				t.Errorf("%s: error %v, want %s: %s", r.Instance, err, wire.CodePort, want)
			}
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", r.Instance, err)
		}
		for name, n := range ports {
			if c.ports[name] != n {
				t.Errorf("%s: port %s is %d, want %d", r.Instance, name, c.ports[name], n)
			}
		}
	}
	auto := func(name string) api.Port { return api.Port{Name: name, Port: api.AutoPort} }
	admit(startWith("a", api.Port{Name: "http", Port: 8080}, auto("x")), "", map[string]int{"http": 8080, "x": 20_000})
	admit(startWith("b", auto("x"), auto("y")), "", map[string]int{"x": 20_002, "y": 20_003})
	admit(startWith("c", api.Port{Name: "http", Port: 8080}), "port 8080 of node n is in use by another app instance", nil)
	admit(startWith("c", api.Port{Name: "http", Port: 20_002}), "in use by another app instance", nil)
	admit(startWith("c", api.Port{Name: "http", Port: 9000}), "port 9000 of node n is in use by another process", nil)
	admit(startWith("c", auto("x"), api.Port{Name: "http", Port: 20_004}), "", map[string]int{"x": 20_005, "http": 20_004})
	m.exited(now, "a", outcome{}, false)
	admit(startWith("d", api.Port{Name: "http", Port: 8080}, auto("x")), "", map[string]int{"http": 8080, "x": 20_006})
}

func TestNodeWithoutFreePorts(t *testing.T) {
	p := ports{0, func(int) bool { return false }}
	_, err := p.choose("n", []api.Port{{Name: "x", Port: api.AutoPort}}, nil)
	if e, _ := errors.AsType[*call.Error](err); e == nil || e.Code != wire.CodeNoRoom {
		t.Errorf("error %v, want %s", err, wire.CodeNoRoom)
	}
}

func TestPortInUseIsNotFree(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		if isFree(port) {
			t.Errorf("port %d of %s is free, want in use", port, l.Addr())
		}
		l.Close()
		if !isFree(port) {
			t.Errorf("port %d is in use after its end", port)
		}
	}
}

func TestPortVariables(t *testing.T) {
	r := startWith("a", api.Port{Name: "http", Port: 8080}, api.Port{Name: "admin-ui-2", Port: api.AutoPort})
	r.Env = map[string]string{"PORT": "1", "PORT_OTHER": "2"}
	env := strings.Join(environment(Config{}, r, map[string]int{"http": 8080, "admin-ui-2": 20_000}, "/d", ""), " ")
	for _, want := range []string{"PORT=8080", "PORT_HTTP=8080", "PORT_ADMIN_UI_2=20000", "PORT_OTHER=2"} {
		if !strings.Contains(env, want) {
			t.Errorf("%s: want %s", env, want)
		}
	}
	if strings.Contains(env, "PORT=1 ") {
		t.Errorf("%s: the variable of the application applies, want that of the agent", env)
	}
}
