package scaffold

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/modfile"
)

// The module that a Go signal requires, and its minimum Go version.
const (
	sdkModule = "github.com/weirkeeper/weirkeeper"
	goVersion = "1.26.8"
)

// ErrNoSource: the configured source tree is not the SDK's.
var ErrNoSource = errors.New("not a source tree of the SDK")

// goModule returns the files go.mod and, with a source tree, go.sum, by name. go.mod requires only the SDK; the first
// build adds the SDK's requirements. With the sums of a source tree, that build needs no network.
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

// readSums returns go.sum of the SDK's source tree.
func readSums(tree string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(tree, "go.mod"))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNoSource, tree, err)
	}
	if path := modfile.ModulePath(text); path != sdkModule {
		return nil, fmt.Errorf("%w: %s: the module of its go.mod is %q, want %s", ErrNoSource, tree, path, sdkModule)
	}
	sums, err := os.ReadFile(filepath.Join(tree, "go.sum"))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNoSource, tree, err)
	}
	return sums, nil
}
