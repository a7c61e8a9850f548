#!/usr/bin/env python3
"""What the policies that protect cost a request: CPU microseconds of one gateway with all of them
on its route, and of one without, run in turn, and the difference within a round.

  policy_cost.py --plimsoll ./plimsoll

All are offered the same requests a second, half of what the bare one serves in a closed loop. In a
closed loop the adaptive limit would decide how many requests are under way at the service, so how
many events a loop finds each time it looks, and with that the kernel's part of the cost: such
differences were between -1.4 and 14.8 us in one run.

All of them: two limits (one by client address, one for the route), bounds on what is under way in
all and by client, adaptive concurrency, an adaptive breaker and one of failures, a retry budget, a
fallback, class and deadline headers, admission. Nothing is refused.

A third gateway has two limits more: a leaky bucket that only counts, because one that is enforced
holds requests until their turns, and one that is shared through Redis, from which it takes leases.
"""

import argparse, json, os, statistics, sys

import proxy_cost, rig

ALL = f"""
listeners:
  - address: 127.0.0.1:19014
    limits: {{idle_timeout: 5m}}
    trusted_proxies: [127.0.0.0/8]
sla_header: X-Class
admission: enforce
upstreams:
  b:
    targets: ["127.0.0.1:{rig.BACKEND}"]
    concurrency: adaptive
    breaker: {{adaptive: {{}}, consecutive_failures: 5, failure_ratio: 40%}}
    retry: {{attempts: 1, on: [connect, reset], budget: 20%}}
routes:
  - match: "/"
    upstream: b
    sla: P2
    deadline_header: X-Deadline-Ms
    limits:
      - {{rate: 1000000/s, burst: 1000000, key: client_address}}
      - {{rate: 1000000/s, burst: 1000000}}
    concurrency: {{max: 10000, key: client_address, max_per_value: 10000}}
    fallback: {{status: 200, body: "later"}}
"""

REDIS = 19016
SHARED = (
    f"redis: {{counts: {{addresses: [\"127.0.0.1:{REDIS}\"], timeout: 50ms}}}}\n"
    + ALL.replace("19014", "19015").replace(
        "    concurrency: {max:",
        """\
      - {name: leaky, rate: 1000000/s, algorithm: leaky_bucket, queue: 1000000, max_wait: 1s, dry_run: true}
      - {name: shared, rate: 1000000/s, burst: 1000000, shared: {redis: counts, mode: leased, batch: 10000}}
    concurrency: {max:""",
    )
)
CONFIGS = {"all": ALL, "shared": SHARED}


class Rig(rig.Rig):
    def command(self, name):
        if name not in CONFIGS:
            return super().command(name)
        rig.write(f"{self.tmp}/{name}.yaml", CONFIGS[name])
        return [self.binary, "serve", "--config", f"{self.tmp}/{name}.yaml"]

    def redis(self):
        self._start(
            "redis", rig.LOAD_CPU, ["redis-server", "--port", str(REDIS), "--save", ""], REDIS
        )


def measure(r, a, name, port, rate):
    """CPU microseconds of a gateway for each request, at a rate that all are offered."""
    before = rig.cpu_seconds(r.pid(name))
    r.load(
        "load",
        f"http://127.0.0.1:{port}/api/v1/users?page=3",
        "--rate",
        f"{rate:.0f}",
        "-c",
        "64",
        "-d",
        f"{a.seconds}s",
    )
    ended = r.totals("load")["ended"]
    if set(ended) - {"ok"}:
        sys.exit(f"{name}: requests ended as {ended}; nothing was to be refused")
    return (rig.cpu_seconds(r.pid(name)) - before) * 1e6 / ended["ok"]


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--plimsoll", required=True, help="the binary")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--seconds", type=int, default=4)
    p.add_argument(
        "--json", default=os.path.join(rig.OUT, "policy_cost.json"), help="where every row goes"
    )
    a = p.parse_args()
    rig.need("taskset", "gcc", "wrk", "redis-server")
    ports = {"plimsoll": rig.PORTS["plimsoll"], "all": 19014, "shared": 19015}
    rig.PORTS.update(ports)
    rows = []
    with Rig(a.plimsoll) as r:
        r.backend()
        r.redis()
        for name, port in ports.items():
            r.proxy(name)
            proxy_cost.load(port, 16, 1, False, [])
        _, line, _, _, _ = proxy_cost.load(ports["plimsoll"], 64, a.seconds, False, [])
        print(
            "the bare one serves %.0f requests a second in a closed loop; offered are %.0f"
            % (line, line / 2),
            flush=True,
        )
        for n in range(a.rounds):
            cost = {name: measure(r, a, name, port, line / 2) for name, port in ports.items()}
            rows.append(cost)
            bare, more = cost["plimsoll"], cost["shared"]
            print(
                "bare %.2f us, all %.2f us: %+.2f us; with a leaky bucket and a shared limit %.2f us: %+.2f us"
                % (bare, cost["all"], cost["all"] - bare, more, more - bare),
                flush=True,
            )
    os.makedirs(os.path.dirname(os.path.abspath(a.json)), exist_ok=True)
    rig.write(
        a.json, json.dumps({"machine": rig.machine(a.plimsoll), "rows": rows}, indent=1) + "\n"
    )
    for name in CONFIGS:
        more = [c[name] - c["plimsoll"] for c in rows]
        print(
            "%s: median: %+.2f us a request (%.2f to %.2f), %.3f of the bare proxy"
            % (
                name,
                statistics.median(more),
                min(more),
                max(more),
                statistics.median(c[name] / c["plimsoll"] for c in rows),
            )
        )


if __name__ == "__main__":
    main()
