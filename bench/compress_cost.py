#!/usr/bin/env python3
"""What compressing a response costs a request: CPU microseconds of plimsoll and of nginx, which
pass on the same JSON, with gzip and without, run in turn; and with zstd and brotli, of plimsoll
alone. The levels are nginx's default, 1, and plimsoll's, fast.

  compress_cost.py --plimsoll ./plimsoll
  compress_cost.py --plimsoll ./plimsoll --body 2048 --rounds 5

Each has CPU 0 for itself, but for the other, which is idle meanwhile; the service, an nginx that
sends a file, and wrk have CPU 1. What a body becomes is asked for once. Needs: wrk nginx curl gcc.
"""

import argparse, json, os, random, shutil, statistics, subprocess, sys

import proxy_cost, rig

SERVICE, NGINX, OURS = 19030, 19031, 19032

NGINX_CONF = """
worker_processes 1; worker_rlimit_nofile 20000; daemon off; pid {tmp}/{name}.pid; error_log {tmp}/{name}.err crit;
events {{ worker_connections 10000; }}
http {{
  access_log off; keepalive_requests 1000000000; default_type application/json; sendfile on; tcp_nopush on; etag off;
  client_body_temp_path {tmp}/ct; proxy_temp_path {tmp}/pt; fastcgi_temp_path {tmp}/ft; uwsgi_temp_path {tmp}/ut; scgi_temp_path {tmp}/st;
  upstream b {{ server 127.0.0.1:{service}; keepalive 1024; keepalive_requests 1000000000; }}
  server {{ listen 127.0.0.1:{port} reuseport backlog=4096; root {tmp}/www; {more} }}
}}
"""
PEER = """gzip on; gzip_comp_level 1; gzip_types application/json; gzip_proxied any; gzip_min_length 1000;
    location / { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host; proxy_pass http://b; }"""

OUR_CONF = f"""
listeners: [{{address: "127.0.0.1:{OURS}", limits: {{idle_timeout: 5m}}}}]
upstreams: {{b: {{targets: ["127.0.0.1:{SERVICE}"]}}}}
routes: [{{match: /, upstream: b, compress: {{level: LEVEL, adapt: false}}}}]
"""

# What is asked for: who, and with which Accept-Encoding.
CASES = [
    ("nginx", ""),
    ("plimsoll", ""),
    ("nginx", "gzip"),
    ("plimsoll", "gzip"),
    ("plimsoll", "zstd"),
    ("plimsoll", "br"),
]


def document(size):
    """JSON as an API sends it: the names repeat, and the values do not."""
    r, words = (
        random.Random(1),
        "alpha harbour vessel cargo anchor north delta ocean captain signal lantern bridge".split(),
    )
    out = "["
    while len(out) < size:
        out += (
            json.dumps(
                {
                    "id": r.randrange(10**9),
                    "name": f"{r.choice(words)} {r.choice(words)}",
                    "price": round(r.random() * 100, 4),
                    "active": r.random() < 0.5,
                    "created_at": f"2026-{r.randrange(1, 13):02}-{r.randrange(1, 29):02}T10:{r.randrange(60):02}:00Z",
                    "tags": r.sample(words, 2),
                    "owner": {"id": r.randrange(10000), "email": r.choice(words) + "@example.com"},
                }
            )
            + ","
        )
    return out[: size - 1] + "]"


class Rig(rig.Rig):
    """A service, and two proxies in front of it."""

    def files(self, body, level):
        os.mkdir(f"{self.tmp}/www")
        os.makedirs(f"{self.tmp}/www/api/v1")
        rig.write(f"{self.tmp}/www/api/v1/users", document(body))
        os.chmod(f"{self.tmp}/www", 0o755)
        for name, port, more in (("service", SERVICE, ""), ("peer", NGINX, PEER)):
            rig.write(
                f"{self.tmp}/{name}.conf",
                NGINX_CONF.format(tmp=self.tmp, name=name, port=port, service=SERVICE, more=more),
            )
        rig.write(f"{self.tmp}/ours.yaml", OUR_CONF.replace("LEVEL", level))
        nginx = lambda name: [
            shutil.which("nginx"),
            "-p",
            self.tmp,
            "-c",
            f"{self.tmp}/{name}.conf",
        ]
        self._start("service", rig.LOAD_CPU, nginx("service"), SERVICE)
        self._start("nginx", rig.PROXY_CPU, nginx("peer"), NGINX)
        self._start(
            "plimsoll",
            rig.PROXY_CPU,
            [self.binary, "serve", "--config", f"{self.tmp}/ours.yaml"],
            OURS,
        )


