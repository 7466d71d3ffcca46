package testprograms

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// influxd is built in its own module, because its dependencies are older than ours.
var (
	//go:embed influxd/mod.txt
	influxdMod []byte
	//go:embed influxd/sum.txt
	influxdSum []byte
)

const influxdVersion = "1.8.10"

// Influxd returns the path of influxd.
func Influxd(ctx context.Context) (string, error) {
	return cached(ctx, "influxd-"+influxdVersion, "influxd", func(ctx context.Context, work, tree string) error {
		for name, data := range map[string][]byte{"go.mod": influxdMod, "go.sum": influxdSum} {
			if err := os.WriteFile(filepath.Join(work, name), data, 0o644); err != nil {
				return err
			}
		}
		_, err := run(ctx, work, []string{"CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly -trimpath"},
			"go", "build", "-ldflags=-s -w", "-o", filepath.Join(tree, "influxd"), "github.com/influxdata/influxdb/cmd/influxd")
		return err
	})
}

// Prometheus returns the path of prometheus or promtool: of the machine, or else of Debian's package.
func Prometheus(ctx context.Context, name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return cached(ctx, "prometheus", filepath.Join("usr", "bin", name), func(ctx context.Context, work, tree string) error {
		return unpack(ctx, work, tree, "prometheus")
	})
}

// VictoriaMetrics returns the path of victoria-metrics: of the machine, or else of Debian's package.
func VictoriaMetrics(ctx context.Context) (string, error) {
	const name = "victoria-metrics"
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return cached(ctx, name, filepath.Join("usr", "bin", name), func(ctx context.Context, work, tree string) error {
		return unpack(ctx, work, tree, name)
	})
}

// Chromium returns the path of Chromium, and the variables that it needs beside the own environment: of the machine, or
// else of Debian's package, with the libraries that this machine does not have.
func Chromium(ctx context.Context) (path string, env []string, err error) {
	if path, err := exec.LookPath("chromium"); err == nil {
		return path, nil, nil
	}
	path, err = cached(ctx, "chromium", filepath.Join("usr", "lib", "chromium", "chromium"), func(ctx context.Context, work, tree string) error {
		packages, err := missing(ctx, work, "chromium")
		if err != nil {
			return err
		}
		return unpack(ctx, work, tree, packages...)
	})
	if err != nil {
		return "", nil, err
	}
	libraries, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(path)), "*-linux-gnu*"))
	for _, l := range libraries {
		libraries = append(libraries, filepath.Join(l, "pulseaudio"))
	}
	return path, []string{"LD_LIBRARY_PATH=" + strings.Join(libraries, ":")}, err
}

// axeVersion is the release of axe-core that the tests use.
const axeVersion = "4.10.3"

// Axe returns the path of the script of the accessibility checker axe-core. The client of npm checks its digest.
func Axe(ctx context.Context) (string, error) {
	return cached(ctx, "axe-"+axeVersion, filepath.Join("package", "axe.min.js"), func(ctx context.Context, work, tree string) error {
		if _, err := run(ctx, work, nil, "npm", "pack", "--silent", "axe-core@"+axeVersion); err != nil {
			return err
		}
		_, err := run(ctx, work, nil, "tar", "-xzf", "axe-core-"+axeVersion+".tgz", "-C", tree, "package/axe.min.js")
		return err
	})
}

// Systemd returns a folder with Debian's packages of systemd and of the libraries that a small system lacks.
func Systemd(ctx context.Context) (string, error) {
	return cached(ctx, "systemd", "", func(ctx context.Context, work, tree string) error {
		return unpack(ctx, work, tree, "systemd", "libsystemd-shared", "libsystemd0", "libkmod2", "libapparmor1", "libseccomp2", "libfdisk1",
			"libcryptsetup12", "libip4tc2", "libjson-c5", "libdevmapper1.02.1")
	})
}

// Minisign returns the path of minisign, and the variables that it needs beside the own environment: of the machine, or else
// of Debian's package.
func Minisign(ctx context.Context) (path string, env []string, err error) {
	if path, err := exec.LookPath("minisign"); err == nil {
		return path, nil, nil
	}
	path, err = cached(ctx, "minisign", filepath.Join("usr", "bin", "minisign"), func(ctx context.Context, work, tree string) error {
		return unpack(ctx, work, tree, "minisign", "libsodium23")
	})
	if err != nil {
		return "", nil, err
	}
	libraries, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(path)), "lib", "*-linux-gnu*"))
	return path, []string{"LD_LIBRARY_PATH=" + strings.Join(libraries, ":")}, err
}

// Python is Debian's Python, for which its botocore is built.
const Python = "/usr/bin/python3"

// Botocore returns the folder to import the Python package botocore from. It is empty if Python already has botocore.
func Botocore(ctx context.Context) (string, error) {
	if _, err := run(ctx, "", nil, Python, "-c", "import botocore.session, botocore.serialize, botocore.parsers"); err == nil {
		return "", nil
	}
	return cached(ctx, "botocore", filepath.Join("usr", "lib", "python3", "dist-packages"), func(ctx context.Context, work, tree string) error {
		return unpack(ctx, work, tree, "python3-botocore", "python3-jmespath", "python3-dateutil", "python3-six", "python3-urllib3",
			"python3-requests", "python3-chardet", "python3-charset-normalizer", "python3-idna", "python3-certifi")
	})
}

// Python3 returns the path of python3: of the machine, or else of Debian's package.
func Python3(ctx context.Context) (string, error) {
	if path, err := exec.LookPath("python3"); err == nil {
		return path, nil
	}
	return cached(ctx, "python3", filepath.Join("usr", "bin", "python3"), func(ctx context.Context, work, tree string) error {
		packages, err := missing(ctx, work, "python3")
		if err != nil {
			return err
		}
		return unpack(ctx, work, tree, packages...)
	})
}

// Pip returns the path of a Python with pip, and the variables that it needs beside the own environment: of the machine, or
// else with Debian's package of pip.
func Pip(ctx context.Context) (path string, env []string, err error) {
	path, err = Python3(ctx)
	if err != nil {
		return "", nil, err
	}
	if _, err := run(ctx, "", nil, path, "-c", "import pip"); err == nil {
		return path, nil, nil
	}
	folder, err := cached(ctx, "pip", filepath.Join("usr", "lib", "python3", "dist-packages"), func(ctx context.Context, work, tree string) error {
		return unpack(ctx, work, tree, "python3-pip")
	})
	return path, []string{"PYTHONPATH=" + folder}, err
}

// missing returns a package of Debian and what it needs, as far as this machine does not have it.
func missing(ctx context.Context, work, name string) (packages []string, err error) {
	plan, err := run(ctx, work, nil, "apt-get", "--simulate", "--no-install-recommends", "install", name)
	for line := range strings.Lines(plan) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Inst" {
			packages = append(packages, fields[1])
		}
	}
	return packages, err
}

// unpack downloads packages of Debian, and unpacks them into a folder. It needs no root.
func unpack(ctx context.Context, work, tree string, packages ...string) error {
	if _, err := run(ctx, work, nil, "apt-get", append([]string{"download"}, packages...)...); err != nil {
		return fmt.Errorf("install %s, or let apt-get download it: %w", packages[0], err)
	}
	files, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("apt-get stored no package: %w", err)
	}
	for _, file := range files {
		if _, err := run(ctx, work, nil, "dpkg-deb", "-x", file, tree); err != nil {
			return err
		}
	}
	return nil
}
