#!/bin/sh
# Makes sure that the programs the tests and measurements call are there. As root it installs what
# is missing from Debian's packages; otherwise it prints the one command that does.
set -eu

missing=
need() { # program packages
    command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || missing="$missing $2"
}
need curl curl
need wrk wrk
need h2load nghttp2-client
need nginx nginx
need haproxy haproxy
need openssl openssl
need redis-server redis-server
need promtool prometheus
need nc netcat-openbsd
need python3 python3
need pgrep procps
# Patients have a real PostgreSQL, and network namespaces. Debian keeps a server's programs out of
# the PATH, by version.
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing="$missing postgresql"
need ip iproute2
# Some of them are written in other languages, with Debian's own Python for its packages.
need node nodejs
need javac default-jdk-headless
need puma puma
for module in gunicorn:gunicorn aiohttp:python3-aiohttp psycopg2:python3-psycopg2 redis:python3-redis; do
    /usr/bin/python3 -c "import ${module%%:*}" 2>/dev/null || missing="$missing python3 ${module#*:}"
done
need nsenter util-linux
# Generators on other machines are reached by ssh; the tests' server runs on a port of its own.
need ssh openssh-client
need sshd openssh-server
# The front end is built by node, and its pages are looked at in a browser.
need npm "npm nodejs"
need chromium chromium
# The race detector needs a C compiler, and the measurements compile their backend.
need gcc "gcc libc6-dev"

[ -n "$missing" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
    echo "The tests need programs that are not installed. Run: sudo apt-get install -y --no-install-recommends$missing" >&2
    exit 1
fi
echo "installing$missing"
export DEBIAN_FRONTEND=noninteractive
# Packages that bring a service must not start it: a policy script that says no is Debian's way to
# ask for that.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
fi
# The lists may be old, so a failed installation is tried once more with fresh ones.
# shellcheck disable=SC2086
apt-get install -y -q --no-install-recommends $missing >/dev/null 2>&1 ||
    { apt-get update -q >/dev/null && apt-get install -y -q --no-install-recommends $missing >/dev/null; } ||
    { echo "apt-get could not install$missing: install them by hand" >&2; exit 1; }
