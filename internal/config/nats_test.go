package config

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestMistakesOfTheNATSBlockAreReportedAtOnce(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "weir.yaml"), `nats:
  servers: [tls://n1:4222, http://n2]
  nkey_file: a
  token_file: b
  tls: {cert_file: c}
  replicas: 0
  colour: x
`)
	_, err := LoadService(dir)
	want := `DIR/weir.yaml:2: nats.servers[1]: has the scheme "http": want nats://HOST:PORT or tls://HOST:PORT
DIR/weir.yaml:4: nats.token_file: conflicts with nkey_file: keep one way to authenticate
DIR/weir.yaml:5: nats.tls: has cert_file or key_file alone: give both, or neither
DIR/weir.yaml:6: nats.replicas: is 0: want 1 to 5
DIR/weir.yaml:7: nats.colour: no such key (allowed: credentials_file, nkey_file, password_file, replicas, servers, tls, token_file, user)`
	if err == nil || strings.ReplaceAll(err.Error(), dir, "DIR") != want {
		t.Errorf("error:\n%v\nwant:\n%s", err, want)
	}
}

// A command reaches the bus while another block of weir.yaml is invalid.
func TestLoadNATSIgnoresMistakesOfOtherBlocks(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "weir.yaml")
	if n, err := LoadNATS(dir); err != nil || len(n.Servers) != 0 {
		t.Errorf("without a file: %+v, %v, want an empty block", n, err)
	}
	writeFile(t, path, "nats: {servers: [nats://n1], nkey_file: pool.nk}\naws: {bucket: x}\nautoscaling: {setpoint: 2}\n")
	n, err := LoadNATS(dir)
	if err != nil || len(n.Servers) != 1 || n.NKeyFile != filepath.Join(dir, "pool.nk") {
		t.Errorf("with other mistakes: %+v, %v, want the block with absolute paths", n, err)
	}
	writeFile(t, path, "nats: {servers: [http://n1]}\naws: {bucket: x}\n")
	if _, err := LoadNATS(dir); err == nil || strings.Contains(err.Error(), "aws") || !strings.Contains(err.Error(), "nats.servers[0]") {
		t.Errorf("with a mistake in the block: %v, want that mistake alone", err)
	}
	writeFile(t, path, "nats: {servers: [nats://n1\n")
	if _, err := LoadNATS(dir); err == nil {
		t.Error("text that is not YAML: no error")
	}
}
