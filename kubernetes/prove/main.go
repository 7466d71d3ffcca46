// Command prove records that the scenarios of package e2e passed with these sources, in kubernetes/proved.json. It runs in the folder
// kubernetes.
//
//	prove check              compare the sources with the record
//	prove run PROGRAM ARGS   run a test program, print its results, and write the record if all tests passed
//
// The sources are all files of the folder without its pages and the tests of other packages, and the chart.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

const (
	record = "proved.json"
	chart  = "../deploy/helm/weir-kubernetes"
	// scenarios is the folder of the tests that the record is about.
	scenarios = "e2e"
)

// proof is a run in which all scenarios passed.
type proof struct {
	Sources    string             `json:"sources"` // SHA-256 of all files, with their names
	Kubernetes string             `json:"kubernetes"`
	Go         string             `json:"go"`
	Date       string             `json:"date"`
	Seconds    float64            `json:"seconds"`        // of the whole run
	Full       bool               `json:"full,omitempty"` // with FULL=1: the API server was away for five minutes
	Scenarios  map[string]float64 `json:"scenarios"`      // seconds of each
}

func main() {
	if err := prove(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "prove:", err)
		os.Exit(1)
	}
}

func prove(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "check":
		return check(".", chart)
	case len(args) > 1 && args[0] == "run":
		return run(context.Background(), args[1:])
	}
	return errors.New("want check, or run PROGRAM ARGS")
}

// check compares the sources with the record.
func check(folders ...string) error {
	var p proof
	data, err := os.ReadFile(filepath.Join(folders[0], record))
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		return fmt.Errorf("kubernetes/%s: %w: run \"make test-kubernetes\", and commit the file", record, err)
	}
	now, err := digest(folders...)
	if err != nil {
		return err
	}
	if now != p.Sources {
		return fmt.Errorf("kubernetes/ or its chart has changed since the scenarios passed on a real control plane (%s): run \"make test-kubernetes\", and commit kubernetes/%s", p.Date, record)
	}
	return nil
}

// digest returns that of all sources of the folders.
func digest(folders ...string) (string, error) {
	all := sha256.New()
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			name, _ := filepath.Rel(folder, path)
			switch {
			case err != nil:
				return err
			case d.IsDir() && name == filepath.Join(filepath.Dir(name), "rapid"):
				return fs.SkipDir // failures of properties, which are not committed
			case d.IsDir() || name == record || strings.HasSuffix(name, ".md") || strings.HasSuffix(name, ".test"):
				return nil
			case strings.HasSuffix(name, "_test.go") && filepath.Dir(name) != scenarios:
				return nil // a test of its own package
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(all, "%s %x\n", filepath.ToSlash(name), sha256.Sum256(data))
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}

// result is the line of a test that ended.
var result = regexp.MustCompile(`^--- (PASS|FAIL|SKIP): (\w+) \(([\d.]+)s\)`)

// run runs a test program. All its output is in its log.
func run(ctx context.Context, argv []string) error {
	sources, err := digest(".", chart)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(os.TempDir(), fmt.Sprintf("test-kubernetes-%d.log", os.Getpid())))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Stderr = scenarios, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	p := proof{Sources: sources, Go: runtime.Version(), Date: began.UTC().Format(time.DateOnly), Full: os.Getenv("FULL") != "", Scenarios: map[string]float64{}}
	skipped, err := read(io.TeeReader(out, log), os.Stdout, &p)
	if ended := cmd.Wait(); ended != nil || err != nil {
		return fmt.Errorf("%w: all output is in %s", errors.Join(err, ended), log.Name())
	}
	if skipped || len(p.Scenarios) == 0 {
		return errors.New("not all tests ran: nothing is recorded")
	}
	p.Seconds = time.Since(began).Round(time.Second).Seconds()
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(record, append(data, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Printf("all %d scenarios passed in %v: recorded in kubernetes/%s\n", len(p.Scenarios), time.Duration(p.Seconds)*time.Second, record)
	return os.Remove(log.Name())
}

// read prints the result of each test, and its version of Kubernetes, as it comes.
func read(in io.Reader, out io.Writer, p *proof) (skipped bool, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		if _, version, ok := strings.Cut(lines.Text(), "Kubernetes "); ok && strings.HasPrefix(version, "v1.") {
			p.Kubernetes = version
		}
		m := result.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		fmt.Fprintln(out, m[0])
		var seconds float64
		fmt.Sscan(m[3], &seconds)
		p.Scenarios[m[2]] = seconds
		skipped = skipped || m[1] == "SKIP"
	}
	return skipped, lines.Err()
}
