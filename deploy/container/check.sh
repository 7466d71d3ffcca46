#!/usr/bin/env bash
# Builds the images of this folder for this machine, starts them, and checks their answers. "make release-check" runs
# it. Without a container runtime it reports that, and checks nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."

runtime=
for tool in docker podman; do
  if "$tool" info >/dev/null 2>&1; then runtime=$tool; break; fi
done
if [ -z "$runtime" ]; then
  echo "no container runtime answers on this machine (docker, podman): the images of deploy/container are not built and not started"
  exit
fi

fail() { echo "$1: $2" >&2; exit 1; }

for program in weir weir-kubernetes; do
  file=deploy/container/Containerfile
  [ "$program" = weir ] || file=$file.kubernetes
  image=$program:release-check
  "$runtime" build --file "$file" --tag "$image" .
  user=$("$runtime" image inspect --format '{{.Config.User}}' "$image")
  [ "$user" = 65532:65532 ] || fail "$image" "its user is $user, want 65532:65532"
  # The image has no shell and needs no network, no right and no file that it may write.
  answer=$("$runtime" run --rm --read-only --network none --cap-drop ALL "$image" --help 2>&1) || fail "$image" "--help: $answer"
  case $answer in *"$program"*) ;; *) fail "$image" "--help prints: $answer" ;; esac
  if "$runtime" run --rm --network none --entrypoint /bin/sh "$image" -c true >/dev/null 2>&1; then
    fail "$image" "it has a shell"
  fi
  echo "$image: built with $runtime, started as user $user, --help answers"
done
# A command that needs NATS reports that it is missing, in place of an error of the image.
answer=$("$runtime" run --rm --read-only --network none weir:release-check status --timeout 1s 2>&1) && fail weir:release-check "weir status without NATS ended well: $answer"
case $answer in *weir:*) echo "weir:release-check: weir status answers without NATS: ${answer%%$'\n'*}" ;; *) fail weir:release-check "weir status: $answer" ;; esac
