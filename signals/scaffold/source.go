package scaffold

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/mod/modfile"
)

// sdkModule is the path of the module that a Go signal imports.
const sdkModule = "github.com/weirkeeper/weirkeeper"

// ErrNoSource is returned when there is no source tree of the SDK where one is
// needed.
var ErrNoSource = errors.New("no source tree of the SDK")

// SourceTree returns the source tree that this program was built from. It wraps
// ErrNoSource if the program does not know it, as one built with -trimpath, or if
// it is gone.
func SourceTree() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	return sourceTreeOf(file)
}

// sourceTreeOf finds the tree from the path of this file, as the compiler saw it.
func sourceTreeOf(file string) (string, error) {
	if !filepath.IsAbs(file) {
		return "", fmt.Errorf("%w: this program was built without the paths of its sources (-trimpath)", ErrNoSource)
	}
	root := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	if _, _, err := readSDK(root); err != nil {
		return "", fmt.Errorf("the source tree that this program was built from is gone: %w", err)
	}
	return root, nil
}

// readSDK returns go.mod and go.sum of a source tree.
func readSDK(root string) (*modfile.File, []byte, error) {
	path := filepath.Join(root, "go.mod")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("%w at %s: %w", ErrNoSource, root, err)
	}
	mod, err := modfile.Parse(path, text, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("%w at %s: %w", ErrNoSource, root, err)
	}
	if mod.Module == nil || mod.Module.Mod.Path != sdkModule {
		return nil, nil, fmt.Errorf("%w at %s: its go.mod is not that of %s", ErrNoSource, root, sdkModule)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return nil, nil, fmt.Errorf("%w at %s: %w", ErrNoSource, root, err)
	}
	return mod, sums, nil
}
