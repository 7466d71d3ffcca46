#!/bin/sh
# Creates the users and folders of the daemons. It starts no daemon, and an upgrade restarts none: docs/upgrade.md.
set -e
root=${DPKG_ROOT:-}
systemd-sysusers ${root:+--root="$root"} weir.conf
systemd-tmpfiles ${root:+--root="$root"} --create weir.conf
if [ -z "$root" ] && [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
