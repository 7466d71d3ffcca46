#!/bin/sh
# Publish a signal as the version that a tag names. Run it in the signal's
# repository, in the job that a pushed tag starts.
#
#   NAMESPACE=shop NAME=rps TAG=v1.4.0 deploy/ci/publish-signal.sh
#
# NAMESPACE  whose signal it is
# NAME       the signal
# TAG        the version; default: the tag of the checked-out commit
# PLATFORMS  what to build for; default: linux-amd64 linux-arm64
# SIGN_KEY   file of the minisign secret key; without it the release is unsigned.
#            WEIR_SIGN_PASSWORD holds its password, if it has one
# WEIR       the weir program; default: weir
#
# The bucket is that of weir.yaml (WEIR_CONFIG_DIR), credentials come by the usual
# AWS variables. A version never changes: running this again for a tag publishes
# the same bytes, or is refused.
set -eu

: "${NAMESPACE:?whose signal is it?}"
: "${NAME:?which signal is it?}"
WEIR=${WEIR:-weir}
PLATFORMS=${PLATFORMS:-linux-amd64 linux-arm64}
TAG=${TAG:-$(git describe --tags --exact-match)}

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

for platform in $PLATFORMS; do
	# -trimpath and no VCS stamp: the same source gives the same bytes. Without
	# grpc's trace package the linker drops unused methods: 7.6 MB, not 10.9 MB.
	CGO_ENABLED=0 GOOS=${platform%-*} GOARCH=${platform#*-} \
		go build -tags grpcnotrace -trimpath -buildvcs=false -o "$out/$platform/$NAME" .
done

# What runs on this machine is tried before anything is published.
host=$(go env GOOS)-$(go env GOARCH)
if [ -x "$out/$host/$NAME" ]; then
	"$WEIR" signal test "$out/$host/$NAME"
fi

for platform in $PLATFORMS; do
	"$WEIR" signal publish "$NAMESPACE/$NAME@$TAG" "$out/$platform/$NAME" \
		--platform "$platform" ${SIGN_KEY:+--sign-key "$SIGN_KEY"}
done
