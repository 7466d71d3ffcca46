package agent

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
)

// The range of auto ports. It is below the range that Linux takes for outgoing connections, which begins at 32768.
const (
	firstAutoPort = 20_000
	autoPorts     = 12_000
)

// ports chooses the ports of new copies.
type ports struct {
	next int            // of the auto ports; each choice goes on behind the last one, so that a port of an ended copy rests
	free func(int) bool // reports whether no process of the machine listens on the port
}

func newPorts() ports { return ports{rand.IntN(autoPorts), isFree} }

// isFree listens on all addresses for a moment. Another error than that of a used port is for the command to find.
func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(port)))
	if err == nil {
		err = l.Close()
	}
	return !errors.Is(err, syscall.EADDRINUSE)
}

// choose returns the number of each port of a copy, by name. used are the ports of the other copies, which may not listen yet.
func (p *ports) choose(node string, wanted []api.Port, used map[int]bool) (map[string]int, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	chosen := make(map[string]int, len(wanted))
	taken := map[int]bool{}
	for _, w := range wanted {
		if w.Port == api.AutoPort {
			continue
		}
		n := int(w.Port)
		if used[n] || !p.free(n) {
			by := "another process"
			if used[n] {
				by = "another app instance"
			}
			return nil, &call.Error{Code: wire.CodePort, Message: fmt.Sprintf("port %d of node %s is in use by %s", n, node, by)}
		}
		chosen[w.Name], taken[n] = n, true
	}
	for _, w := range wanted {
		if w.Port != api.AutoPort {
			continue
		}
		n := p.auto(used, taken)
		if n == 0 {
			return nil, &call.Error{Code: wire.CodeNoRoom, Message: fmt.Sprintf("node %s has no free port from %d to %d", node, firstAutoPort, firstAutoPort+autoPorts-1)}
		}
		chosen[w.Name], taken[n] = n, true
	}
	return chosen, nil
}

// auto returns a free port, or 0.
func (p *ports) auto(used, taken map[int]bool) int {
	for range autoPorts {
		n := firstAutoPort + p.next
		p.next = (p.next + 1) % autoPorts
		if !used[n] && !taken[n] && p.free(n) {
			return n
		}
	}
	return 0
}

// usedPorts returns the ports of all copies.
func (m *machine) usedPorts() map[int]bool {
	used := map[int]bool{}
	for _, c := range m.copies {
		for _, n := range c.ports {
			used[n] = true
		}
	}
	return used
}

// portVariables returns the environment variables with the ports of a copy.
func portVariables(r wire.StartRequest, chosen map[string]int) (all []string) {
	for i, p := range r.Ports {
		number := strconv.Itoa(chosen[p.Name])
		if i == 0 {
			all = append(all, "PORT="+number)
		}
		all = append(all, p.Variable()+"="+number)
	}
	return all
}
