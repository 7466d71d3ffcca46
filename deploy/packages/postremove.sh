#!/bin/sh
# The users, /etc/weir/credentials and the data in /var/lib stay: they are the operator's.
set -e
if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
