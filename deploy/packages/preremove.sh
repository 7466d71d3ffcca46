#!/bin/sh
# Stops the daemons before the package is removed, not before an upgrade. dpkg calls it with "remove", rpm with 0.
set -e
case ${1:-} in remove | 0) ;; *) exit 0 ;; esac
if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
  systemctl --no-reload disable --now 'weir-*.service' || true
  systemctl stop 'weir-*.service'
fi
