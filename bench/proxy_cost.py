#!/usr/bin/env python3
"""What one proxied request costs, side by side: CPU microseconds per request (user + system, all
threads, read from /proc before and after each run), throughput, p99 and memory, for plimsoll,
nginx, HAProxy and a byte relay that is the floor.

Every proxy runs alone on CPU 0; the backend and wrk share CPU 1. Runs are interleaved round by
round, so a machine that drifts drifts for all; the ratio is taken within a round and the median
over rounds is the figure.

  proxy_cost.py --plimsoll ./plimsoll                       # plain HTTP/1.1, 64 and 512 connections
  proxy_cost.py --plimsoll ./plimsoll --tls                 # TLS 1.3 to the client, plain to the backend
  proxy_cost.py --plimsoll ./plimsoll --body 16384 --rounds 5 --json out.json
  proxy_cost.py --plimsoll ./plimsoll --before ./old --peers relay
  proxy_cost.py --plimsoll ./plimsoll --all                 # every combination, and a Markdown table in bench/out
  proxy_cost.py --plimsoll ./plimsoll --all --quick         # the same in two minutes, with figures to match
  proxy_cost.py --plimsoll ./plimsoll --rate 5000 --conns 64  # at one rate, far below what any of them can do

Needs: wrk nginx haproxy gcc openssl (Debian packages of those names).
"""

import argparse, itertools, json, os, re, statistics, subprocess, sys, time

import rig

HEADERS = {
    "few": [],
    "browser": [
        "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0 Safari/537.36",
        "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8",
        "Accept-Language: en-GB,en;q=0.7,zh;q=0.3",
        "Accept-Encoding: gzip, deflate, br, zstd",
        "Cookie: session=8d2f0c5e9b7a4f3d; theme=dark; consent=yes; ab=17b",
        "Referer: http://localhost/catalogue?page=2",
        "Sec-Fetch-Mode: navigate",
        "Sec-Fetch-Site: same-origin",
        "Cache-Control: no-cache",
        "X-Request-Id: 5e8c1e0a-7c2b",
    ],
}


def to_us(text):
    v, unit = re.match(r"([\d.]+)(us|ms|s)", text).groups()
    return float(v) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


def load(port, conns, secs, tls, headers):
    cmd = ["taskset", "-c", rig.LOAD_CPU, "wrk", "-t1", f"-c{conns}", f"-d{secs}s", "--latency"]
    for h in headers:
        cmd += ["-H", h]
    out = subprocess.run(
        cmd + [f"{'https' if tls else 'http'}://127.0.0.1:{port}/api/v1/users?page=3"],
        capture_output=True,
        text=True,
    ).stdout
    try:
        n = int(re.search(r"(\d+) requests in", out).group(1))
        rps = float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1))
        p99 = to_us(re.search(r"^ +99%\s+(\S+)", out, re.M).group(1))
    except AttributeError:
        sys.exit(f"wrk against port {port} failed:\n{out}")
    if n == 0:
        sys.exit(f"wrk against port {port} got no answer at all:\n{out}")
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    errs = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", out)
    return n, rps, p99, int(bad.group(1)) if bad else 0, sum(map(int, errs.groups())) if errs else 0


def offered(r, a, name, conns, tls, headers):
    """What load gives, of a generator that offers every proxy the same rate."""
    flags = ["--insecure"] if tls else []
    for h in headers:
        flags += ["-H", h]
    url = f"{'https' if tls else 'http'}://127.0.0.1:{rig.PORTS[name]}/api/v1/users?page=3"
    flags += ["--rate", f"{a.rate}", "-c", f"{conns}", "-d", f"{a.seconds}s"]
    r.load("offered", url, *flags)
    totals = r.totals("offered")
    with open(f"{r.tmp}/offered.json") as said:
        p99 = json.load(said)["response_ms"]["p99"]
    ended = totals["ended"]
    n = sum(ended.values())
    if not ended.get("ok"):
        sys.exit(f"{name} answered nothing: {ended}")
    return n, n / totals["length_ns"] * 1e9, p99 * 1e3, n - ended["ok"], 0


def measure(a, tls, headers, body):
    """All rounds of one combination: a list of rows, one for each proxy, number of connections
    and round."""
    rows = []
    names = [p for p in a.peers.split(",") if p and not (tls and p == "relay")] + (
        ["before"] if a.before else []
    )
    names += ["plimsoll"] if a.plimsoll else []
    with rig.Rig(a.plimsoll, tls, a.before) as r:
        r.backend(body)
        for n in names:
            r.proxy(n)
        for n in names:
            load(rig.PORTS[n], 16, 1, tls, [])
        for conns in map(int, a.conns.split(",")):
            for rnd in range(a.rounds):
                for n in names:
                    before = rig.cpu_seconds(r.pid(n))
                    if a.rate:
                        found = offered(r, a, n, conns, tls, HEADERS[headers])
                    else:
                        found = load(rig.PORTS[n], conns, a.seconds, tls, HEADERS[headers])
                    reqs, rps, p99, bad, errs = found
                    cost = (rig.cpu_seconds(r.pid(n)) - before) * 1e6 / reqs
                    rows.append(
                        dict(
                            tls=tls,
                            headers=headers,
                            body=body,
                            proxy=n,
                            conns=conns,
                            round=rnd,
                            cost_us=cost,
                            rps=rps,
                            p99_us=p99,
                            bad=bad,
                            errors=errs,
                            rss_kb=rig.rss_kb(r.pid(n)),
                        )
                    )
    return rows


