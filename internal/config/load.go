package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// Load reads the service file and one pool's file below dir. The service file
// may be missing; the pool's may not. All problems of both are returned at once.
func Load(dir, cluster, pool string) (Service, Pool, error) {
	service, errService := loadService(filepath.Join(dir, "weir.yaml"))
	p, errPool := loadPool(dir, cluster, pool)
	if err := errors.Join(errService, errPool); err != nil {
		return Service{}, Pool{}, err
	}
	return service, p, nil
}

// LoadService reads the service file below dir; a missing one has defaults only.
func LoadService(dir string) (Service, error) { return loadService(filepath.Join(dir, "weir.yaml")) }

func loadService(file string) (Service, error) {
	var s Service
	doc, err := decode(file, &s)
	if errors.Is(err, fs.ErrNotExist) {
		doc, err = document{file: file}, nil
	}
	if err != nil {
		return Service{}, err
	}
	s.document = doc
	s = s.withDefaults()
	return s, s.Validate()
}

func loadPool(dir, cluster, pool string) (Pool, error) {
	for _, name := range []struct{ of, is string }{{"cluster", cluster}, {"pool", pool}} {
		if !message.ValidName(name.is) {
			return Pool{}, fmt.Errorf("%s name %q: %s", name.of, name.is, nameRule)
		}
	}
	p, err := ReadPool(filepath.Join(dir, filepath.FromSlash(FileOf(cluster, pool))), cluster, pool)
	if errors.Is(err, fs.ErrNotExist) {
		return Pool{}, fmt.Errorf("%w%s", err, others(dir, cluster))
	}
	return p, err
}

// ReadPool reads the file of a pool, wherever it lies.
func ReadPool(file, cluster, pool string) (Pool, error) {
	p := Pool{Cluster: cluster, Name: pool}
	doc, err := decode(file, &p)
	if err != nil {
		return Pool{}, err
	}
	p.document = doc
	p = p.withDefaults()
	return p, p.Validate()
}

// others names the pools that there are, for who mistyped one.
func others(dir, cluster string) string {
	entries, err := os.ReadDir(filepath.Join(dir, cluster))
	if err != nil {
		return fmt.Sprintf("; %s has no cluster %q: give --config-dir, --cluster and --pool", dir, cluster)
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok {
			names = append(names, name)
		}
	}
	if names == nil {
		return fmt.Sprintf("; cluster %s has no pool in %s", cluster, dir)
	}
	return fmt.Sprintf("; pools of cluster %s: %s", cluster, strings.Join(names, ", "))
}
