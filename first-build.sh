#!/bin/sh
# first-build.sh counts the packages of a build on a terminal: "building: 120 of 700 packages", in one line that is
# redrawn in place. Its input is the output of "go build -v", and two lines of the Makefile: "total N" before it, and
# "exit N" after it, which is also the exit code here. All other lines, such as errors of the compiler, are printed.
total=0 built=0 loaded=0 status=1
clear=$(printf '\r\033[K')
while IFS= read -r line; do
  case $line in
    "total "*) total=${line#total } ;;
    "exit "*) status=${line#exit } ;;
    "go: downloading "*) loaded=$((loaded + 1)); printf '%s' "${clear}downloading: module $loaded" ;;
    "" | *[!A-Za-z0-9./_~-]*) printf '%s\n' "$clear$line" ;;
    *) built=$((built + 1)); printf '%s' "${clear}building: $built of $total packages" ;;
  esac
done
printf '%s' "$clear"
exit "$status"
