#!/bin/sh
# Installs a release of weir after checking its signature and checksum:
#
#   install.sh KEY [VERSION]              install the package, as root; without VERSION, that of the newest release
#   install.sh --archive DIR KEY [VERSION]   put weir and weir-local into DIR
#
# KEY is the public key of the project, as docs/install.md has it. The script needs curl, minisign and sha256sum.
# WEIR_RELEASES is the page of the releases, for a mirror.
set -eu

fail() { echo "install weir: $*" >&2; exit 1; }

dir=
if [ "${1:-}" = --archive ]; then
  dir=${2:?install weir: --archive wants a folder}
  case $dir in /*) ;; *) dir=$PWD/$dir ;; esac
  shift 2
fi
key=${1:-} version=${2:-}
[ -n "$key" ] || fail "want the public key of the project as the first argument"
for tool in curl minisign sha256sum; do
  command -v "$tool" >/dev/null || fail "$tool is missing: install it"
done
releases=${WEIR_RELEASES:-https://github.com/weirkeeper/weirkeeper/releases}
case $(uname -m) in
  x86_64) arch=amd64 rpm=x86_64 ;;
  aarch64) arch=arm64 rpm=aarch64 ;;
  *) fail "no release for $(uname -m)" ;;
esac
if [ -z "$version" ]; then # the page of the newest release has its tag at the end
  version=$(curl -fsSL -o /dev/null -w '%{url_effective}' "$releases/latest") || fail "find the newest release at $releases/latest"
  version=${version##*/}
fi
version=${version#v}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fetch() { curl -fsSL -o "$1" "$releases/download/v$version/$1" || fail "download $1 of version $version"; }
fetch SHA256SUMS
fetch SHA256SUMS.minisig
# The signed comment has the version: a list of another release is refused.
comment=$(minisign -V -Q -P "$key" -m SHA256SUMS) || fail "the signature of SHA256SUMS is not by this key: nothing is installed; report it to the project"
[ "$comment" = "weir $version" ] || fail "SHA256SUMS is signed for \"$comment\", not for weir $version"

if [ -n "$dir" ]; then
  pattern="weir_${version}_linux_$arch\\.tar\\.gz"
elif command -v dpkg >/dev/null; then
  pattern="weir_${version}[^ ]*_$arch\\.deb"
elif command -v rpm >/dev/null; then
  pattern="weir-${version}[^ ]*\\.$rpm\\.rpm"
else
  fail "neither dpkg nor rpm is here: use --archive DIR"
fi
file=$(sed -n "s/^[0-9a-f]\{64\}  \($pattern\)\$/\1/p" SHA256SUMS | head -n 1)
[ -n "$file" ] || fail "version $version has no file for this machine"
fetch "$file"
grep "  $file\$" SHA256SUMS | sha256sum --check --quiet - >&2 || fail "$file has another checksum than its release: nothing is installed"

case $file in
  *.tar.gz)
    tar -xzf "$file" weir weir-local
    mkdir -p "$dir"
    install -m 0755 weir weir-local "$dir" ;;
  *.deb) apt-get install -y "./$file" ;;
  *.rpm) if command -v dnf >/dev/null; then dnf install -y "./$file"; else rpm -U "$file"; fi ;;
esac
echo "weir $version is installed${dir:+ in $dir}"
