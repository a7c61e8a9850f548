#!/usr/bin/env python3
"""What one proxied HTTP/3 request costs, side by side: CPU microseconds per request (user + system,
all threads), for plimsoll over HTTP/3 and over HTTP/2, and Caddy over HTTP/3. Plain HTTP/1.1 to the
backend. The load is plimsoll's own generator.

Every proxy has CPU 0; the backend and the generator share CPU 1. Runs are interleaved round by
round, the ratio is taken within a round, and the median over rounds is the figure.

  h3_cost.py --plimsoll ./plimsoll                     # 8 and 64 connections of 10 streams, 128 bytes
  h3_cost.py --plimsoll ./plimsoll --body 16384

Needs: caddy gcc openssl (Debian packages). Debian's nginx has no HTTP/3.
"""

import argparse, json, shutil, statistics, subprocess, sys

import rig

PORTS = {"http3": 19041, "caddy": 19042, "http2": 19043}


class Rig(rig.Rig):
    def __enter__(self):
        super().__enter__()
        tls = f"tls: {{certificates: [{{cert: {self.tmp}/c.pem, key: {self.tmp}/k.pem}}]}}"
        for name in ("http2", "http3"):
            rig.write(
                f"{self.tmp}/{name}.yaml",
                f"""
loops: 1
listeners: [{{address: "127.0.0.1:{PORTS[name]}", {tls}, http3: {str(name == "http3").lower()}}}]
upstreams: {{b: {{targets: ["127.0.0.1:{rig.BACKEND}"]}}}}
routes: [{{match: "/", upstream: b}}]
""",
            )
        rig.write(
            f"{self.tmp}/Caddyfile",
            f"""
{{
    admin off
    auto_https off
    default_sni localhost
    servers {{
        protocols h1 h2 h3
    }}
}}
https://localhost:{PORTS['caddy']}, https://127.0.0.1:{PORTS['caddy']} {{
    tls {self.tmp}/c.pem {self.tmp}/k.pem
    reverse_proxy 127.0.0.1:{rig.BACKEND} {{
        transport http {{
            keepalive_idle_conns_per_host 1000
            compression off
        }}
    }}
}}
""",
        )
        rig.PORTS.update(PORTS)
        return self

    def command(self, name):
        if name == "caddy":
            # One processor is what it has here; its other threads would only take turns on it.
            return [
                "env",
                "GOMAXPROCS=1",
                shutil.which("caddy"),
                "run",
                "--config",
                f"{self.tmp}/Caddyfile",
                "--adapter",
                "caddyfile",
            ]
        return [self.binary, "serve", "--config", f"{self.tmp}/{name}.yaml"]


def load(binary, name, conns, streams, seconds):
    """How many requests were answered well, and how many were not."""
    command = [
        "taskset",
        "-c",
        rig.LOAD_CPU,
        binary,
        "load",
        f"https://127.0.0.1:{PORTS[name]}/api/v1/users?page=3",
        "--insecure",
        "--http2" if name == "http2" else "--http3",
        "-c",
        str(conns),
        "--streams",
        str(streams),
        "-t",
        "1",
        "-d",
        f"{seconds}s",
        "--json",
    ]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"the load of {name} failed:\n{ran.stderr[-2000:]}")
    ended = json.loads(ran.stdout)["totals"]["ended"]
    return ended.get("ok", 0), sum(n for how, n in ended.items() if how != "ok")


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--plimsoll", required=True, help="the binary")
    p.add_argument("--conns", default="8,64")
    p.add_argument("--streams", type=int, default=10)
    p.add_argument("--body", type=int, default=128, help="response body bytes")
    p.add_argument("--rounds", type=int, default=4)
    p.add_argument("--seconds", type=int, default=3)
    p.add_argument("--json", help="write every row here")
    a = p.parse_args()
    rig.need("caddy", "gcc", "openssl", "taskset")
    rows, names = [], ["http2", "caddy", "http3"]
    with Rig(a.plimsoll, True) as r:
        r.backend(a.body)
        for name in names:
            r.proxy(name)
            load(r.binary, name, 2, a.streams, 1)
        for conns in map(int, a.conns.split(",")):
            for n in range(a.rounds):
                for name in names:
                    before = rig.cpu_seconds(r.pid(name))
                    ok, bad = load(r.binary, name, conns, a.streams, a.seconds)
                    rows.append(
                        dict(
                            proxy=name,
                            conns=conns,
                            body=a.body,
                            round=n,
                            rps=ok / a.seconds,
                            bad=bad,
                            cost_us=(rig.cpu_seconds(r.pid(name)) - before) * 1e6 / max(ok, 1),
                            rss_kb=rig.rss_kb(r.pid(name)),
                        )
                    )
    for conns in map(int, a.conns.split(",")):
        for name in names:
            costs = statistics.median(
                row["cost_us"] for row in rows if row["proxy"] == name and row["conns"] == conns
            )
            ratios = [
                ours["cost_us"] / row["cost_us"]
                for row in rows
                for ours in rows
                if row["proxy"] == name
                and row["conns"] == conns == ours["conns"]
                and ours["proxy"] == "http3"
                and ours["round"] == row["round"]
            ]
            print(
                f"{conns:3} connections, {name:6} {costs:8.1f} us a request; plimsoll over HTTP/3 / this, within each round: "
                f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}); "
                f"{sum(row['bad'] for row in rows if row['proxy'] == name and row['conns'] == conns)} failed"
            )
    if a.json:
        rig.write(
            a.json, json.dumps({"machine": rig.machine(a.plimsoll), "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
