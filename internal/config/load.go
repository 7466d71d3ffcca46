// Package config reads the files of an operator: the service file weir.yaml, the harmonizer's file, and one file for
// each pool, <cluster>/<pool>.yaml. They are below one folder. [Load] returns the decoded files with defaults, and
// functions such as [Autoscaler] and [Bootstrap] convert them to the configuration of a daemon. [Show] prints decoded
// files without secrets, and [Schema] returns a JSON Schema of the files.
//
// Decoding is strict. An unknown key, a value of the wrong type or a value out of bounds is a [Problem]: file, line,
// key and valid values. All problems of a file are reported at once. A file is one YAML document of at most 1 MiB.
// Anchors, aliases, merge keys and tags are refused.
//
// Values are plain data and safe for concurrent reads.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/weirkeeper/weirkeeper/internal/platform/inputfile"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

// Files are the texts of the service file and one pool's file, read together.
type Files struct {
	Cluster string `json:"cluster"`
	Pool    string `json:"pool"`
	Service File   `json:"service"`
	PoolIn  File   `json:"pool_file"`
	// Pins are the releases of apps without a release in the pool's file. The pin of sigproto.DefaultApp is the
	// default signal, if the service file lacks it.
	Pins []Pin `json:"pins,omitempty"`
	// Bucket is the bucket of the releases if the service file lacks it.
	Bucket string `json:"bucket,omitempty"`
}

