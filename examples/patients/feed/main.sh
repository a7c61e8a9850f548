#!/bin/sh
# Compiles the service, runs it, and takes it away when it ends. The C library is linked in, so that
# a profile has the names of its functions.
set -eu
here=$(dirname "$0")
folder=$(mktemp -d "${TMPDIR:-/tmp}/patient-feed-XXXXXX")
trap 'rm -r "$folder"' EXIT
trap 'exit 0' TERM INT
cc -std=c11 -O2 -g -Wall -Werror -pthread -static -o "$folder/feed" "$here/feed.c"
"$folder/feed" "$@" &
service=$!
trap 'kill "$service" 2>/dev/null || true' TERM INT
while kill -0 "$service" 2>/dev/null; do # a signal to this script ends a wait
    wait "$service" || true
done
