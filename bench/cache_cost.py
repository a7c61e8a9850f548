#!/usr/bin/env python3
"""What an answer from the cache costs, side by side: CPU microseconds per request (user + system,
all processes of the server) for plimsoll, nginx's proxy_cache on a tmpfs and Varnish in memory. One
stored response, asked for again and again by wrk.

As in proxy_cost.py every server has CPU 0, the load has CPU 1, runs are interleaved round by round,
the ratio is taken within a round, and the median over rounds is the figure.

  cache_cost.py --plimsoll ./plimsoll                  # 1 KB and 100 KB, 64 connections
  cache_cost.py --plimsoll ./plimsoll --before ./old   # and another plimsoll beside it

Needs: wrk nginx varnishd gcc (Debian packages wrk, nginx, varnish, gcc), and a tmpfs at /dev/shm.
"""

import argparse, json, os, shutil, statistics, sys

import proxy_cost, rig

PORTS = {
    "plimsoll": rig.PORTS["plimsoll"],
    "before": rig.PORTS["before"],
    "nginx": rig.PORTS["nginx"],
    "varnish": 19016,
}


class Rig(rig.Rig):
    def __enter__(self):
        super().__enter__()
        for name in ("plimsoll", "before"):
            text = open(f"{self.tmp}/{name}.yaml").read()
            rig.write(
                f"{self.tmp}/{name}.yaml",
                text.replace(
                    '{match: "/", upstream: b}', '{match: "/", upstream: b, cache: {ttl: 1h}}'
                ),
            )
        self.stored = f"/dev/shm/{os.path.basename(self.tmp)}"
        text = open(f"{self.tmp}/nginx.conf").read()
        text = text.replace(
            "http { ",
            f"http {{ proxy_cache_path {self.stored} levels=1:2 keys_zone=c:10m max_size=200m inactive=2h "
            "use_temp_path=off; open_file_cache max=1000 inactive=1h; ",
            1,
        )
        rig.write(
            f"{self.tmp}/nginx.conf",
            text.replace(
                "location / { ", "location / { proxy_cache c; proxy_cache_valid 200 1h; ", 1
            ),
        )
        rig.PORTS["varnish"] = PORTS["varnish"]
        return self

    def __exit__(self, *what):
        super().__exit__(*what)
        shutil.rmtree(self.stored, ignore_errors=True)

    def command(self, name):
        if name != "varnish":
            return super().command(name)
        return [
            "varnishd",
            "-F",
            "-n",
            f"{self.tmp}/varnish",
            "-a",
            f"127.0.0.1:{PORTS['varnish']}",
            "-b",
            f"127.0.0.1:{rig.BACKEND}",
            "-s",
            "malloc,256m",
            "-t",
            "3600",
            "-p",
            "thread_pools=1",
            "-p",
            "thread_pool_max=500",
        ]


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--plimsoll", required=True, help="the binary")
    p.add_argument("--before", help="another plimsoll to compare with")
    p.add_argument("--bodies", default="1024,102400")
    p.add_argument("--conns", type=int, default=64)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=int, default=4)
    p.add_argument(
        "--json", default=os.path.join(rig.OUT, "cache_cost.json"), help="where every row goes"
    )
    a = p.parse_args()
    rig.need("wrk", "nginx", "varnishd", "gcc", "taskset", "pgrep")
    names = ["nginx", "varnish"] + (["before"] if a.before else []) + ["plimsoll"]
    rows = []
    for body in map(int, a.bodies.split(",")):
        with Rig(a.plimsoll, before=a.before) as r:
            r.backend(body)
            for name in names:
                r.proxy(name)
                proxy_cost.load(PORTS[name], 16, 1, False, [])
            for n in range(a.rounds):
                for name in names:
                    before = rig.cpu_seconds(r.pid(name))
                    asked = rig.cpu_seconds(r.pid("backend"))
                    requests, rps, p99, bad, errors = proxy_cost.load(
                        PORTS[name], a.conns, a.seconds, False, []
                    )
                    if bad or errors:
                        sys.exit(f"{name}: {bad} answers are bad, {errors} requests failed")
                    if rig.cpu_seconds(r.pid("backend")) - asked > 0.05:
                        sys.exit(f"{name} asks its backend: it does not answer from the cache")
                    rows.append(
                        dict(
                            body=body,
                            proxy=name,
                            conns=a.conns,
                            round=n,
                            rps=rps,
                            p99_us=p99,
                            bad=0,
                            errors=0,
                            cost_us=(rig.cpu_seconds(r.pid(name)) - before) * 1e6 / requests,
                            rss_kb=rig.rss_kb(r.pid(name)),
                        )
                    )
        print(f"\nstored responses of {body} bytes")
        of_body = [row for row in rows if row["body"] == body]
        proxy_cost.print_lines(proxy_cost.summarise(of_body))
        cheapest = [
            min(
                row["cost_us"]
                for row in of_body
                if row["round"] == n and row["proxy"] in ("nginx", "varnish")
            )
            for n in range(a.rounds)
        ]
        ours = [row["cost_us"] for row in of_body if row["proxy"] == "plimsoll"]
        print(
            "against the cheaper peer of each round: %.3f"
            % statistics.median(o / c for o, c in zip(ours, cheapest))
        )
    os.makedirs(os.path.dirname(os.path.abspath(a.json)), exist_ok=True)
    rig.write(
        a.json, json.dumps({"machine": rig.machine(a.plimsoll), "rows": rows}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
