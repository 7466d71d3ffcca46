#!/bin/sh
# Builds the deb and the rpm package of one architecture (amd64 or arm64): deploy/packages/build.sh ARCH [FOLDER]
# VERSION is the version of the package, GO the Go command, LEVEL the level of the compression from 1 to 9, 9 by default.
# The packages are in FOLDER, dist by default. With the same commit and Go version they have the same bytes, if
# SOURCE_DATE_EPOCH is the same.
set -eu
arch=${1:?build packages: want an architecture, amd64 or arm64}
dist=${2:-dist}
go=${GO:-go}
cd "$(dirname "$0")/../.."
mkdir -p "$dist"
dist=$(cd "$dist" && pwd)

export ARCH="$arch" STAGE="$dist/stage-$arch" VERSION="${VERSION:-0.0.0-dev}"
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || echo 0)}"
export SOURCE_DATE_EPOCH
rm -rf "$STAGE/man" "$STAGE/completions" "$STAGE/units" # the programs stay: the linker skips a current one
mkdir -p "$STAGE/man" "$STAGE/completions" "$STAGE/units"

GOOS=linux GOARCH="$arch" CGO_ENABLED=0 "$go" build -trimpath -tags=grpcnotrace -ldflags='-s -w' -o "$STAGE/" ./cmd/weir ./cmd/weir-local

# A program of this machine, with a command that others do not need, writes the completions and the manual pages.
GOARCH="" CGO_ENABLED=0 "$go" build -trimpath -tags=grpcnotrace,man -ldflags='-s -w' -o "$STAGE/weir-host" ./cmd/weir
"$STAGE/weir-host" completion bash >"$STAGE/completions/weir.bash"
"$STAGE/weir-host" completion fish >"$STAGE/completions/weir.fish"
"$STAGE/weir-host" completion zsh >"$STAGE/completions/_weir"

env -i SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" "$STAGE/weir-host" man "$STAGE/man"
gzip -9n "$STAGE"/man/*.1
cp deploy/systemd/*.service "$STAGE/units/"

# "weir signal init --offline" copies the SDK from it.
"$go" run ./deploy/packages/sdk "v${VERSION#v}" "$STAGE/sdk.zip"

# "weir doctor" compares the installed files with these digests.
( cd "$STAGE"
  sums() { sha256sum "$1" | sed "s|  .*|  $2|"; }
  sums weir usr/bin/weir
  sums weir-local usr/bin/weir-local
  sums sdk.zip usr/share/weir/sdk.zip
  for unit in units/*; do sums "$unit" "usr/lib/systemd/system/${unit#units/}"; done ) >"$STAGE/sha256sums"

sed "s/gzip:9/gzip:${LEVEL:-9}/" deploy/packages/nfpm.yaml >"$STAGE/nfpm.yaml"
for kind in deb rpm; do
  "$go" tool -modfile=go.tools.mod nfpm package --config "$STAGE/nfpm.yaml" --packager "$kind" --target "$dist/"
done
