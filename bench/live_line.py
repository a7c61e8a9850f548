#!/usr/bin/env python3
"""Compares the load line that the gateway estimates from the traffic that passes with the one that
a survey then finds, and with the truth.

  live_line.py --plimsoll ./plimsoll           # three services, ten minutes

Each service is a queue whose line is known (bench/refserver). Through the gateway it gets 30, 45
and 58 % of that line, Poisson arrivals, and nothing more; then GET /api/v1/loadline says what the
gateway believes. The survey comes afterwards, through the same gateway.
"""

import argparse, json, os, signal, subprocess, sys, tempfile, time, urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "out")
SERVICE, PORT, ADMIN = 18700, 18710, 18720
SLO = "p99<50ms,errors<0.1%"
SERVICES = {
    "4 workers of 2 ms, exponential": ["--workers", "4", "--service", "2ms", "--exponential"],
    "8 workers of 4 ms, exponential": ["--workers", "8", "--service", "4ms", "--exponential"],
    "3 workers of 3 ms, constant": ["--workers", "3", "--service", "3ms"],
}
SHARES = (0.30, 0.45, 0.58)
CONFIG = f"""
listeners: [{{address: "127.0.0.1:{PORT}"}}]
classes: {{P1: {{latency: 50ms, availability: 99%}}}}
upstreams: {{s: {{targets: ["127.0.0.1:{SERVICE}"]}}}}
routes: [{{match: /, upstream: s}}]
admin: {{address: "127.0.0.1:{ADMIN}"}}
"""


def wait_for(url, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(url, timeout=1).read()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"{url} does not answer")


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def measure(a, tmp, name, flags):
    service = subprocess.Popen(
        [f"{tmp}/truth", "--address", f"127.0.0.1:{SERVICE}", "--slo", SLO] + flags,
        stdout=subprocess.PIPE,
        text=True,
    )
    line = json.loads(service.stdout.readline())["line"]
    gateway = subprocess.Popen(
        [a.plimsoll, "serve", "--config", f"{tmp}/plimsoll.yaml"], stderr=subprocess.DEVNULL
    )
    try:
        wait_for(f"http://127.0.0.1:{ADMIN}/readyz")
        highest = 0
        for share in SHARES:
            said = run(
                [
                    a.plimsoll,
                    "load",
                    f"http://127.0.0.1:{PORT}/",
                    "--rate",
                    f"{share * line:.0f}",
                    "--arrivals",
                    "poisson",
                    "-d",
                    f"{a.seconds}s",
                    "-c",
                    "512",
                    "--json",
                ]
            )
            highest = max(highest, said["totals"]["due"] / said["totals"]["length_ns"] * 1e9 / line)
        live = json.load(urllib.request.urlopen(f"http://127.0.0.1:{ADMIN}/api/v1/loadline"))[
            "upstreams"
        ][0]
        found = run(
            [
                a.plimsoll,
                "survey",
                f"http://127.0.0.1:{PORT}/",
                "--slo",
                SLO,
                "--json",
                "--quick",
                "--out",
                f"{tmp}/{len(flags)}{line:.0f}",
            ]
        )
    finally:
        for process in (gateway, service):
            process.send_signal(signal.SIGINT)
            process.wait(15)
    capacity, surveyed = live.get("capacity_per_second"), found["result"]["line"]
    row = {
        "service": name,
        "truth": line,
        "highest_share": highest,
        "live": capacity,
        "why": live.get("why"),
        "how": live.get("how"),
        "surveyed": surveyed.get("rate_per_second") if surveyed["found"] else None,
    }
    if capacity:
        row["of_truth"] = capacity["estimate"] / line - 1
        if row["surveyed"]:
            row["of_surveyed"] = capacity["estimate"] / row["surveyed"]["estimate"] - 1
    print(json.dumps(row), flush=True)
    return row


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--plimsoll", required=True, help="the binary")
    p.add_argument("--only", default="", help="services whose name contains this")
    p.add_argument("--seconds", type=int, default=35, help="of each of the three rates")
    a = p.parse_args()
    a.plimsoll = os.path.abspath(a.plimsoll)
    with tempfile.TemporaryDirectory() as tmp:
        subprocess.run(
            ["go", "build", "-o", f"{tmp}/truth", "./bench/refserver"],
            check=True,
            cwd=os.path.dirname(HERE),
        )
        with open(f"{tmp}/plimsoll.yaml", "w") as f:
            f.write(CONFIG)
        rows = [measure(a, tmp, name, flags) for name, flags in SERVICES.items() if a.only in name]
    os.makedirs(OUT, exist_ok=True)
    with open(os.path.join(OUT, "live_line.json"), "w") as f:
        json.dump(rows, f, indent=1)
    for r in rows:
        if "of_surveyed" in r:
            print(
                "%-34s live %.0f/s, surveyed %.0f/s: %+.1f %%; truth %.0f/s"
                % (
                    r["service"],
                    r["live"]["estimate"],
                    r["surveyed"]["estimate"],
                    100 * r["of_surveyed"],
                    r["truth"],
                )
            )
        else:
            print(
                "%-34s live %s, surveyed %s" % (r["service"], r["live"] or r["why"], r["surveyed"])
            )


if __name__ == "__main__":
    main()
