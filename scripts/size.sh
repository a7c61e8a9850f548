#!/bin/sh
# Says whether the stripped binary is as small as promised (30 MB), and if it is not, where to look. It
# is built with the flags that tests are, whose packages are compiled already. The one that make build
# makes is inlined by a profile, other modules too, and 0.82 MB larger.
set -eu
most=29180000
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

go build -ldflags '-s -w' -o "$dir/plimsoll" ./cmd/plimsoll
size=$(($(wc -c <"$dir/plimsoll")))
test "$size" -gt "$most" || exit 0

exec >&2
echo "the stripped binary has $size bytes, more than $most"
callers=$(go build -ldflags '-dumpdep' -o "$dir/plimsoll" ./cmd/plimsoll 2>&1 |
	grep -oE '^[^ ]+ <ReflectMethod>' | grep -v '^reflect\.' | sort -u) || true
if test -n "$callers"; then
	echo "These functions look methods up by name, so that the linker keeps every exported method of"
	echo "every type (13 MB). Methods among them may be kept because of another function only. See"
	echo "cmd/plimsoll/parse.go and internal/lab/report/html.go."
	echo "$callers"
else
	echo "The largest symbols are listed by: go tool nm -size -sort size FILE, with a FILE built"
	echo "without -ldflags. What changed since the last build that was small enough? A new library?"
fi
exit 1
