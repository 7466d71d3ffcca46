package scaffold

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/signals/python"
)

// templates has a folder for each language. A file's name is that of the result plus ".tmpl", without a leading dot or folder.
// "{{.Name}}" in a file is replaced by the signal's name. text/template is not used: it calls methods by name, so the
// linker would keep every method of the program.
//
//go:embed templates
var templates embed.FS

// ErrExists: a file already exists. Nothing is overwritten.
var ErrExists = errors.New("file already exists")

// Write writes the module of a new signal into dir and returns the names of its files, in order. It creates a missing
// dir. It writes all files or none. Of the folders sdk and vendor it returns the name of the folder only. If a file
// exists, it returns ErrExists. If the configured source tree or archive is not the SDK's, it returns ErrNoSource. If the
// Go command cannot fetch the SDK, the error has the output of that command.
func Write(ctx context.Context, dir string, c Config) ([]string, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Lang = cmp.Or(c.Lang, Go)
	texts, err := render(c)
	if err != nil {
		return nil, err
	}
	names := slices.Collect(maps.Keys(texts))
	if c.Lang == Go {
		names = append(names, "go.mod", "go.sum", sdkFolder, vendorFolder)
	}
	if err := absent(dir, names); err != nil {
		return nil, err
	}
	if c.Lang == Go {
		files, err := goModule(ctx, c, texts)
		if err != nil {
			return nil, err
		}
		maps.Copy(texts, files)
	}
	names = slices.Sorted(maps.Keys(texts))
	for i, name := range names {
		if err := create(filepath.Join(dir, name), texts[name]); err != nil {
			for _, written := range names[:i] {
				err = errors.Join(err, os.Remove(filepath.Join(dir, written)))
			}
			return nil, err
		}
	}
	return folded(names), nil
}

// absent returns ErrExists if dir has one of the files or folders.
func absent(dir string, names []string) error {
	for _, name := range slices.Sorted(slices.Values(names)) {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("%w: %s: choose another folder", ErrExists, filepath.Join(dir, name))
		}
	}
	return nil
}

// folded replaces the files of a folder from the archive by the folder.
func folded(names []string) (all []string) {
	for _, name := range names {
		for _, folder := range []string{sdkFolder, vendorFolder} {
			if strings.HasPrefix(name, folder+"/") {
				name = folder
			}
		}
		all = append(all, name)
	}
	return slices.Compact(all)
}

// create writes a new file, in a new folder if needed. A script is executable.
func create(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	mode := fs.FileMode(0o644)
	if bytes.HasPrefix(text, []byte("#!")) {
		mode = 0o755
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s: choose another folder", ErrExists, path)
	}
	if err != nil {
		return fmt.Errorf("make the signal's files: %w", err)
	}
	_, errWrite := file.Write(text)
	if err := errors.Join(errWrite, file.Close()); err != nil {
		return errors.Join(fmt.Errorf("make the signal's files: %w", err), os.Remove(path))
	}
	return nil
}

// render returns the text of each template by the name of its file.
func render(c Config) (map[string][]byte, error) {
	texts := map[string][]byte{}
	folder := "templates/" + string(c.Lang)
	entries, err := templates.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("read the templates: %w", err)
	}
	for _, entry := range entries {
		text, err := templates.ReadFile(folder + "/" + entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read the templates: %w", err)
		}
		name := strings.TrimSuffix(entry.Name(), ".tmpl")
		switch name {
		case "gitignore":
			name = ".gitignore"
		case "publish.yml":
			name = filepath.Join(".github", "workflows", name)
		}
		texts[name] = bytes.ReplaceAll(text, []byte("{{.Name}}"), []byte(c.Name))
	}
	if c.Lang == Python {
		texts["weirsignal.py"] = python.Module()
	}
	return texts, nil
}
