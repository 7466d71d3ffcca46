// Package installation compares an installed package of weir with the list of its files. Its functions only read.
//
//	report, err := installation.Check("/usr/bin/weir")
//
// [Check] takes the path of the running program and returns a [Report]. Each difference has its file and cause.
// "weir doctor" prints them. It may be called concurrently.
package installation

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// list is the path of the list of files below the root, in the form of sha256sum(1).
const list = "usr/share/weir/sha256sums"

// The bounds of the list: a line is a digest and a path.
const (
	maxFiles = 200
	maxList  = maxFiles * 300
)

// ErrNone: the program is not part of a package, so there is nothing to compare.
var ErrNone = errors.New("the program is not part of a package")

// users returns the users that the package creates after it has unpacked its files.
func users() []string { return []string{"weir", "weir-agent"} }

// folders returns the folders that the package creates after its users.
func folders() []string { return []string{"etc/weir/pools", "etc/weir/credentials"} }

// Report is the result of a comparison.
type Report struct {
	Files    int      // files of the list
	Problems []string // missing files and differences; empty: the package is whole
}

// Check compares the package of which a program is a part. The program's path is ROOT/usr/bin/NAME; else, or without a
// list of files, the error is ErrNone.
func Check(program string) (Report, error) {
	root, ok := strings.CutSuffix(filepath.Dir(program), "usr/bin")
	if !ok || !filepath.IsAbs(program) {
		return Report{}, ErrNone
	}
	rows, err := read(filepath.Join(root, list))
	if errors.Is(err, fs.ErrNotExist) {
		return Report{}, ErrNone
	}
	if err != nil {
		return Report{}, fmt.Errorf("check the installed package: %w", err)
	}
	r := Report{Files: len(rows)}
	for _, row := range rows {
		if problem := compare(filepath.Join(root, row.path), row.digest); problem != "" {
			r.Problems = append(r.Problems, problem)
		}
	}
	r.Problems = append(r.Problems, configured(root)...)
	return r, nil
}

type row struct{ digest, path string }

func read(path string) (rows []row, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, maxList))
	for lines.Scan() {
		digest, name, ok := strings.Cut(lines.Text(), "  ")
		if raw, err := hex.DecodeString(digest); !ok || err != nil || len(raw) != sha256.Size || !filepath.IsLocal(name) {
			return nil, fmt.Errorf("%s has a damaged line %d", path, len(rows)+1)
		}
		rows = append(rows, row{digest, name})
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s has no line", path)
	}
	return rows, lines.Err()
}

// compare returns the problem of one file; empty if it has the digest.
func compare(path, digest string) string {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path + " is missing"
	}
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err.Error()
	}
	if hex.EncodeToString(sum.Sum(nil)) != digest {
		return path + " differs from the file of the package"
	}
	return ""
}

// configured returns what the package's last step has not created.
func configured(root string) (problems []string) {
	path := filepath.Join(root, "etc/passwd")
	accounts, err := os.ReadFile(path)
	if err != nil {
		return []string{err.Error()}
	}
	for _, user := range users() {
		if !strings.Contains("\n"+string(accounts), "\n"+user+":") {
			problems = append(problems, fmt.Sprintf("%s has no user %s", path, user))
		}
	}
	for _, folder := range folders() {
		if info, err := os.Stat(filepath.Join(root, folder)); err != nil || !info.IsDir() {
			problems = append(problems, fmt.Sprintf("%s is not a folder", filepath.Join(root, folder)))
		}
	}
	return problems
}
