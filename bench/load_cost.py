#!/usr/bin/env python3
"""What the generator itself costs, beside wrk, and over HTTP/2 beside h2load: CPU microseconds per
request (user + system of the whole process, its start included), in a closed loop on one loop and
one core; how late it sends in an open loop at half its highest rate; and what a connection takes of
memory. Over HTTP/2 the service is backend2, which is faster than either of them, and nginx, which
is not: what is measured then is mostly how often they are woken. The budget is for the former.

The generator has CPU 1, the backend CPU 0. Rounds are interleaved, so a machine that drifts drifts
for both; the ratio is taken within a round and the median over rounds is the figure.

  load_cost.py --plimsoll ./plimsoll                  # all of it
  load_cost.py --plimsoll ./plimsoll --rounds 1 --seconds 1 --only cost
  load_cost.py --plimsoll ./plimsoll --only http2     # beside h2load
  load_cost.py --plimsoll ./plimsoll --check          # fails when a budget is broken

Needs: wrk gcc nginx nghttp2-client (Debian packages of those names).
"""

import argparse, json, re, resource, statistics, subprocess, sys, time

import rig

URL = f"http://127.0.0.1:{rig.BACKEND}/api/v1/users?page=3"
# The budgets: cost against wrk's and against h2load's, microseconds of send lag at the 99th
# percentile, KB of memory per connection.
RATIO, LAG_US, CONNECTION_KB = 0.9, 100, 16


