#!/bin/sh
# Publish a signal with a tag as its version. Run it in the signal's repository,
# in the job that a pushed tag starts.
#
#   NAMESPACE=shop NAME=rps TAG=v1.4.0 deploy/ci/publish-signal.sh
#
# NAMESPACE  namespace of the signal
# NAME       name of the signal
# TAG        the version; default: the tag of the checked-out commit
# PLATFORMS  platforms to build; default: linux-amd64 linux-arm64
# SIGN_KEY   file of the minisign secret key; without it the release is unsigned.
#            WEIR_SIGN_PASSWORD has its password, if any
# WEIR       the weir program; default: weir
#
# weir.yaml (WEIR_CONFIG_DIR) has the bucket. Credentials come from the usual AWS
# variables. A version never changes: a second run for a tag publishes the same bytes,
# or is refused.
set -eu

: "${NAMESPACE:?set the namespace of the signal}"
: "${NAME:?set the name of the signal}"
WEIR=${WEIR:-weir}
PLATFORMS=${PLATFORMS:-linux-amd64 linux-arm64}
TAG=${TAG:-$(git describe --tags --exact-match)}

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

for platform in $PLATFORMS; do
	# -trimpath and no VCS stamp: the same source makes the same bytes. Without
	# grpc's trace package the linker drops unused methods: 7.6 MB, not 10.9 MB.
	CGO_ENABLED=0 GOOS=${platform%-*} GOARCH=${platform#*-} \
		go build -tags grpcnotrace -trimpath -buildvcs=false -o "$out/$platform/$NAME" .
done

# Test the build for this machine before publishing anything.
host=$(go env GOOS)-$(go env GOARCH)
if [ -x "$out/$host/$NAME" ]; then
	"$WEIR" signal test "$out/$host/$NAME"
fi

for platform in $PLATFORMS; do
	"$WEIR" signal publish "$NAMESPACE/$NAME@$TAG" "$out/$platform/$NAME" \
		--platform "$platform" ${SIGN_KEY:+--sign-key "$SIGN_KEY"}
done
