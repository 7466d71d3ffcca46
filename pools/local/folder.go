package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// folder returns the folder of a machine, which outlives its process. For an empty id it is the
// parent folder.
func (p *Provider) folder(id string) string { return filepath.Join(p.cfg.DataDir, "machines", id) }

// clearFolders removes the folders of unknown machines, left by an earlier owner.
func (p *Provider) clearFolders() error {
	if err := os.MkdirAll(p.folder(""), 0o700); err != nil {
		return fmt.Errorf("make the machines' folders: %w", err)
	}
	left, err := os.ReadDir(p.folder(""))
	if err != nil {
		return fmt.Errorf("read the machines' folders: %w", err)
	}
	var ours []string
	for _, m := range p.groups {
		ours = append(ours, m.ids()...)
	}
	for _, e := range left {
		folder := p.folder(e.Name())
		if slices.Contains(ours, e.Name()) {
			err = errors.Join(err, clearCopies(folder))
		} else {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}
	if err != nil {
		return fmt.Errorf("clear the machines' folders: %w", err)
	}
	return nil
}

// clearCopies removes the working directories of app instances from a machine's folder. The folder
// may be missing.
func clearCopies(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, os.RemoveAll(filepath.Join(folder, e.Name())))
		}
	}
	return err
}

// wipe empties the folder of a machine without a process.
func (p *Provider) wipe(id string) error {
	if err := os.RemoveAll(p.folder(id)); err != nil {
		return fmt.Errorf("empty the folder of machine %s: %w", id, err)
	}
	return nil
}

// discard removes the log tail and the folder of a machine that no longer exists.
func (p *Provider) discard(id string) {
	delete(p.tails, id)
	p.wg.Go(func() {
		if err := os.RemoveAll(p.folder(id)); err != nil {
			p.log.Warn("folder of machine not removed", "node", id, "err", err)
		}
	})
}