def size_of(port, encoding):
    """How many bytes the body is, which must come in the encoding that was asked for."""
    done = subprocess.run(
        [
            "curl",
            "-sS",
            "-o",
            "/dev/null",
            "-D",
            "-",
            "-w",
            "%{size_download}",
            "-H",
            f"Accept-Encoding: {encoding}",
            f"http://127.0.0.1:{port}/api/v1/users",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    if encoding and f"content-encoding: {encoding}" not in done.lower():
        sys.exit(f"port {port} does not send {encoding}:\n{done}")
    return int(done.rsplit("\n", 1)[1])


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--plimsoll", required=True, help="the binary")
    p.add_argument("--body", type=int, default=20480, help="bytes of the JSON")
    p.add_argument(
        "--level",
        default="fast",
        choices=["fast", "balanced", "small"],
        help="plimsoll's; nginx's is always 1",
    )
    p.add_argument("--conns", type=int, default=16)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--seconds", type=int, default=3)
    p.add_argument(
        "--json", default=os.path.join(rig.OUT, "compress_cost.json"), help="where every row goes"
    )
    a = p.parse_args()
    rig.need("taskset", "gcc", "wrk", "nginx", "curl", "pgrep")
    ports, rows = {"nginx": NGINX, "plimsoll": OURS}, []
    with Rig(a.plimsoll) as r:
        r.files(a.body, a.level)
        sizes = {c: size_of(ports[c[0]], c[1]) for c in CASES}
        for n in range(a.rounds + 1):
            for who, encoding in CASES:
                headers = [f"Accept-Encoding: {encoding}"] if encoding else []
                before = rig.cpu_seconds(r.pid(who))
                requests, rate, _, bad, errors = proxy_cost.load(
                    ports[who], a.conns, a.seconds if n else 1, False, headers
                )
                if bad or errors:
                    sys.exit(f"{who}, {encoding}: {bad} answers are bad, {errors} requests failed")
                if n:  # the first round warms up
                    rows.append(
                        {
                            "round": n,
                            "who": who,
                            "encoding": encoding,
                            "rate": rate,
                            "cost_us": (rig.cpu_seconds(r.pid(who)) - before) * 1e6 / requests,
                        }
                    )
            print(f"round {n} of {a.rounds}", file=sys.stderr, flush=True)
    os.makedirs(os.path.dirname(os.path.abspath(a.json)), exist_ok=True)
    rig.write(
        a.json,
        json.dumps(
            {"machine": rig.machine(a.plimsoll), "body": a.body, "level": a.level, "rows": rows},
            indent=1,
        )
        + "\n",
    )
    costs = lambda c: {
        row["round"]: row["cost_us"] for row in rows if (row["who"], row["encoding"]) == c
    }
    print(
        f"{'proxy':9} {'encoding':8} {'bytes':>6} {'cpu us/req':>10}  over nginx's within a round"
    )
    for c in CASES:
        mine, peer = costs(c), costs(("nginx", "gzip" if c[1] else ""))
        ratios = [mine[n] / peer[n] for n in mine] if c[0] == "plimsoll" else []
        print(
            f"{c[0]:9} {c[1] or 'none':8} {sizes[c]:6} {statistics.median(mine.values()):10.1f}  "
            + (
                f"{statistics.median(ratios):.2f} (min {min(ratios):.2f}, max {max(ratios):.2f})"
                if ratios
                else ""
            )
        )


if __name__ == "__main__":
    main()