// Pin is a signal from the environment or the command line.
type Pin struct {
	App       string `json:"app"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Version   string `json:"version"`
}

// File is the text of a file.
type File struct {
	Path    string `json:"path"`
	Text    []byte `json:"text"`
	Missing bool   `json:"missing,omitempty"`

	changes []func(ast.Node) (ast.Node, error) // of the parsed text
}

// Read reads both files below dir. Only the service file may be missing.
func Read(dir, cluster, pool string) (Files, error) {
	for _, name := range []struct{ of, is string }{{"cluster", cluster}, {"pool", pool}} {
		if !names.Valid(name.is) {
			return Files{}, fmt.Errorf("%s name %q: %s", name.of, name.is, names.Rule)
		}
	}
	service, errService := readService(dir)
	file, errPool := readFile(filepath.Join(dir, filepath.FromSlash(PoolFile(dir, cluster, pool))))
	if errors.Is(errPool, fs.ErrNotExist) {
		errPool = fmt.Errorf("%w%s", errPool, others(dir, cluster))
	}
	return Files{Cluster: cluster, Pool: pool, Service: service, PoolIn: file}, errors.Join(errService, errPool)
}

// Decode decodes both files. It returns all problems of both at once. Each of the health checks is another check of a
// valid health policy. It runs whether or not the rest of the files is valid.
func (f Files) Decode(healthChecks ...func(Pool) error) (Service, Pool, error) {
	service, errService := f.Service.service(f.Pins)
	pool, errPool := f.PoolIn.pool(f.Cluster, f.Pool, f.Pins)
	errs := []error{errService, errPool, shortTimeLimits(service, pool, errService, errPool).OrNil(), queryProblems(service, pool, errService, errPool).OrNil()}
	if !pool.document.unknown("health", errPool) {
		for _, check := range healthChecks {
			errs = append(errs, check(pool))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Service{}, Pool{}, err
	}
	if service.AWS.SignalsBucket == "" {
		service.AWS.SignalsBucket = f.Bucket
	}
	return service, pool, nil
}

// Warnings returns the ignored keys and rarely intended settings of both files. They do not prevent a start.
func Warnings(s Service, p Pool) Problems {
	return slices.Concat(s.document.warnings, p.document.warnings, p.healthWarnings())
}

// Load reads and decodes both files below dir. The health checks are those of Decode.
func Load(dir, cluster, pool string, healthChecks ...func(Pool) error) (Service, Pool, error) {
	files, err := Read(dir, cluster, pool)
	if err != nil {
		_, errService := files.Service.service(nil) // report its problems too
		return Service{}, Pool{}, errors.Join(errService, err)
	}
	return files.Decode(healthChecks...)
}

// LoadAt is Load for a pool's file at any path.
func LoadAt(dir, file, cluster, pool string) (Service, Pool, error) {
	service, errService := readService(dir)
	text, errPool := readFile(file)
	if err := errors.Join(errService, errPool); err != nil {
		return Service{}, Pool{}, err
	}
	return Files{Cluster: cluster, Pool: pool, Service: service, PoolIn: text}.Decode()
}

// LoadService reads the service file below dir. A missing file means defaults only.
func LoadService(dir string) (Service, error) {
	file, err := readService(dir)
	if err != nil {
		return Service{}, err
	}
	return file.service(nil)
}

// ReadPool reads a pool's file at any path.
func ReadPool(path, cluster, pool string) (Pool, error) {
	file, err := readFile(path)
	if err != nil {
		return Pool{}, err
	}
	return file.pool(cluster, pool, nil)
}

func readFile(path string) (File, error) {
	text, err := read(path)
	if err == nil {
		text, err = withCredentials(path, text, os.Getenv(inputfile.CredentialsVariable))
	}
	return File{Path: path, Text: text}, err
}

func readService(dir string) (File, error) {
	file, err := readFile(filepath.Join(dir, "weir.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		file.Missing, err = true, nil
	}
	return file, err
}

func (f File) service(pins []Pin) (s Service, err error) {
	s.document = document{file: f.Path}
	if !f.Missing {
		if s.document, err = decodeRest(f.Path, f.Text, &s); err != nil {
			return Service{}, err
		}
	}
	s = s.pinned(pins).withDefaults()
	s.sourcesBelow(f.Path)
	s.Telemetry.below(f.Path)
	s.NATS, s.Admin, s.Web = below(s.NATS, f.Path), adminBelow(s.Admin, f.Path), webBelow(s.Web, f.Path)
	s.Prices = s.Prices.Below(filepath.Dir(f.Path))
	return s, s.document.complete(s.Validate())
}

func (f File) pool(cluster, name string, pins []Pin) (Pool, error) {
	p := Pool{Cluster: cluster, Name: name}
	doc, err := decodeRest(f.Path, f.Text, &p, f.changes...)
	if err != nil {
		return Pool{}, err
	}
	doc.warnings = append(doc.warnings, p.Migration.warnings(doc)...)
	p.document = doc
	p = p.withDefaults()
	if err := p.pin(pins); err != nil {
		return Pool{}, doc.complete(err)
	}
	for i := range p.Signals {
		s := &p.Signals[i]
		s.Namespace = firstOf(s.Namespace, p.Name)
		for j := range s.Raise {
			s.Raise[j].Namespace = firstOf(s.Raise[j].Namespace, p.Name)
		}
	}
	return p, doc.complete(p.Validate())
}

// PoolFile returns the path of the pool's file below dir: ours or, if only that exists, Clusterman's.
func PoolFile(dir, cluster, pool string) string {
	for _, ending := range []string{".mesos", ".kubernetes"} {
		ours, clusterman := FileOf(cluster, pool), strings.Join([]string{cluster, pool + ending}, "/")
		if !isFile(filepath.Join(dir, filepath.FromSlash(ours))) && isFile(filepath.Join(dir, filepath.FromSlash(clusterman))) {
			return clusterman
		}
	}
	return FileOf(cluster, pool)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Pools returns the names of a cluster's pools with a file below dir, in order.
func Pools(dir, cluster string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, cluster))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		for _, ending := range []string{".yaml", ".mesos", ".kubernetes"} {
			if name, ok := strings.CutSuffix(e.Name(), ending); ok && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// others lists the existing pools, for an error about a mistyped name.
func others(dir, cluster string) string {
	names, err := Pools(dir, cluster)
	if err != nil {
		return fmt.Sprintf("; %s has no cluster %q: give --config-dir, --cluster and --pool", dir, cluster)
	}
	if names == nil {
		return fmt.Sprintf("; cluster %s has no pool in %s", cluster, dir)
	}
	return fmt.Sprintf("; pools of cluster %s: %s", cluster, strings.Join(names, ", "))
}

// Claims returns the groups of a cluster's other pools, from their files below dir. The error names unreadable files;
// the groups of the others are returned.
func Claims(dir, cluster, except string) (map[string][]provider.Group, error) {
	names, err := Pools(dir, cluster)
	if err != nil {
		return nil, err
	}
	claims := map[string][]provider.Group{}
	var errs []error
	for _, name := range names {
		if name == except {
			continue
		}
		pool, err := ReadPool(filepath.Join(dir, filepath.FromSlash(PoolFile(dir, cluster, name))), cluster, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		claims[name] = pool.Selected()
	}
	return claims, errors.Join(errs...)
}

// credentialsText stands in a configuration for the folder of the credentials that systemd gives a unit. So several
// units of a host share a weir.yaml, each with a key of its own.
const credentialsText = "${" + inputfile.CredentialsVariable + "}"

// noCredentials replaces credentialsText outside of such a unit. The error of a missing file then has the reason.
const noCredentials = "/run/credentials/" + inputfile.CredentialsVariable + "-is-not-set"

// withCredentials replaces credentialsText in the content of a file by dir. The lines of the file stay the same.
func withCredentials(file string, content []byte, dir string) ([]byte, error) {
	if !bytes.Contains(content, []byte(credentialsText)) {
		return content, nil
	}
	if dir == "" {
		dir = noCredentials
	}
	if !path.IsAbs(dir) || strings.ContainsFunc(dir, special) {
		return nil, fmt.Errorf("replace %s in %s: the variable is %.200q: want an absolute path of letters, digits and \"/._@:-\"; name the instance of the unit with these characters", credentialsText, file, dir)
	}
	return bytes.ReplaceAll(content, []byte(credentialsText), []byte(dir)), nil
}

// special reports whether a character may have a meaning in YAML, inside of quotes or outside.
func special(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/._@:-", r)
}
