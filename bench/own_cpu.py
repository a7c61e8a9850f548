#!/usr/bin/env python3
"""What becomes of a gateway whose own processor is the limit when 1.5 times its line is offered,
open loop: 20 % P0, 40 % P1, 40 % P2.

  own_cpu.py --plimsoll ./plimsoll             # three rounds, six minutes
  own_cpu.py --plimsoll ./plimsoll --quick     # one short round: for a look, not for a figure

The gateway has one loop on CPU 0 and shares that CPU with five programs that only burn it, else the
generators and the service on CPU 1 could not offer it more than it can carry. Each class comes to a
port of its own, so that a class whose clients give up and connect again does not use up the ports
of another's. So P0's clients, who keep their connections, do not wait in one accept queue with
those either. Each round measures, in a closed loop of as many connections as there will be (a
request costs more with 900 of them than with 64, see --connections):

  line     requests a second that it proxies, and the CPU that each takes
  refusal  the CPU that a refused request takes of it, of a gateway whose limit refuses all but one

then offers 1.5 times the line for a while: with `admission`, after which the line and the refusal
are measured again, and bare. A machine's speed may change within a minute, so what counts are the
means of before and after, and how far apart they are is shown. With r the cost of a
refusal over that of a proxied request, what is left for good answers of the line is at most (1 -
1.5 r) / (1 - r), where all but those are refused: goodput is shown as a share of that too. A
request succeeds when its answer is 2xx and comes, counted from when it was due, within the
objective of its class (P0 100 ms, P1 500 ms, P2 5 s).

Needs: gcc (Debian package of that name).
"""

import argparse, json, os, shutil, signal, statistics, subprocess, sys, time

import rig, rundir
from overload_proxies import CLASSES, OBJECTIVES, WEIGHTS

TIMES = 1.5
BURNERS = 5
PORTS = {"plimsoll": 19004, "bare": 19014, "refuser": 19024}  # and the next two
# Connections of each class. A client that waits for one counts that as waiting, as it is.
CONNECTIONS = 300
SETTLE = 3  # seconds until what is offered counts


def config(port, admission="", limits=""):
    routes = "".join(
        f'  - {{match: "/{c.lower()}", sla: {c}, upstream: b{limits}}}\n' for c in CLASSES
    )
    listeners = "".join(
        f"  - {{address: 127.0.0.1:{port + i}, limits: {{idle_timeout: 5m}}}}\n"
        for i in range(len(CLASSES))
    )
    return f"""
loops: 1
listeners:
{listeners}upstreams:
  b: {{targets: ["127.0.0.1:{rig.BACKEND}"]}}
routes:
{routes}{admission}"""


# Refuses every request for a limit, after one: a limit's refusal does what admission's does, and a
# little more.
REFUSE = ", limits: [{rate: 1/h}]"


class Rig(rig.Rig):
    def __enter__(self):
        super().__enter__()
        rig.write(f"{self.tmp}/own.yaml", config(PORTS["plimsoll"], "admission: enforce\n"))
        rig.write(f"{self.tmp}/bare.yaml", config(PORTS["bare"]))
        rig.write(f"{self.tmp}/refuser.yaml", config(PORTS["refuser"], limits=REFUSE))
        return self

    def command(self, name):
        file = {"plimsoll": "own", "bare": "bare", "refuser": "refuser"}[name]
        return [self.binary, "serve", "--config", f"{self.tmp}/{file}.yaml"]

    def proxy(self, name):
        self._start(name, rig.PROXY_CPU, self.command(name), PORTS[name])


def loops(r, a, name, run, seconds):
    """Requests of a closed loop for each class, at once, and the seconds that they took."""
    for i, c in enumerate(CLASSES):
        url = f"http://127.0.0.1:{PORTS[name] + i}/{c.lower()}"
        n = a.connections // len(CLASSES)
        r.load(f"{run}-{c}", url, "-c", f"{n}", "-d", f"{seconds}s")
    totals = [r.totals(f"{run}-{c}") for c in CLASSES]
    ended = sum(n for t in totals for n in t["ended"].values())
    return ended, statistics.mean(t["length_ns"] for t in totals) / 1e9


def closed(r, a, name):
    """Requests a second in closed loops through a gateway, and CPU seconds of it for each."""
    r.backend(cpu=rig.LOAD_CPU)
    r.proxy(name)
    loops(r, a, name, "warm", 1)
    before = rig.cpu_seconds(r.pid(name))
    n, seconds = loops(r, a, name, "closed", a.seconds)
    cpu = rig.cpu_seconds(r.pid(name)) - before
    r.stop()
    return n / seconds, cpu / n


