package command

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
)

// adminOff is the address that turns the admin server off.
const adminOff = "off"

// AdminFlag adds --admin-addr to a daemon, which ignores contexts. byDefault is the address without the flag and without a key in weir.yaml.
func AdminFlag(cmd *cobra.Command, to *string, byDefault string) {
	IgnoreContext(cmd)
	cmd.Flags().Var(address{to, byDefault, true}, "admin-addr", "address of /healthz, /readyz and /metrics: HOST:PORT, or off (default: the key in block admin of weir.yaml, else "+byDefault+")")
}

// address is a flag with the address of a server. It is checked as the command line is read.
type address struct {
	to        *string
	byDefault string // example of an address in errors, or "off"
	mayBeOff  bool
}

// String implements pflag.Value.
func (a address) String() string {
	if a.to == nil {
		return ""
	}
	return *a.to
}

// Type implements pflag.Value.
func (address) Type() string { return "string" }

// Set implements pflag.Value. It rejects text that is neither HOST:PORT nor "off".
func (a address) Set(text string) error {
	problem := addressProblem(text)
	if a.mayBeOff && text == adminOff || problem == "" {
		*a.to = text
		return nil
	}
	want := "want HOST:PORT such as " + a.example()
	if a.mayBeOff {
		want += ", or " + adminOff
	}
	if near := a.near(text); near != "" {
		want += "; did you mean " + near + "?"
	}
	return fmt.Errorf("%s; %s", problem, want)
}

// addressProblem returns why a server cannot listen on an address; empty if it can.
func addressProblem(text string) string {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return "is not HOST:PORT"
	}
	if _, err := net.LookupPort("tcp", port); err != nil || port == "" {
		return fmt.Sprintf("port %q is not a number up to 65535", port)
	}
	return ""
}

func (a address) example() string {
	if a.byDefault == adminOff {
		return "127.0.0.1:9463"
	}
	return a.byDefault
}

// near returns the address or the word that was probably meant: 127.0.0.1 for a port alone.
func (a address) near(text string) string {
	if _, err := strconv.ParseUint(text, 10, 16); err == nil {
		return net.JoinHostPort("127.0.0.1", text)
	}
	words := []string{"none", "no", "false", "disabled", "disable", "of", "OFF", "Off"}
	if a.mayBeOff && slices.Contains(words, text) {
		return adminOff
	}
	return ""
}
