#!/usr/bin/env python3
"""What a gateway does when services fail. Three targets, each a process; 900 requests a second,
open loop.

  failing.py --plimsoll ./plimsoll

  bad_target   one of the three answers 503 to everything from a moment on. A breaker with its
               defaults, no retries. What counts is when the last second began in which more than 1
               % of the requests failed, and which share failed after the first second.
  storm        all three answer 503 to everything, and the config retries 503 up to three times.
               What counts is how many requests come to the targets for each that is offered, with
               the breaker and without.

Needs: gcc (Debian package of that name).
"""

import argparse, json, os, shutil, signal, sys, time

import rig, rundir

RATE, PORT = 900, 19004
TARGETS = [19101, 19102, 19103]
CALM, SICK = 4, 20  # seconds before, and with, the failure


def config(extra):
    targets = ", ".join(f'"127.0.0.1:{p}"' for p in TARGETS)
    return f"""
listeners:
  - address: 127.0.0.1:{PORT}
upstreams:
  b: {{targets: [{targets}]{extra}}}
routes:
  - {{match: "/", upstream: b}}
"""


class Rig(rig.Rig):
    extra = ""

    def command(self, name):
        rig.write(f"{self.tmp}/failing.yaml", config(self.extra))
        return [self.binary, "serve", "--config", f"{self.tmp}/failing.yaml"]


def offer(r, extra, sick):
    """Offers the load, makes so many targets sick, and returns the windows, when it was done,
    and what came to each target."""
    r.extra = extra
    for port in TARGETS:
        r._start(f"target-{port}", rig.LOAD_CPU, [f"{r.tmp}/backend", str(port), "128"], port)
    r._start("plimsoll", rig.PROXY_CPU, r.command("plimsoll"), PORT)
    out = f"{r.tmp}/out"
    shutil.rmtree(out, ignore_errors=True)
    r.load(
        "load",
        f"http://127.0.0.1:{PORT}/",
        "--rate",
        str(RATE),
        "--arrivals",
        "poisson",
        "-d",
        f"{CALM + SICK}s",
        "-c",
        "64",
        "--out",
        out,
    )
    time.sleep(CALM)
    for port in TARGETS[:sick]:
        rig.send(r.pid(f"target-{port}"), signal.SIGUSR1)
    at = time.time()
    r.totals("load")
    counts = []
    for port in TARGETS:
        p = r.processes[f"target-{port}"]
        p.send_signal(signal.SIGTERM)
        p.wait()
        counts.append(int(r.log(f"target-{port}").split()[-1]))
    r.stop()
    return rundir.windows(out)[1], at, counts


def bad_target(r):
    windows, at, _ = offer(r, ", breaker: {}", 1)
    after = [w for w in windows if w.start >= at]
    failed = lambda ws: sum(w.ended - sum(n for _, n in w.times) for w in ws)
    ended = lambda ws: max(1, sum(w.ended for w in ws))
    last = max(
        (w.start + w.seconds - at for w in after if failed([w]) > 0.01 * ended([w])), default=0
    )
    first = [w for w in after if w.start < at + 1]
    later = [w for w in after if w.start >= at + 1]
    share = failed(later) / ended(later)
    print(
        f"bad_target: {failed(first)} of {ended(first)} requests fail in the first second; then {failed(later)} of {ended(later)} "
        f"({100 * share:.2f} %); the last quarter of a second with more than 1 % ends after {last:.2f} s",
        flush=True,
    )
    return {
        "proxy": "plimsoll",
        "scenario": "bad_target",
        "failed_first_second": failed(first),
        "failed_later_share": share,
        "last_bad_quarter_seconds": last,
    }


def storm(r, name, extra):
    windows, at, counts = offer(r, f", retry: {{attempts: 3, on: [\"503\"]}}{extra}", 3)
    offered = sum(w.ended for w in windows)
    # The window in which the failure began counts by its parts: as a whole it is up to a hundredth
    # of the storm.
    calm = sum(w.ended * min(1, max(0, (at - w.start) / w.seconds)) for w in windows)
    factor = (sum(counts) - calm) / (offered - calm)
    print(
        f"storm, {name}: {sum(counts)} requests come to the targets for {offered} that are offered: while all fail, {factor:.3f} each",
        flush=True,
    )
    return {"proxy": "plimsoll", "scenario": f"storm_{name}", "requests_per_offered": factor}


def main():
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument(
        "--plimsoll", required=True, help="the plimsoll binary: the gateway and the generator"
    )
    ap.add_argument(
        "--json", default=os.path.join(rig.OUT, "failing.json"), help="where every row goes"
    )
    a = ap.parse_args()
    rig.need("taskset", "gcc")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    try:
        with Rig(a.plimsoll) as r:
            rows = [
                bad_target(r),
                storm(r, "without_breaker", ""),
                storm(r, "with_breaker", ", breaker: {}"),
            ]
    except KeyboardInterrupt:
        sys.exit("stopped")
    os.makedirs(os.path.dirname(os.path.abspath(a.json)), exist_ok=True)
    rig.write(
        a.json, json.dumps({"machine": rig.machine(a.plimsoll), "rows": rows}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