def used(command):
    """Runs a command on the generator's CPU. Its output and the CPU seconds it used."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(["taskset", "-c", rig.LOAD_CPU] + command, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(a, conns, *more, url=URL):
    return [
        a.plimsoll,
        "load",
        url,
        "-c",
        str(conns),
        "-t",
        "1",
        "-d",
        f"{a.seconds}s",
        "--json",
        *more,
    ]


def totals(done):
    """What plimsoll load printed. Its exit code is not 0 when the generator was the limit, which
    it is meant to be in a closed loop."""
    try:
        t = json.loads(done.stdout)["totals"]
    except (ValueError, KeyError):
        sys.exit(f"plimsoll load failed:\n{done.stdout}{done.stderr}")
    if sum(t["ended"].values()) != t["ended"]["ok"] or t["ended"]["ok"] == 0:
        sys.exit(f"requests failed, so nothing was measured: {t['ended']} {t.get('examples')}")
    return t


def wrk(a, conns, url):
    done, cpu = used(["wrk", "-t1", f"-c{conns}", f"-d{a.seconds}s", url])
    found = re.search(r"(\d+) requests in", done.stdout)
    if not found or "Socket errors" in done.stdout or "Non-2xx" in done.stdout:
        sys.exit(f"wrk failed:\n{done.stdout}{done.stderr}")
    return cpu * 1e6 / int(found.group(1))


def h2load(a, conns, url):
    done, cpu = used(["h2load", "-t1", f"-c{conns}", f"-m{a.streams}", f"-D{a.seconds}s", url])
    found = re.search(r"(\d+) done, (\d+) succeeded", done.stdout)
    if not found or found.group(1) != found.group(2) or found.group(1) == "0":
        sys.exit(f"h2load failed:\n{done.stdout}{done.stderr}")
    return cpu * 1e6 / int(found.group(1))


def cost(a, name, peer, all_conns, *more, url=URL):
    """CPU per request of both, round by round."""
    worst, fastest = 0, 0
    for conns in map(int, all_conns.split(",")):
        rows = []
        for i in range(a.rounds):
            theirs = peer(a, conns, url) if i % 2 == 0 else 0
            done, cpu = used(ours(a, conns, *more, url=url))
            theirs = theirs or peer(a, conns, url)
            t = totals(done)
            rows.append((cpu * 1e6 / t["ended"]["ok"], theirs))
            fastest = max(fastest, t["ended"]["ok"] / t["length_ns"] * 1e9)
        ratios = [mine / theirs for mine, theirs in rows]
        worst = max(worst, statistics.median(ratios))
        print(
            f"{conns} connections: plimsoll {statistics.median(r[0] for r in rows):.2f} us a request, {name} {statistics.median(r[1] for r in rows):.2f}, "
            f"ratio {statistics.median(ratios):.3f} (min {min(ratios):.3f}, max {max(ratios):.3f})",
            flush=True,
        )
    return worst, fastest


def quantile(histogram, q):
    """A quantile of a histogram, in nanoseconds: the upper bound of its bucket."""
    buckets = histogram["buckets"]
    rank = max(1, round(q * sum(b["count"] for b in buckets)))
    for b in buckets:
        rank -= b["count"]
        if rank <= 0:
            return min(b["to_ns"], histogram["max_ns"])
    return 0


def lag(a, fastest):
    """How late requests were sent, at half of the highest rate that the closed loop reached."""
    found = []
    for _ in range(a.rounds):
        t = totals(used(ours(a, 64, "--rate", str(int(fastest / 2))))[0])
        found.append(quantile(t["lag"], 0.99) / 1e3)
        print(
            f"open loop at {fastest / 2:.0f}/s: sent late by {quantile(t['lag'], 0.5) / 1e3:.1f} us at the median, {found[-1]:.1f} us at p99; "
            f"busy {t['generator']['busy_share']:.0%} {t['generator'].get('invalid', '')}",
            flush=True,
        )
    return statistics.median(found)


def resident(a, conns):
    """Resident KB in the middle of a run."""
    p = subprocess.Popen(
        ["taskset", "-c", rig.LOAD_CPU] + ours(a, conns),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(a.seconds * 0.6)
    kb = rig.rss_kb(p.pid)
    p.wait()
    return kb


def memory(a):
    rows = [(resident(a, 64), resident(a, 512)) for _ in range(a.rounds)]
    few, many = (statistics.median(r[i] for r in rows) for i in (0, 1))
    each = (many - few) / (512 - 64)
    print(
        f"memory: {few / 1024:.1f} MB with 64 connections, {many / 1024:.1f} MB with 512: {each:.2f} KB for each",
        flush=True,
    )
    return each


def main():
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("--plimsoll", required=True, help="the plimsoll binary")
    ap.add_argument("--conns", default="64,512")
    ap.add_argument("--conns2", default="8,64", help="of HTTP/2")
    ap.add_argument("--streams", type=int, default=10, help="of a connection of HTTP/2")
    ap.add_argument("--seconds", type=int, default=3)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument(
        "--only",
        choices=["cost", "lag", "memory", "http2"],
        help="one of the measurements; lag needs a closed loop first",
    )
    ap.add_argument("--check", action="store_true", help="exit with 1 when a budget is broken")
    a = ap.parse_args()
    rig.need("wrk", "h2load", "nginx", "gcc", "taskset", "pgrep")
    broken = []
    with rig.Rig(a.plimsoll) as r:
        a.plimsoll = r.binary
        r.backend(cpu=rig.PROXY_CPU)
        fastest = 0
        if a.only in (None, "cost"):
            ratio, fastest = cost(a, "wrk", wrk, a.conns)
            broken += [f"CPU per request is {ratio:.3f} of wrk's, more than {RATIO}"] * (
                ratio > RATIO
            )
        if a.only in (None, "lag"):
            if not fastest:
                t = totals(used(ours(a, 64))[0])
                fastest = t["ended"]["ok"] / t["length_ns"] * 1e9
            late = lag(a, fastest)
            broken += [f"send lag p99 is {late:.0f} us, more than {LAG_US}"] * (late > LAG_US)
        if a.only in (None, "memory"):
            each = memory(a)
            broken += [f"a connection takes {each:.1f} KB, more than {CONNECTION_KB}"] * (
                each > CONNECTION_KB
            )
        if a.only in (None, "http2"):
            for name in rig.HTTP2:
                r.http2(name, cpu=rig.PROXY_CPU)
                print(f"HTTP/2, {a.streams} streams a connection, {name}:", flush=True)
                url = f"http://127.0.0.1:{rig.HTTP2[name]}/api/v1/users?page=3"
                ratio, _ = cost(
                    a, "h2load", h2load, a.conns2, "--http2", "--streams", str(a.streams), url=url
                )
                if name == "backend2":
                    broken += [
                        f"CPU per request over HTTP/2 is {ratio:.3f} of h2load's, more than {RATIO}"
                    ] * (ratio > RATIO)
    for b in broken:
        print("budget broken:", b)
    sys.exit(1 if broken and a.check else 0)


if __name__ == "__main__":
    main()
