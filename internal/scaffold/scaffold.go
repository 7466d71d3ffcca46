package scaffold

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// templates holds a folder for each language. The name of a file is that of the
// result with ".tmpl" behind it, and without the dot before it. In a file,
// "{{.Name}}" stands for the signal's name. It is no text/template: that calls
// methods by name, for which the linker keeps every method of the program.
//
//go:embed templates
var templates embed.FS

// ErrExists is returned when a file is there already: nothing is overwritten.
var ErrExists = errors.New("file exists already")

// Write writes the module of a new signal into dir, which it makes if need be, and
// returns the names of the files there, in order. It writes all of them or none. It fails
// with ErrExists if one of them is there, and with ErrNoSource if the configured
// source tree is not one of the SDK.
func Write(dir string, c Config) ([]string, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Lang = cmp.Or(c.Lang, Go)
	texts, err := render(c)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(texts))
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return nil, fmt.Errorf("%w: %s: choose another folder", ErrExists, filepath.Join(dir, name))
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder: %w", err)
	}
	for i, name := range names {
		if err := create(filepath.Join(dir, name), texts[name]); err != nil {
			for _, written := range names[:i] {
				err = errors.Join(err, os.Remove(filepath.Join(dir, written)))
			}
			return nil, err
		}
	}
	return names, nil
}

// create writes a new file; a script is executable.
func create(path string, text []byte) error {
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

// render returns the text of each file, by its name.
func render(c Config) (map[string][]byte, error) {
	texts := map[string][]byte{}
	if c.Lang == Go {
		files, err := goModule(c)
		if err != nil {
			return nil, err
		}
		texts = files
	}
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
		if name == "gitignore" {
			name = "." + name
		}
		texts[name] = bytes.ReplaceAll(text, []byte("{{.Name}}"), []byte(c.Name))
	}
	return texts, nil
}
