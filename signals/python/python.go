// Package python has the SDK for authors of signals in Python: the module weirsignal. Its specification is the package
// comment of sigproto.
//
// The folder is installed with pip, without a network. The file weirsignal.py also works alone, beside a program.
// This package embeds that file: "weir signal init" writes it into the folder of a new signal. All functions are safe for
// concurrent use.
package python

import (
	_ "embed"
	"slices"
)

//go:embed weirsignal.py
var module []byte

// Module returns the text of weirsignal.py. The caller may change it.
func Module() []byte { return slices.Clone(module) }
