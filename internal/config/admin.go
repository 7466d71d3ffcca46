package config

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"reflect"
)

// Daemons with an admin server, as the keys of the block "admin" name them.
const (
	DaemonAgent      = "agent"
	DaemonAuth       = "auth"
	DaemonAutoscaler = "autoscaler"
	DaemonBootstrap  = "bootstrap"
	DaemonHarmonizer = "harmonizer"
	DaemonMetrics    = "metrics"
	DaemonNotify     = "notify"
	DaemonPlacer     = "placer"
	DaemonWeb        = "web"
)

// Daemons returns the daemons with an admin server.
func Daemons() []string {
	return []string{
		DaemonAgent, DaemonAuth, DaemonAutoscaler, DaemonBootstrap, DaemonHarmonizer, DaemonMetrics, DaemonNotify, DaemonPlacer, DaemonWeb,
	}
}

// AdminOff is the address of a daemon without an admin server.
const AdminOff = "off"

// Admin is the block "admin" of weir.yaml: the admin server of each daemon. An address is HOST:PORT, or "off".
type Admin struct {
	Agent      string   `yaml:"agent"`
	Auth       string   `yaml:"auth"`
	Autoscaler string   `yaml:"autoscaler"`
	Bootstrap  string   `yaml:"bootstrap"`
	Harmonizer string   `yaml:"harmonizer"`
	Metrics    string   `yaml:"metrics"`
	Notify     string   `yaml:"notify"`
	Placer     string   `yaml:"placer"`
	Web        string   `yaml:"web"`
	TokenFile  string   `yaml:"token_file"` // token that clients send; required for an address that is not loopback
	TLS        AdminTLS `yaml:"tls"`
	Pprof      bool     `yaml:"pprof"` // serve /debug/pprof/
}

// AdminTLS has the files of the servers' certificate. Without them the servers speak HTTP.
type AdminTLS struct {
	CertFile string `yaml:"cert_file"` // PEM
	KeyFile  string `yaml:"key_file"`
}

// defaultAdmin has the addresses of daemons without a key. The autoscaler is a child of bootstrap, which reports it.
func defaultAdmin() Admin {
	return Admin{
		Agent: "127.0.0.1:9467", Auth: "127.0.0.1:9466", Autoscaler: AdminOff, Bootstrap: "127.0.0.1:9463",
		Harmonizer: "127.0.0.1:9464", Metrics: "127.0.0.1:9468", Notify: "127.0.0.1:9470", Placer: "127.0.0.1:9469", Web: "127.0.0.1:9471",
	}
}

// Address returns the configured address of a daemon, or else its default.
func (a Admin) Address(daemon string) (address string, isDefault bool) {
	given := a.addressOf(daemon)
	return cmp.Or(given, defaultAdmin().addressOf(daemon), AdminOff), given == ""
}

// addressOf returns the value of a daemon's key.
func (a Admin) addressOf(daemon string) string {
	v := reflect.ValueOf(a)
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("yaml") == daemon {
			return v.Field(i).String()
		}
	}
	return ""
}

// adminBelow resolves the paths of the block relative to the folder of its file.
func adminBelow(a Admin, file string) Admin {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil { // the working directory is gone
		return a
	}
	for _, path := range []*string{&a.TokenFile, &a.TLS.CertFile, &a.TLS.KeyFile} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	return a
}

func (a Admin) problems(d document) Problems {
	var ps Problems
	for _, daemon := range Daemons() {
		if err := a.CheckAddress(a.addressOf(daemon)); err != nil {
			ps = append(ps, d.problem("admin."+daemon, err.Error()))
		}
	}
	if (a.TLS.CertFile == "") != (a.TLS.KeyFile == "") {
		ps = append(ps, d.problem("admin.tls", "has cert_file or key_file alone: give both, or neither"))
	}
	return ps
}

// CheckAddress returns an error if a server of this block cannot listen on an address. An address that other hosts
// reach needs token_file. An empty address is no error.
func (a Admin) CheckAddress(address string) error {
	if address == "" || address == AdminOff {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return fmt.Errorf("is %q: want HOST:PORT, such as 127.0.0.1:9463, or %s", address, AdminOff)
	}
	if a.TokenFile == "" && !IsLoopback(host) {
		return fmt.Errorf("is %q, which other hosts reach: set admin.token_file, or listen on 127.0.0.1", address)
	}
	return nil
}

// Web is the block "web" of weir.yaml: the dashboard and the HTTP API.
type Web struct {
	Addr      string   `yaml:"addr"`       // HOST:PORT; default 127.0.0.1:9480
	TokenFile string   `yaml:"token_file"` // lines ROLE NAME SECRET: each request needs a token; required for an address that is not loopback, and for orders
	TLS       AdminTLS `yaml:"tls"`
}

const defaultWeb = "127.0.0.1:9480"

// CheckAddress returns an error if the server cannot listen on its address.
func (w Web) CheckAddress() error {
	host, port, err := net.SplitHostPort(w.Addr)
	switch {
	case err != nil || port == "":
		return fmt.Errorf("is %q: want HOST:PORT, such as %s", w.Addr, defaultWeb)
	case !IsLoopback(host) && w.TokenFile == "":
		return fmt.Errorf("is %q, which other hosts reach: set web.token_file, or listen on 127.0.0.1", w.Addr)
	case !IsLoopback(host) && w.TLS.CertFile == "":
		return fmt.Errorf("is %q, which other hosts reach: set web.tls, so that tokens are encrypted, or listen on 127.0.0.1", w.Addr)
	}
	return nil
}

// webBelow resolves the paths of the block relative to the folder of its file, and adds the default.
func webBelow(w Web, file string) Web {
	of := adminBelow(Admin{TokenFile: w.TokenFile, TLS: w.TLS}, file)
	return Web{cmp.Or(w.Addr, defaultWeb), of.TokenFile, of.TLS}
}

func (w Web) problems(d document) Problems {
	var ps Problems
	if w.Addr != "" {
		if err := w.CheckAddress(); err != nil {
			ps = append(ps, d.problem("web.addr", err.Error()))
		}
	}
	if (w.TLS.CertFile == "") != (w.TLS.KeyFile == "") {
		ps = append(ps, d.problem("web.tls", "has cert_file or key_file alone: give both, or neither"))
	}
	return ps
}

// IsLoopback reports whether a host of an address is this machine only. An empty host stands for all addresses.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
