package control

import (
	"bufio"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoHandshake covers other lines that processes write.
func TestParseHandshake(t *testing.T) {
	for _, line := range []string{
		"1|1|unix|/run/d/plugin1|grpc|", "1|1|unix|/run/d/plugin1|grpc", "1|1|unix|/run/d/plugin1|grpc||true", " 1|1|unix|/run/d/plugin1|grpc|\r",
	} {
		address, err := parseHandshake([]byte(line), "/run/d")
		if err != nil || address != "/run/d/plugin1" {
			t.Errorf("parseHandshake(%q) = %q, %v", line, address, err)
		}
	}
}

func FuzzParseHandshake(f *testing.F) {
	for _, line := range []string{
		"1|1|unix|/run/d/plugin1|grpc|", "1|1|unix|/run/d/plugin1|grpc|" + strings.Repeat("c", 60), "1|2|unix|/run/d/a|grpc|",
		"1|1|unix|/run/d/../a|grpc|", "1|1|unix|/run/d/\x00|grpc|", "||||", "+1|01|unix|@a|grpc|",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		address, err := parseHandshake(line, "/run/d")
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
			return
		}
		if filepath.Dir(address) != "/run/d" || len(address) > maxPath {
			t.Errorf("address %q", address)
		}
		// How go-plugin parses the line.
		scanner := bufio.NewScanner(strings.NewReader(string(line) + "\n"))
		scanner.Scan()
		fields := strings.Split(strings.TrimSpace(scanner.Text()), "|")
		if len(fields) < 4 || fields[3] != address || len(fields) > 5 && len(fields[5]) > 50 {
			t.Errorf("go-plugin reads %q of %q", fields, line)
		}
	})
}
