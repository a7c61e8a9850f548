#!/usr/bin/env python3
"""Compares surveys with the truth: runs `plimsoll survey` several times on servers whose load line
is known, because they are queues that we wrote (bench/refserver), and prints for each how often the
survey's interval contains the true line, how wide it is, how far the estimates spread, and how far
off the prediction was that was made below half of it. Writes bench/out/survey_truth.json.

    python3 bench/survey_truth.py --plimsoll ./plimsoll --runs 10 --quick
    python3 bench/survey_truth.py --plimsoll ./plimsoll --runs 3 --quick --kinds    # services of the kinds real ones are

With --kinds the servers are those that internal/lab/reference describes. Each survey has one of its
own, as they warm up or grow, and is right, too, when it says why its interval may not contain the
line (its caveat). Writes bench/out/survey_kinds.json.
"""

import argparse, contextlib, json, os, shutil, signal, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "out")
PORT = 18700
SLO = "p99<50ms,errors<0.1%"
SERVERS = {
    "constant, unbounded": ["--workers", "4", "--service", "2ms"],
    "constant, room for 40": ["--workers", "4", "--service", "2ms", "--room", "40"],
    "exponential, unbounded": ["--workers", "4", "--service", "2ms", "--exponential"],
    "exponential, room for 40": [
        "--workers",
        "4",
        "--service",
        "2ms",
        "--exponential",
        "--room",
        "40",
    ],
}
# A survey that takes longer than this is broken.
LONGEST = 900


def build(tmp):
    truth = os.path.join(tmp, "truth")
    subprocess.run(
        ["go", "build", "-o", truth, "./bench/refserver"], check=True, cwd=os.path.dirname(HERE)
    )
    return truth


def survey(a, tmp, number, slo, more=()):
    """One survey's result, or why there is none."""
    out = os.path.join(tmp, "run%d" % number)
    command = [
        a.plimsoll,
        "survey",
        f"http://127.0.0.1:{PORT}/",
        "--slo",
        slo,
        "--json",
        "--out",
        out,
    ] + (["--quick"] if a.quick else [])
    done = subprocess.run(command + list(more), capture_output=True, text=True, timeout=LONGEST)
    shutil.rmtree(out, ignore_errors=True)
    if done.returncode not in (0, 3) or not done.stdout:
        return None, "exit %d: %s" % (done.returncode, done.stderr.strip()[-300:])
    try:
        return json.loads(done.stdout)["result"], None
    except (ValueError, KeyError) as e:
        return None, "no JSON: %s" % e


@contextlib.contextmanager
def serving(truth, flags):
    """A reference server, and what it says of itself."""
    server = subprocess.Popen(
        [truth, "--address", f"127.0.0.1:{PORT}"] + flags, stdout=subprocess.PIPE, text=True
    )
    try:
        first = server.stdout.readline()
        if not first:
            sys.exit(f"the reference server did not start; is port {PORT} free?")
        yield json.loads(first)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(10)


def mix(kind, tmp):
    """The flags that make a survey ask for a kind's routes as its mix says."""
    if len(kind["routes"]) < 2:
        return []
    path = os.path.join(tmp, "mix.yaml")
    with open(path, "w") as f:
        f.write("mix:\n")
        for r in kind["routes"]:
            f.write(
                "  - {name: %s, weight: %g, request: {path: %s}}\n"
                % (r["path"].strip("/"), r["weight"], r["path"])
            )
    return ["--scenario", path]


def measure_kind(a, tmp, truth, kind):
    runs = []
    for number in range(a.runs):
        with serving(truth, ["--kind", kind["name"], "--seed", str(number + 1)]):
            began = time.monotonic()
            result, why = survey(a, tmp, number, kind["slo"], mix(kind, tmp))
        run = judge(kind["line"], result, why, time.monotonic() - began)
        line = result["line"] if result else {}
        run["caveat"], run["says"] = line.get("caveat", ""), line.get("why", why)
        run["right"] = run.get("contained", False) or run["caveat"] in (kind["says"] or [])
        runs.append(run)
        print("  %s, run %d: %s" % (kind["name"], number + 1, run), flush=True)
    return {"server": kind["name"], "truth": kind["line"], "runs": runs}


def measure(a, tmp, truth, name, flags):
    with serving(truth, ["--slo", a.slo] + flags) as said:
        runs = []
        for number in range(a.runs):
            began = time.monotonic()
            result, why = survey(a, tmp, number, a.slo)
            runs.append(judge(said["line"], result, why, time.monotonic() - began))
            print("  %s, run %d: %s" % (name, number + 1, runs[-1]), flush=True)
    return {"server": name, "truth": said["line"], "runs": runs}


