package bustest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"testing"
)

// Reserved ports are below the range from which the system takes ports of connections.
const (
	firstPort     = 15000
	systemPorts   = 32768 // the usual first port of the system
	portAttempts  = 2000
	systemsRanges = "/proc/sys/net/ipv4/ip_local_port_range"
)

// Ports returns free ports of 127.0.0.1 that no other test gets until this one ends. A port is reserved by a name in
// the kernel, which disappears with the process. So a server may stop and listen on its port again.
func Ports(tb testing.TB, n int) (ports []int) {
	tb.Helper()
	last := systemPorts
	if text, err := os.ReadFile(systemsRanges); err == nil {
		if _, err := fmt.Sscan(string(text), &last); err != nil || last > 1<<16 || last <= firstPort {
			tb.Fatalf("%s begins at %d, want more than %d", systemsRanges, last, firstPort)
		}
	}
	for range portAttempts {
		if len(ports) == n {
			return ports
		}
		if port := firstPort + rand.IntN(last-firstPort); reserve(tb, port) {
			ports = append(ports, port)
		}
	}
	tb.Fatalf("no %d free ports from %d to %d", n, firstPort, last)
	return nil
}

// reserve reports whether the port is free and now belongs to this test.
func reserve(tb testing.TB, port int) bool {
	name, err := net.Listen("unix", fmt.Sprintf("@weir-test-port-%d", port))
	if err != nil {
		return false // another test has it
	}
	free, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		name.Close()
		return false
	}
	free.Close()
	tb.Cleanup(func() { name.Close() })
	return true
}
