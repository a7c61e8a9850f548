#!/usr/bin/env python3
"""Compares surveys with the truth: runs `plimsoll survey` several times on servers whose load line is known, because they are
queues that we wrote (bench/refserver), and prints for each how often the survey's interval contains the true line, how wide it is, how far
the estimates spread, and how far off the prediction was that was made below half of it. Writes bench/out/survey_truth.json.

    python3 bench/survey_truth.py --plimsoll ./plimsoll --runs 10 --quick
"""
import argparse, json, os, shutil, signal, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "out")
PORT = 18700
SLO = "p99<50ms,errors<0.1%"
SERVERS = {
    "constant, unbounded": ["--workers", "4", "--service", "2ms"],
    "constant, room for 40": ["--workers", "4", "--service", "2ms", "--room", "40"],
    "exponential, unbounded": ["--workers", "4", "--service", "2ms", "--exponential"],
    "exponential, room for 40": ["--workers", "4", "--service", "2ms", "--exponential", "--room", "40"],
}
# A survey that takes longer than this is broken.
LONGEST = 900


def build(tmp):
    truth = os.path.join(tmp, "truth")
    subprocess.run(["go", "build", "-o", truth, "./bench/refserver"], check=True, cwd=os.path.dirname(HERE))
    return truth


def survey(a, tmp, number):
    """One survey's result, or why there is none."""
    out = os.path.join(tmp, "run%d" % number)
    command = [a.plimsoll, "survey", f"http://127.0.0.1:{PORT}/", "--slo", a.slo, "--json", "--out", out] + (["--quick"] if a.quick else [])
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
    shutil.rmtree(out, ignore_errors=True)
    if done.returncode != 0:
        return None, "exit %d: %s" % (done.returncode, done.stderr.strip()[-300:])
    try:
        return json.loads(done.stdout)["result"], None
    except (ValueError, KeyError) as e:
        return None, "no JSON: %s" % e


def measure(a, tmp, truth, name, flags):
    server = subprocess.Popen([truth, "--address", f"127.0.0.1:{PORT}", "--slo", a.slo] + flags, stdout=subprocess.PIPE, text=True)
    try:
        first = server.stdout.readline()
        if not first:
            sys.exit(f"the reference server did not start; is port {PORT} free?")
        said, runs = json.loads(first), []
        for number in range(a.runs):
            began = time.monotonic()
            result, why = survey(a, tmp, number)
            runs.append(judge(said["line"], result, why, time.monotonic() - began))
            print("  %s, run %d: %s" % (name, number + 1, runs[-1]), flush=True)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(10)
    return {"server": name, "truth": said["line"], "runs": runs}


def judge(line, result, why, seconds):
    if result is None or not result["line"]["found"]:
        return {"found": False, "why": why or result["line"]["why"], "seconds": round(seconds, 1)}
    i = result["line"]["rate_per_second"]
    run = {"found": True, "low": i["low"], "estimate": i["estimate"], "high": i["high"], "contained": i["low"] <= line <= i["high"],
           "width": (i["high"] - i["low"]) / i["estimate"], "error": i["estimate"] / line - 1, "seconds": round(seconds, 1)}
    predicted = [p for p in result["model"].get("predictions") or [] if p["predicted_per_second"]["estimate"] > 0]
    if predicted:
        run["predicted"] = predicted[0]["predicted_per_second"]["estimate"]
        run["predicted_error"] = run["predicted"] / i["estimate"] - 1
    return run


def row(server):
    found = [r for r in server["runs"] if r["found"]]
    cells = [server["server"], "%.0f" % server["truth"], "%d of %d" % (sum(r["contained"] for r in found), len(server["runs"]))]
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


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--plimsoll", default="./plimsoll", help="the binary")
    p.add_argument("--runs", type=int, default=10, help="surveys of each server")
    p.add_argument("--quick", action="store_true", help="quick surveys")
    p.add_argument("--slo", default=SLO)
    p.add_argument("--only", default="", help="servers whose name contains this")
    a = p.parse_args()
    a.plimsoll = os.path.abspath(a.plimsoll)
    if not os.access(a.plimsoll, os.X_OK):
        sys.exit(f"{a.plimsoll} is not a program: make build makes it")
    chosen = {n: f for n, f in SERVERS.items() if a.only in n}
    if not chosen:
        sys.exit("no server's name contains %r: there are %s" % (a.only, "; ".join(SERVERS)))
    with tempfile.TemporaryDirectory() as tmp:
        truth = build(tmp)
        servers = [measure(a, tmp, truth, n, f) for n, f in chosen.items()]
    head = ["server", "true line", "contained", "widest", "spread", "prediction off by", "a survey takes"]
    rows = [head] + [row(s) for s in servers]
    widths = [max(len(r[i]) for r in rows) for i in range(len(head))]
    for r in rows:
        print("  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip())
    os.makedirs(OUT, exist_ok=True)
    path = os.path.join(OUT, "survey_truth.json")
    with open(path + ".new", "w") as f:
        json.dump({"slo": a.slo, "quick": a.quick, "servers": servers}, f, indent=1)
    os.rename(path + ".new", path)
    print("wrote", os.path.relpath(path))


if __name__ == "__main__":
    main()
