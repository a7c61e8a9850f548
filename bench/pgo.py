#!/usr/bin/env python3
"""Writes the profile that the compiler optimises plimsoll with: cmd/plimsoll/default.pgo, which go
build finds by its name.

It profiles the gateway under the loads of proxy_cost.py and h2_cost.py, each for as long as the
others, and merges the profiles. An old profile still serves, as it names functions and the lines in
them, but a new hot path is not in it: run this after large changes to the data plane, and measure the
binary with --before before the profile is kept.

  pgo.py --plimsoll ./plimsoll     # a minute and a half

Needs: wrk h2load gcc openssl go (Debian packages wrk, nghttp2-client, gcc, openssl).
"""

import argparse, concurrent.futures, os, subprocess, urllib.request

import h2_cost, proxy_cost, rig

SECONDS = 8  # of each load
PROFILE = os.path.join(rig.HERE, "..", "cmd", "plimsoll", "default.pgo")
# The protocol that clients speak and that the backend is asked in, headers, body, connections.
LOADS = [
    ("http", "http1", "few", 128, 64),
    ("http", "http1", "browser", 128, 64),
    ("https", "http1", "browser", 128, 64),
    ("https", "http1", "few", 16384, 64),
    ("h2", "http1", None, 128, 8),
    ("h2", "http1", None, 128, 64),
    ("h2", "http1", None, 16384, 64),
    ("h2", "h2c", None, 128, 64),
]


def offer(protocol, headers, conns):
    port = rig.PORTS["plimsoll"]
    if protocol == "h2":
        h2_cost.load(port, conns, 10, SECONDS)
    else:
        fields = proxy_cost.HEADERS[headers]
        proxy_cost.load(port, conns, SECONDS, protocol == "https", fields)


def fetch():
    """What the gateway is doing for some seconds from now, as pprof has it."""
    url = f"http://127.0.0.1:{rig.ADMIN}/debug/pprof/profile?seconds={SECONDS}"
    with urllib.request.urlopen(url, timeout=SECONDS + 10) as answer:
        return answer.read()


def profile(binary, protocol, upstream, headers, body, conns):
    """The profile of the gateway under one load."""
    with rig.Rig(binary, protocol != "http") as r:
        if upstream == "h2c":
            h2_cost.ask_http2(r)
            r.http2("backend2", rig.LOAD_CPU, body)
        else:
            r.backend(body)
        r.proxy("plimsoll")
        # The load keeps this thread: in another one, its sys.exit would be ignored.
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            taken = pool.submit(fetch)
            offer(protocol, headers, conns)
        path = f"{rig.OUT}/pgo-{protocol}-{upstream}-{headers}-{body}-{conns}.pb.gz"
        with open(path, "wb") as out:
            out.write(taken.result())
        return path


def main():
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("--plimsoll", required=True)
    a = ap.parse_args()
    rig.need("wrk", "h2load", "gcc", "openssl", "taskset", "go")
    os.makedirs(rig.OUT, exist_ok=True)
    taken = [profile(a.plimsoll, *load) for load in LOADS]
    subprocess.run(["go", "tool", "pprof", "-proto", "-output", PROFILE, *taken], check=True)
    print(f"wrote {os.path.normpath(PROFILE)}: build again, and measure with --before")


if __name__ == "__main__":
    main()
