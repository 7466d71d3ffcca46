#!/bin/sh
# Builds the control plane of Kubernetes for tests: kubernetes/plane/build.sh FILE
# The first build compiles 2000 packages: see "needs" below. A build without changes takes seconds.
set -u
export CGO_ENABLED=0
file=${1:?build the control plane: want the file}
cd "$(dirname "$0")" || exit
needs="400 to 1400 s of processor time, 3 GB of memory, and 5 GB of disk for modules and the build cache of Go"
if [ ! -x "$file" ]; then
  echo "first build of the control plane: it takes $needs"
  free=$(df -Pm "$(go env GOCACHE)" 2>/dev/null | awk 'NR == 2 {print $4}')
  if [ "${free:-9999}" -lt 5000 ]; then
    echo "build the control plane: $free MB of disk are free in $(go env GOCACHE), want 5000: free some, or set GOCACHE to a folder of another disk" >&2
    exit 1
  fi
fi
if ! go mod download; then
  echo "build the control plane: its modules are missing: connect this machine to the module proxy of Go (GOPROXY is $(go env GOPROXY)) once, or copy the folder $(go env GOMODCACHE)/cache/download of a machine that has them, and set GOPROXY=file://FOLDER" >&2
  exit 1
fi
# The flag -X sets the version that the API server reports: that of the module.
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes) || exit
build() { nice go build -trimpath -tags=grpcnotrace -p "${PARALLEL:-2}" "$@" -ldflags="-s -w -X k8s.io/component-base/version.gitVersion=$version" -o "$file" .; }
if [ -t 1 ] && [ ! -x "$file" ]; then
  { echo "total $(go list -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' . | wc -l)"; build -v; echo "exit $?"; } 2>&1 | ../../first-build.sh && exit
else
  build && exit
fi
echo "build the control plane: it failed; it takes $needs. With less memory, PARALLEL=1 make test-kubernetes compiles one package at a time" >&2
exit 1
