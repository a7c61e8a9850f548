#!/usr/bin/env python3
"""Measures the flash-sale study: surveys examples/flashsale after each of its seven changes, rounds
times over, interleaved, and prints the load line, what the diagnosis found, and what each change
brought. Keeps for each change the difference of the processor profiles in a closed loop, per
function, in docs/flash-sale/: at its line a service that is out of descriptors has none for the
profiler. Writes bench/out/flashsale.json.

    python3 bench/flashsale.py --plimsoll ./plimsoll --rounds 2
    python3 bench/flashsale.py --plimsoll ./plimsoll --rounds 0      only the profiles; two minutes
"""

import argparse, json, os, shutil, statistics, subprocess, sys, tempfile, urllib.request

from patients import Broken, ROOT, OUT, call, line, running

# The service listens on the first, and shows its insides on the second.
PORT, DEBUG = 18800, 18801

STEPS = [
    "as on the first day",
    "the pattern compiled once",
    "the answer appended",
    "connections kept",
    "the goroutine ends",
    "baskets pooled",
    "counters for the map",
    "descriptors and backlog",
]
SLO = "p99<50ms,errors<0.1%"
PATH = "/buy?article=3&voucher=ABCD-EFGH-IJKL-123456-EU"
DOCS = os.path.join(ROOT, "docs", "flash-sale")
# A profile's difference is kept to as many functions, of profiles of so many seconds.
SHOWN, PROFILED = 25, 8


def survey(a, binary, step, out):
    with running(
        [
            binary,
            "--address",
            f"127.0.0.1:{PORT}",
            "--debug",
            f"127.0.0.1:{DEBUG}",
            "--step",
            str(step),
        ],
        dict(os.environ),
        out + ".log",
    ):
        inside = f"http://127.0.0.1:{DEBUG}"
        call(
            [
                a.plimsoll,
                "survey",
                f"http://127.0.0.1:{PORT}{PATH}",
                "--slo",
                SLO,
                "--quick",
                "--json",
                "--out",
                out,
                "--pprof",
                inside,
                "--metrics",
                inside + "/metrics",
            ],
            900,
        )
    found = call([a.plimsoll, "diagnose", out, "--json"], 60)["diagnosis"]
    return {
        "step": step,
        "line": line(out),
        "first": found["bottleneck"]["what"],
        "findings": [f["rule"] for f in found["findings"]],
    }


def profile(a, binary, step, path):
    """Takes a processor profile while 64 connections keep the service busy."""
    with running(
        [
            binary,
            "--address",
            f"127.0.0.1:{PORT}",
            "--debug",
            f"127.0.0.1:{DEBUG}",
            "--step",
            str(step),
        ],
        dict(os.environ),
        path + ".log",
    ):
        load = subprocess.Popen(
            [
                a.plimsoll,
                "load",
                f"http://127.0.0.1:{PORT}{PATH}",
                "-c",
                "64",
                "-d",
                "%ds" % (PROFILED + 4),
                "--json",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            with (
                urllib.request.urlopen(
                    f"http://127.0.0.1:{DEBUG}/debug/pprof/profile?seconds={PROFILED}",
                    timeout=PROFILED + 30,
                ) as answer,
                open(path, "wb") as f,
            ):
                f.write(answer.read())
        finally:
            load.terminate()
            load.wait()
    return path


def keep(before, after, step):
    """Writes by how much each function's share of the processor time changed."""
    os.makedirs(DOCS, exist_ok=True)
    shown = subprocess.run(
        [
            "go",
            "tool",
            "pprof",
            "-top",
            "-cum",
            "-normalize",
            "-nodecount=%d" % SHOWN,
            "-diff_base",
            before,
            after,
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    lines = [
        l for l in shown.stdout.splitlines() if not l.startswith(("File:", "Build ID:", "Time:"))
    ]
    with open(os.path.join(DOCS, "change-%d.txt" % step), "w") as f:
        f.write(
            "Change %d: %s. Processor time with 64 connections in a closed loop, after against before, both taken as 100 %%.\n"
            % (step, STEPS[step])
        )
        f.write("\n".join(lines) + "\n")


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--plimsoll", required=True)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--steps", type=int, nargs="*", default=list(range(len(STEPS))))
    a = p.parse_args()
    a.plimsoll = os.path.abspath(a.plimsoll)
    tmp, rows = tempfile.mkdtemp(), []
    try:
        binary = os.path.join(tmp, "flashsale")
        subprocess.run(["go", "build", "-o", binary, "./examples/flashsale"], check=True, cwd=ROOT)
        for round in range(a.rounds):
            for step in a.steps:
                out = os.path.join(tmp, "run-%d-%d" % (round, step))
                try:
                    rows.append(survey(a, binary, step, out))
                    print(
                        "  round %d, change %d (%s): line %.0f; bottleneck: %s; findings: %s"
                        % (
                            round + 1,
                            step,
                            STEPS[step],
                            rows[-1]["line"]["estimate"],
                            rows[-1]["first"],
                            ", ".join(rows[-1]["findings"]) or "none",
                        ),
                        flush=True,
                    )
                except Broken as e:
                    rows.append({"step": step, "why": str(e)})
                    print("  round %d, change %d: %s" % (round + 1, step, e), flush=True)
        profiles = [
            profile(a, binary, step, os.path.join(tmp, "cpu-%d.pb.gz" % step))
            for step in range(len(STEPS))
        ]
        for step in range(1, len(STEPS)):
            keep(profiles[step - 1], profiles[step], step)
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    if not rows:
        return
    os.makedirs(OUT, exist_ok=True)
    with open(os.path.join(OUT, "flashsale.json"), "w") as f:
        json.dump(rows, f, indent=1)
    before = None
    print("\nchange                     line (all rounds)          gain")
    for step in a.steps:
        lines = [r["line"]["estimate"] for r in rows if r["step"] == step and "line" in r]
        if not lines:
            print("%d %-24s no line" % (step, STEPS[step]))
            continue
        middle = statistics.median(lines)
        print(
            "%d %-24s %-26s %s"
            % (
                step,
                STEPS[step],
                " ".join("%.0f" % l for l in lines),
                "" if before is None else "%.2f" % (middle / before),
            )
        )
        before = middle


if __name__ == "__main__":
    sys.exit(main())
