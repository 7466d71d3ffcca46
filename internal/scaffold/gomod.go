package scaffold

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/modfile"
)

// The module that a Go signal requires, and the oldest Go that builds it.
const (
	sdkModule = "github.com/weirkeeper/weirkeeper"
	goVersion = "1.26.8"
)

// ErrNoSource is returned if the configured source tree is not one of the SDK.
var ErrNoSource = errors.New("not a source tree of the SDK")

// goModule returns the files go.mod and, with a source tree, go.sum, by name. The
// Go command adds the SDK's own requirements with the first build: go.mod names
// the SDK only. The sums of a source tree spare that build a network.
func goModule(c Config) (map[string][]byte, error) {
	version, replace := c.SDKVersion, ""
	files := map[string][]byte{}
	if c.SDK != "" {
		tree, err := filepath.Abs(c.SDK)
		if err != nil {
			return nil, fmt.Errorf("path of the SDK: %w", err)
		}
		if files["go.sum"], err = readSums(tree); err != nil {
			return nil, err
		}
		version, replace = "v0.0.0", fmt.Sprintf("\nreplace %s => %s\n", sdkModule, modfile.AutoQuote(tree))
	}
	files["go.mod"] = fmt.Appendf(nil, "module %s\n\ngo %s\n\nrequire %s %s\n%s", c.module(), goVersion, sdkModule, version, replace)
	return files, nil
}

// readSums returns go.sum of a source tree of the SDK.
func readSums(tree string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(tree, "go.mod"))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNoSource, tree, err)
	}
	if path := modfile.ModulePath(text); path != sdkModule {
		return nil, fmt.Errorf("%w: %s: its go.mod is of %q, want %s", ErrNoSource, tree, path, sdkModule)
	}
	sums, err := os.ReadFile(filepath.Join(tree, "go.sum"))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNoSource, tree, err)
	}
	return sums, nil
}