def offered(r, a, name, line, seed):
    """Good answers, answers and the 99th percentile by class, of what ended in the time that
    counts."""
    r.backend(cpu=rig.LOAD_CPU)
    r.proxy(name)
    outs = {}
    for i, c in enumerate(CLASSES):
        outs[c] = f"{r.tmp}/out-{c}"
        shutil.rmtree(outs[c], ignore_errors=True)
        rate = round(TIMES * line * WEIGHTS[c])
        r.load(
            f"load-{c}",
            f"http://127.0.0.1:{PORTS[name] + i}/{c.lower()}",
            "--rate",
            f"{rate}",
            "-d",
            f"{a.seconds + SETTLE}s",
            "--arrivals",
            "poisson",
            "--seed",
            str(10 * seed + i),
            "-c",
            str(CONNECTIONS),
            "--timeout",
            f"{OBJECTIVES[c] + 0.5}s",
            "--out",
            outs[c],
        )
    late = r.late({c: f"load-{c}" for c in CLASSES})
    waited, ran = rig.waited_seconds(r.pid(name)), rig.cpu_seconds(r.pid(name))
    found = {}
    began = max(rundir.windows(out)[0] for out in outs.values())
    for c, out in outs.items():
        windows = [
            w
            for w in rundir.windows(out)[1]
            if began + SETTLE <= w.start < began + SETTLE + a.seconds - 0.5
        ]
        good = sum(n for w in windows for seconds, n in w.times if seconds <= OBJECTIVES[c])
        found[c] = (
            good,
            sum(w.ended for w in windows),
            rundir.p99(windows),
            sum(w.seconds for w in windows),
        )
    r.stop()
    return found, late, waited, ran


def costs(r, a):
    """The line, and the CPU seconds of a proxied and of a refused request."""
    line, proxied = closed(r, a, "bare")
    return line, proxied, closed(r, a, "refuser")[1]


def round_of(r, a, n):
    before = costs(r, a)
    runs = {"plimsoll": offered(r, a, "plimsoll", before[0], n)}
    after = costs(r, a)
    runs["bare"] = offered(r, a, "bare", before[0], n)
    line, proxied, refused = (statistics.mean(pair) for pair in zip(before, after))
    share = refused / proxied
    possible = (1 - TIMES * before[0] / line * share) / (1 - share)
    print(
        f"line {line:.0f}/s at {proxied * 1e6:.1f} us of CPU, a refusal {refused * 1e6:.1f} us: "
        f"{share:.2f} of that, so {possible:.3f} of the line is possible; "
        f"line after / before {after[0] / before[0]:.2f}",
        flush=True,
    )
    rows = []
    for name, (found, late, waited, ran) in runs.items():
        goodput = sum(good / seconds for good, _, _, seconds in found.values()) / line
        for c, (good, ended, p99, seconds) in found.items():
            rows.append(
                {
                    "proxy": name,
                    "scenario": "own_cpu",
                    "class": c,
                    "success": good / max(ended, 1),
                    "p99_ms": p99,
                    "goodput_of_capacity": good / seconds / line,
                    "ended_of_capacity": ended / seconds / line,
                    "settle_seconds": None,
                    "round": n,
                }
            )
        rows.append(
            {
                "proxy": name,
                "scenario": "own_cpu",
                "class": "all",
                "goodput_of_capacity": goodput,
                "goodput_of_possible": goodput / possible,
                "refusal_cost": share,
                "line_per_second": line,
                "line_after_of_before": after[0] / before[0],
                "generator_late": late,
                "proxy_waited_seconds": waited,
                "proxy_cpu_seconds": ran,
                "round": n,
            }
        )
        classes = ", ".join(
            "%s %.2f %% of %.2f of the line, p99 %s"
            % (c, 100 * g / max(e, 1), e / seconds / line, "none" if p is None else f"{p:.0f} ms")
            for c, (g, e, p, seconds) in found.items()
        )
        print(
            f"  {name:9s} {classes}; goodput {goodput:.3f} of the line, {goodput / possible:.3f} of what is possible"
            + "".join(f"\n    {text}" for text in late),
            flush=True,
        )
    return rows


def main():
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument(
        "--plimsoll", required=True, help="the plimsoll binary: the gateway and the generator"
    )
    ap.add_argument(
        "--json", default=os.path.join(rig.OUT, "own_cpu.json"), help="where every row goes"
    )
    ap.add_argument(
        "--quick", action="store_true", help="one short round: for a look, not for a figure"
    )
    ap.add_argument(
        "--connections",
        type=int,
        default=CONNECTIONS * len(CLASSES),
        help="of the closed loops; as many as the open loops have, unless given",
    )
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--seconds", type=int, default=20)
    a = ap.parse_args()
    if a.quick:
        a.rounds, a.seconds = 1, 6
    rig.need("taskset", "gcc")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    burners = [
        subprocess.Popen(["taskset", "-c", rig.PROXY_CPU, sys.executable, "-c", "while True: pass"])
        for _ in range(BURNERS)
    ]
    try:
        rows = []
        with Rig(a.plimsoll) as r:
            for n in range(a.rounds):
                rows += round_of(r, a, n)
                os.makedirs(os.path.dirname(os.path.abspath(a.json)), exist_ok=True)
                rig.write(
                    a.json,
                    json.dumps(
                        {"machine": rig.machine(a.plimsoll), "quick": a.quick, "rows": rows},
                        indent=1,
                    )
                    + "\n",
                )
    except KeyboardInterrupt:
        sys.exit("stopped")
    finally:
        for burner in burners:
            burner.kill()
    if a.rounds > 1:
        for name in ("plimsoll", "bare"):
            for c in CLASSES:
                print(
                    name,
                    c,
                    "%.4f"
                    % statistics.median(
                        x["success"] for x in rows if x["proxy"] == name and x["class"] == c
                    ),
                )
            print(
                name,
                "of what is possible: %.3f"
                % statistics.median(
                    x["goodput_of_possible"]
                    for x in rows
                    if x["proxy"] == name and x["class"] == "all"
                ),
            )


if __name__ == "__main__":
    main()
