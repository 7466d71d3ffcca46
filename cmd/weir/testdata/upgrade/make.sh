#!/bin/sh
# Makes the fixture of one version of the stored state: make.sh WEIR FOLDER, with the weir of that version.
# It has leases, the state of a pool, of the harmonizer and of the placer, orders, applications, the ledger and the summaries. To
# harmonizer.jsonl, heartbeats, a crash and time were added by hand, so that its replay requests starts. If it exists, it stays.
set -eu
weir=$1 out=$2
data=$(mktemp -d)
trap 'kill "$up" 2>/dev/null || true; wait; rm -rf "$data"' EXIT
"$weir" up --data "$data" >"$data/up.out" 2>&1 &
up=$!
until grep -q 'ready in' "$data/up.out"; do kill -0 "$up"; done
w() { "$weir" "$@" --data "$data"; }
w app set web --instances 3 --cpus 0.2 --mem 64 --command 'while :; do sleep 1; done'
w app set old --instances 1 --command 'while :; do sleep 1; done'
recorded=$out/harmonizer.jsonl
if [ -e "$recorded" ]; then recorded=$data/harmonizer.jsonl; fi
"$weir" harmonizer record "$recorded" --data "$data" &
recorder=$!
until [ "$(w app status web --output json | grep -c '"RUNNING"')" -ge 3 ]; do kill -0 "$up"; done
w app delete old
w offset 2 --force --why 'fixture of an upgrade' --for 0
until w explain --output json >"$out/record.json"; do kill -0 "$up"; done
"$weir" decide <"$out/record.json" >"$out/decided.json"
until w events --since 1h --output json | grep -q .; do kill -0 "$up"; done # a summary is written after its record
w app get web --output json >"$out/app.json"
w pause --why 'fixture of an upgrade' --for 0
kill -INT "$recorder"; wait "$recorder" || true
kill -INT "$up"; wait "$up" || true
for kind in lease.placer.default placer.default.apps weir-summaries; do
	grep -aqr "$kind" "$data/bus/jetstream" || { echo "make.sh: the state has no $kind" >&2; exit 1; }
done
tar -C "$data/bus" --sort=name --owner=0 --group=0 --mtime=@0 -czf "$out/jetstream.tar.gz" jetstream