def summarise(rows):
    """One line for each proxy and number of connections: medians, and plimsoll's cost over this
    proxy's within each round."""
    lines = []
    for conns in sorted({r["conns"] for r in rows}):
        for name in dict.fromkeys(r["proxy"] for r in rows):
            mine = [r for r in rows if r["proxy"] == name and r["conns"] == conns]
            ours = {
                r["round"]: r["cost_us"]
                for r in rows
                if r["proxy"] == "plimsoll" and r["conns"] == conns
            }
            ratios = [
                ours[r["round"]] / r["cost_us"]
                for r in mine
                if name != "plimsoll" and r["round"] in ours and r["cost_us"]
            ]
            med = lambda k: statistics.median(r[k] for r in mine)
            lines.append(
                dict(
                    proxy=name,
                    conns=conns,
                    cost=med("cost_us"),
                    rps=med("rps"),
                    p99=med("p99_us"),
                    rss=med("rss_kb") / 1024,
                    bad=sum(r["bad"] + r["errors"] for r in mine),
                    ratios=ratios,
                )
            )
    return lines


def title(tls, headers, body):
    return f"{'TLS 1.3' if tls else 'plain'}, {headers} headers, {body} byte bodies"


def print_lines(lines):
    print(
        f"{'proxy':9} {'conns':>5} {'cpu us/req':>10} {'rps':>9} {'p99 us':>8} {'RSS MB':>7}  plimsoll's cost / its cost, within each round"
    )
    for s in lines:
        q = s["ratios"]
        print(
            f"{s['proxy']:9} {s['conns']:5} {s['cost']:10.2f} {s['rps']:9.0f} {s['p99']:8.0f} {s['rss']:7.1f}  "
            + (f"{statistics.median(q):.3f} (min {min(q):.3f}, max {max(q):.3f})" if q else "")
            + (f"  {s['bad']} bad or failed" if s["bad"] else ""),
            flush=True,
        )


def worst(lines):
    """The worst median ratio against the real peers: the relay is a floor, not one of them. None
    without any."""
    return max(
        (
            statistics.median(s["ratios"])
            for s in lines
            if s["proxy"] in ("nginx", "haproxy") and s["ratios"]
        ),
        default=None,
    )


def markdown(a, measured):
    head = [f"- {line}" for line in rig.machine(a.plimsoll)]
    head += [
        f"- method: {a.rounds} interleaved rounds of {a.seconds} s; CPU is user + system of all threads; ratios are within a round, medians over rounds",
        f"- date: {time.strftime('%Y-%m-%d')}",
        "",
    ]
    table = [
        "| case | conns | proxy | CPU µs/req | req/s | p99 µs | RSS MB | plimsoll ÷ this (min–max) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for combination, lines in measured:
        for s in lines:
            q = s["ratios"]
            ratio = f"{statistics.median(q):.2f} ({min(q):.2f}–{max(q):.2f})" if q else "–"
            failed = f" ({s['bad']} bad)" if s["bad"] else ""
            table.append(
                f"| {title(*combination)} | {s['conns']} | {s['proxy']}{failed} | {s['cost']:.1f} | {s['rps']:.0f} | {s['p99']:.0f} | {s['rss']:.1f} | {ratio} |"
            )
    return "\n".join(head + table) + "\n"


def main():
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("--plimsoll", help="the plimsoll binary; left out, only the peers run")
    ap.add_argument("--before", help="another plimsoll to compare with")
    ap.add_argument("--conns", default="64,512")
    ap.add_argument("--seconds", type=int, default=4)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument(
        "--rate",
        type=int,
        help="requests a second that every proxy is offered, by plimsoll load; else wrk asks for all that it can get",
    )
    ap.add_argument("--body", type=int, default=128, help="response body bytes")
    ap.add_argument("--headers", choices=HEADERS, default="few")
    ap.add_argument("--tls", action="store_true")
    ap.add_argument(
        "--all",
        action="store_true",
        help="plain and TLS, few and browser headers, 128 and 16384 byte bodies",
    )
    ap.add_argument(
        "--quick",
        action="store_true",
        help="one round of one second each: for a look, not for a figure",
    )
    ap.add_argument("--peers", default="relay,nginx,haproxy")
    ap.add_argument("--json", help="write every row here")
    a = ap.parse_args()
    rig.need("wrk", "nginx", "haproxy", "gcc", "openssl", "taskset", "pgrep")
    if not a.plimsoll and not a.peers:
        sys.exit("nothing to measure")
    if a.quick:
        a.rounds, a.seconds = 1, 1
    combinations = (
        list(itertools.product([False, True], HEADERS, [128, 16384]))
        if a.all
        else [(a.tls, a.headers, a.body)]
    )
    rows, measured = [], []
    for c in combinations:
        print(f"\n{title(*c)}")
        new = measure(a, *c)
        rows += new
        measured.append((c, summarise(new)))
        print_lines(measured[-1][1])
    if a.json:
        json.dump(rows, open(a.json, "w"), indent=1)
    if a.all:
        os.makedirs(rig.OUT, exist_ok=True)
        with open(f"{rig.OUT}/proxy_cost.md", "w") as f:
            f.write(markdown(a, measured))
        print(f"\nwritten: {os.path.relpath(rig.OUT)}/proxy_cost.md")
    ratio = worst([s for _, lines in measured for s in lines])
    if ratio:
        print(f"worst median ratio against nginx and haproxy: {ratio:.3f}")


if __name__ == "__main__":
    main()