def judge(line, result, why, seconds):
    if result is None or not result["line"]["found"]:
        return {"found": False, "why": why or result["line"]["why"], "seconds": round(seconds, 1)}
    i = result["line"]["rate_per_second"]
    run = {
        "found": True,
        "low": i["low"],
        "estimate": i["estimate"],
        "high": i["high"],
        "contained": i["low"] <= line <= i["high"],
        "width": (i["high"] - i["low"]) / i["estimate"],
        "error": i["estimate"] / line - 1,
        "seconds": round(seconds, 1),
    }
    predicted = [
        p
        for p in result["model"].get("predictions") or []
        if p["predicted_per_second"]["estimate"] > 0
    ]
    if predicted:
        run["predicted"] = predicted[0]["predicted_per_second"]["estimate"]
        run["predicted_error"] = run["predicted"] / i["estimate"] - 1
    return run


def row(server):
    found = [r for r in server["runs"] if r["found"]]
    cells = [
        server["server"],
        "%.0f" % server["truth"],
        "%d of %d" % (sum(r["contained"] for r in found), len(server["runs"])),
    ]
    if not found:
        return cells + ["none"] * 4
    estimates = [r["estimate"] for r in found]
    errors = [abs(r["predicted_error"]) for r in found if "predicted_error" in r]
    return cells + [
        "%.1f %%" % (100 * max(r["width"] for r in found)),
        "%.1f %%" % (100 * (max(estimates) - min(estimates)) / statistics.mean(estimates)),
        "%.1f %%" % (100 * max(errors)) if errors else "none made",
        "%.0f s" % statistics.mean(r["seconds"] for r in found),
    ]


def kinds_of(truth, a):
    listed = subprocess.run([truth, "--kinds"], capture_output=True, text=True, check=True).stdout
    kinds = [json.loads(line) for line in listed.splitlines()]
    return [k for k in kinds if a.only in k["name"] and k["held"] == a.held]


def show(rows):
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    for r in rows:
        print("  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip())


def keep(a, name, servers):
    os.makedirs(OUT, exist_ok=True)
    path = os.path.join(OUT, name)
    with open(path + ".new", "w") as f:
        json.dump({"slo": a.slo, "quick": a.quick, "servers": servers}, f, indent=1)
    os.rename(path + ".new", path)
    print("wrote", os.path.relpath(path))


def survey_kinds(a):
    with tempfile.TemporaryDirectory() as tmp:
        truth = build(tmp)
        servers = [measure_kind(a, tmp, truth, k) for k in kinds_of(truth, a)]
    if not servers:
        sys.exit("no kind's name contains %r" % a.only)
    rows = [["server", "true line", "contained", "right", "caveats"]]
    for s in servers:
        runs = s["runs"]
        rows.append(
            [
                s["server"],
                "%.0f" % s["truth"],
                "%d of %d" % (sum(r.get("contained", False) for r in runs), len(runs)),
                "%d of %d" % (sum(r["right"] for r in runs), len(runs)),
                ", ".join(r["caveat"] or "none" for r in runs),
            ]
        )
    show(rows)
    keep(a, "survey_kinds.json", servers)


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--plimsoll", default="./plimsoll", help="the binary")
    p.add_argument("--runs", type=int, default=10, help="surveys of each server")
    p.add_argument("--quick", action="store_true", help="quick surveys")
    p.add_argument("--slo", default=SLO)
    p.add_argument("--only", default="", help="servers whose name contains this")
    p.add_argument(
        "--kinds",
        action="store_true",
        help="the kinds of services that are written down, instead of queues",
    )
    p.add_argument(
        "--held", action="store_true", help="with --kinds: those that the method was not tuned on"
    )
    a = p.parse_args()
    a.plimsoll = os.path.abspath(a.plimsoll)
    if not os.access(a.plimsoll, os.X_OK):
        sys.exit(f"{a.plimsoll} is not a program: make build makes it")
    if a.kinds:
        return survey_kinds(a)
    chosen = {n: f for n, f in SERVERS.items() if a.only in n}
    if not chosen:
        sys.exit("no server's name contains %r: there are %s" % (a.only, "; ".join(SERVERS)))
    with tempfile.TemporaryDirectory() as tmp:
        truth = build(tmp)
        servers = [measure(a, tmp, truth, n, f) for n, f in chosen.items()]
    head = [
        "server",
        "true line",
        "contained",
        "widest",
        "spread",
        "prediction off by",
        "a survey takes",
    ]
    show([head] + [row(s) for s in servers])
    keep(a, "survey_truth.json", servers)


if __name__ == "__main__":
    main()
