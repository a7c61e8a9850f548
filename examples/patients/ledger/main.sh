#!/bin/sh
# Compiles the service, runs it, and takes it away when it ends.
set -eu
here=$(dirname "$0")
folder=$(mktemp -d "${TMPDIR:-/tmp}/patient-ledger-XXXXXX")
trap 'rm -r "$folder"' EXIT
trap 'exit 0' TERM INT
cc -std=c11 -O2 -g -Wall -Werror -pthread -o "$folder/ledger" "$here/ledger.c"
"$folder/ledger" --journal "$folder/journal" "$@" &
service=$!
trap 'kill "$service" 2>/dev/null || true' TERM INT
while kill -0 "$service" 2>/dev/null; do # a signal to this script ends a wait
    wait "$service" || true
done
