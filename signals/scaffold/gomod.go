package scaffold

import (
	"fmt"
	"slices"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// needs are the modules whose packages signals/plugin and signals/signaltest are
// made with, beside the SDK.
var needs = []string{
	"github.com/fatih/color",
	"github.com/golang/protobuf",
	"github.com/hashicorp/go-hclog",
	"github.com/hashicorp/go-plugin",
	"github.com/hashicorp/yamux",
	"github.com/mattn/go-colorable",
	"github.com/mattn/go-isatty",
	"github.com/oklog/run",
	"golang.org/x/net",
	"golang.org/x/sys",
	"golang.org/x/text",
	"google.golang.org/genproto/googleapis/rpc",
	"google.golang.org/grpc",
	"google.golang.org/protobuf",
}

// sdkVersion stands for the tree that the replace line names.
const sdkVersion = "v0.0.0"

// goModule returns go.mod and go.sum of the new module, in which the path of the
// SDK is absolute: the versions and sums are
// those of the SDK, so that nothing has to be resolved.
func goModule(c Config) (mod, sums []byte, err error) {
	sdk, sums, err := readSDK(c.SDK)
	if err != nil {
		return nil, nil, err
	}
	var file modfile.File
	requires := []*modfile.Require{{Mod: module.Version{Path: sdkModule, Version: sdkVersion}}}
	for _, r := range sdk.Require {
		if slices.Contains(needs, r.Mod.Path) {
			requires = append(requires, &modfile.Require{Mod: r.Mod, Indirect: true})
		}
	}
	if err := file.AddModuleStmt(c.Module); err != nil {
		return nil, nil, fmt.Errorf("write go.mod: %w", err)
	}
	if sdk.Go != nil {
		if err := file.AddGoStmt(sdk.Go.Version); err != nil {
			return nil, nil, fmt.Errorf("write go.mod: %w", err)
		}
	}
	file.SetRequireSeparateIndirect(requires)
	if err := file.AddReplace(sdkModule, "", c.SDK, ""); err != nil {
		return nil, nil, fmt.Errorf("write go.mod: %w", err)
	}
	file.Cleanup()
	mod, err = file.Format()
	return mod, sums, err
}
