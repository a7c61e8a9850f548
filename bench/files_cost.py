#!/usr/bin/env python3
"""What a static file costs: CPU microseconds per request of the gateway and of nginx with sendfile
and open_file_cache, run in turn, one CPU for each server and another for the load (wrk), and the
ratio within a round.

  files_cost.py --plimsoll ./plimsoll

Asked: at most 0.9 of nginx for 1 KB, 1.0 for 100 KB and for 10 MB. The cost is counted by what was
sent, so that what a run leaves unfinished counts too: a request's share of the bytes, heads
included.
"""

import argparse, json, os, re, shutil, statistics, subprocess, sys

import rig

SIZES = {"1k.html": 1 << 10, "100k.bin": 100 << 10, "10m.bin": 10 << 20}
ASKED = {"1k.html": 0.9, "100k.bin": 1.0, "10m.bin": 1.0}
PORTS = {"plimsoll": 19021, "nginx": 19022}
UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


def nginx_conf(tmp):
    return f"""
worker_processes 1; worker_rlimit_nofile 20000; daemon off; pid {tmp}/nginx.pid; error_log {tmp}/nginx.err;
events {{ worker_connections 18000; multi_accept on; }}
http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; keepalive_timeout 300;
  open_file_cache max=1000 inactive=60s; open_file_cache_valid 1s;
  client_body_temp_path {tmp}/ct; proxy_temp_path {tmp}/pt; fastcgi_temp_path {tmp}/ft; uwsgi_temp_path {tmp}/ut; scgi_temp_path {tmp}/st;
  types {{ text/html html; }} default_type application/octet-stream;
  server {{ listen 127.0.0.1:{PORTS['nginx']} reuseport backlog=4096; root {tmp}/www; add_header Cache-Control max-age=60; }} }}
"""


def plimsoll_yaml(tmp):
    return f"""
loops: 1
listeners: [{{address: "127.0.0.1:{PORTS['plimsoll']}", limits: {{idle_timeout: 5m}}}}]
routes: [{{match: "/", files: {{root: {tmp}/www, cache_control: max-age=60}}}}]
"""


class Rig(rig.Rig):
    def files(self):
        os.mkdir(f"{self.tmp}/www")
        for name, size in SIZES.items():
            with open(f"{self.tmp}/www/{name}", "wb") as f:
                f.write(os.urandom(size))

    def command(self, name):
        if name == "nginx":
            rig.write(f"{self.tmp}/nginx.conf", nginx_conf(self.tmp))
            return [shutil.which("nginx"), "-p", self.tmp, "-c", f"{self.tmp}/nginx.conf"]
        rig.write(f"{self.tmp}/plimsoll.yaml", plimsoll_yaml(self.tmp))
        return [self.binary, "serve", "--config", f"{self.tmp}/plimsoll.yaml"]


def run_seconds(pid):
    """How long the threads of a process ran, to the nanosecond: a run of large files is few
    requests."""
    total = 0
    for p in rig.tree(pid):
        for thread in os.listdir(f"/proc/{p}/task"):
            total += int(open(f"/proc/{p}/task/{thread}/schedstat").read().split()[0])
    return total / 1e9


def load(port, name, conns, seconds):
    """How many responses were sent, parts of them included."""
    out = subprocess.run(
        [
            "taskset",
            "-c",
            rig.LOAD_CPU,
            "wrk",
            "-t1",
            f"-c{conns}",
            f"-d{seconds}s",
            "--timeout",
            "60s",
            f"http://127.0.0.1:{port}/{name}",
        ],
        capture_output=True,
        text=True,
    ).stdout
    done = re.search(r"(\d+) requests in [^,]+, ([\d.]+)(B|KB|MB|GB) read", out)
    if not done or "Non-2xx" in out or "Socket errors" in out:
        sys.exit(f"wrk against port {port} failed:\n{out}")
    if SIZES[name] < 1 << 20:
        return int(done.group(1))
    return float(done.group(2)) * UNITS[done.group(3)] / (SIZES[name] + 300)


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--plimsoll", required=True, help="the binary")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--seconds", type=int, default=3)
    p.add_argument("--conns", type=int, default=32)
    p.add_argument("--files", default=",".join(SIZES))
    p.add_argument(
        "--json", default=os.path.join(rig.OUT, "files_cost.json"), help="where every row goes"
    )
    a = p.parse_args()
    rig.need("taskset", "nginx", "wrk")
    rig.PORTS.update(PORTS)
    rows = []
    with Rig(a.plimsoll) as r:
        r.files()
        for server, port in PORTS.items():
            r.proxy(server)
            for name in a.files.split(","):
                load(port, name, 4, 1)
        for n in range(a.rounds):
            for name in a.files.split(","):
                cost = {}
                for server, port in PORTS.items():
                    before = run_seconds(r.pid(server))
                    sent = load(port, name, a.conns, a.seconds)
                    cost[server] = (run_seconds(r.pid(server)) - before) * 1e6 / sent
                rows.append(
                    dict(file=name, round=n, ratio=cost["plimsoll"] / cost["nginx"], **cost)
                )
                print(
                    "%-9s plimsoll %9.2f us, nginx %9.2f us: %.3f"
                    % (name, cost["plimsoll"], cost["nginx"], rows[-1]["ratio"]),
                    flush=True,
                )
    os.makedirs(os.path.dirname(os.path.abspath(a.json)), exist_ok=True)
    rig.write(
        a.json, json.dumps({"machine": rig.machine(a.plimsoll), "rows": rows}, indent=1) + "\n"
    )
    for name in a.files.split(","):
        ratios = [row["ratio"] for row in rows if row["file"] == name]
        print(
            "%-9s median %.3f of nginx (%.3f to %.3f), asked %.1f"
            % (name, statistics.median(ratios), min(ratios), max(ratios), ASKED[name])
        )


if __name__ == "__main__":
    main()
