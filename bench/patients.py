#!/usr/bin/env python3
"""Compares the diagnosis with services whose disease is known, because we made them sick: examples/patients. Each is surveyed sick and cured;
the first finding on the sick one has to be its disease, and there must be none on the cured one. Prints a table with the load lines, and the
gain that the finding predicted beside the gain that the cure brought. Writes bench/out/patients.json.

    python3 bench/patients.py --plimsoll ./plimsoll                      all of them; one to two minutes for each survey
    python3 bench/patients.py --plimsoll ./plimsoll lock onecore         only these
    python3 bench/patients.py --plimsoll ./plimsoll --half D             only those of a half, or of every half with --half all
    python3 bench/patients.py --plimsoll ./plimsoll --keep runs          and keep the run directories
    python3 bench/patients.py --plimsoll ./plimsoll --again runs         survey nothing: diagnose kept runs once more

examples/patients/patients.json lists them. An entry has:
  name, folder      what it is called, and where its code is under examples/patients
  half              A: rules were developed against it; any other: held back until they were done. The first patients are in none
  disease, cure     a sentence each, for a person
  rule              the rule that has to fire first; a service that is sick in two ways has rules instead, in the order in which they give,
                    and is surveyed once more with only the first disease cured; a healthy one has neither, and no cure
  place             a word for where the disease is: it has to be in the first finding, in its claim, evidence, code or advice
  hot_spot          in the place of a rule: the function that has to be shown as where most of the time goes, and is not a finding, because
                    it looks the same as honest work
  slo, path         what is surveyed; scheme too, when it is not http
  survey            further flags of the survey
  flags             further flags of the service
  command           words that start it, the last a file of its folder; without it, it is a Go program
  check, package    a command that succeeds where what it is written in is installed, and the package that brings it: where it fails, the
                    patient is left out
  shows             what it shows of itself: "pprof" and "metrics" unless it says otherwise; a survey is told of these
  needs             what has to be there (bench/patients_needs.py): names, or objects {"need": name, ...} whose other members are
                    arguments. A list for all states of the service, or an object with a list for each: {"sick": [...], "cured": [...]}
"""
import argparse, contextlib, json, os, select, shutil, signal, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
OUT = os.path.join(HERE, "out")
WARDS = os.path.join(ROOT, "examples", "patients")
# A service that is not ready after START seconds does not start, one that has not ended after STOP is killed, and a survey that takes longer
# than SURVEY is broken.
START, STOP, SURVEY = 30, 10, 1200
# How advice begins that is the same for all services of a language, and so names no place.
LOOKS_FOR = "look through the code for what lets few in at a time: "


class Broken(Exception):
    """Why there is no result."""


def states(patient):
    """The states that a patient is surveyed in: name, flags of the service, rules that have to be found, in order."""
    if "rule" in patient:
        return [("sick", [], [patient["rule"]]), ("cured", ["--cured"], [])]
    if "hot_spot" in patient:
        return [("sick", [], []), ("cured", ["--cured"], [])]
    if "rules" not in patient:
        return [("healthy", [], [])]
    return [("sick", [], patient["rules"]), ("first cured", ["--cure", "first"], patient["rules"][1:]), ("cured", ["--cured"], [])]


@contextlib.contextmanager
def needed(patient, state):
    """Starts what a patient needs. Yields the words before the service's command and before plimsoll's, flags of the service, and environment."""
    needs = patient.get("needs", [])
    if isinstance(needs, dict):
        needs = needs.get(state, needs["sick"])
    service, survey, flags, environment = [], [], [], dict(os.environ)
    with contextlib.ExitStack() as stack:
        for need in needs:
            from patients_needs import NEEDS  # only here, so that the others can do without what it uses
            arguments = {"need": need} if isinstance(need, str) else dict(need)
            given = stack.enter_context(NEEDS[arguments.pop("need")](**arguments))
            service += given.get("service", [])
            survey += given.get("survey", [])
            flags += given.get("flags", [])
            environment.update(given.get("environment", {}))
        yield service, survey, flags, environment


@contextlib.contextmanager
def running(command, environment, log):
    """A service that is ready; it and its children are ended."""
    with open(log, "wb") as errors:
        service = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, start_new_session=True)
    try:
        until, said = time.monotonic() + START, b""
        while not said.startswith(b"ready ") or b"\n" not in said:
            if not select.select([service.stdout], [], [], max(until - time.monotonic(), 0))[0]:
                raise Broken("the service was not ready after %d s%s" % (START, last(log)))
            more = os.read(service.stdout.fileno(), 4096)
            if not more:
                raise Broken("the service did not start%s" % last(log))
            said += more
        yield
        if service.poll() is not None:
            raise Broken("the service died, exit code %d%s" % (service.returncode, last(log)))
    finally:
        end(service)


def end(process):
    """Ends a process that leads a session of its own, and what it has started."""
    for kind in signal.SIGTERM, signal.SIGKILL:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, kind)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP)
    process.stdout.close()


def last(log):
    with open(log, "rb") as f:
        said = f.read()[-400:].decode("utf-8", "replace").strip()
    return ": " + said if said else ""


def call(command, timeout):
    """What a command of plimsoll printed as JSON, whatever it thinks of it; None where it printed none. Never left behind."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Broken("%s took more than %d s" % (command[1], timeout))
    finally:
        if process.poll() is None:
            end(process)
    try:
        return json.loads(out)
    except ValueError:
        raise Broken("exit code %d, and no JSON: %s" % (process.returncode, err.decode("utf-8", "replace").strip()[-300:]))


def survey(a, patient, program, state, flags, out):
    """Surveys one state of a patient into the folder out. program is the words that start it."""
    log = out + ".log"
    shows = patient.get("shows", ["pprof", "metrics"])
    inside = "127.0.0.1:%d" % (a.port + 1)
    look = {"pprof": ["--pprof", "http://" + inside], "metrics": ["--metrics", "http://%s/metrics" % inside]}
    with needed(patient, state) as (before_service, before_survey, given, environment):
        service = before_service + program + ["--address", "127.0.0.1:%d" % a.port]
        if "command" not in patient:
            service += ["--debug", inside if shows else ""]
        with running(service + patient.get("flags", []) + given + flags, environment, log):
            url = "%s://127.0.0.1:%d%s" % (patient.get("scheme", "http"), a.port, patient["path"])
            call(before_survey + [a.plimsoll, "survey", url, "--slo", patient["slo"], "--json", "--out", out]
                 + [word for what in shows for word in look[what]]
                 + ([] if a.thorough else ["--quick"]) + patient.get("survey", []), SURVEY)


def made(patient, folder):
    """The words that start a patient, which is built first where it has to be."""
    home = os.path.join(WARDS, patient["folder"])
    if "command" in patient:
        return patient["command"][:-1] + [os.path.join(home, patient["command"][-1])]
    binary = os.path.join(folder, patient["name"])
    subprocess.run(["go", "build", "-o", binary, "./examples/patients/" + patient["folder"]], check=True, cwd=ROOT)
    return [binary]


def lacking(patient):
    """The package that a patient lacks on this machine; empty where it can run."""
    if "check" not in patient:
        return ""
    try:
        there = subprocess.run(patient["check"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        there = False
    return "" if there else patient["package"]


def examine(a, patient, program, state, flags, rules, runs):
    """One state of a patient: its line, and whether the findings are the ones that it has to have."""
    out = os.path.join(runs, patient["name"] + "-" + state.replace(" ", "-"))
    seen = {"state": state, "expected": rules}
    try:
        if not a.again:
            survey(a, patient, program, state, flags, out)
        seen["line"] = line(out)
        diagnosis = call([a.plimsoll, "diagnose", out, "--json"], 60)["diagnosis"]
        found = diagnosis["findings"]
    except (Broken, OSError, KeyError, ValueError) as e:
        seen["why"] = "%s: %s" % (type(e).__name__, e) if not isinstance(e, Broken) else str(e)
        return seen
    seen["findings"] = [{"rule": f["rule"], "claim": f["claim"], "confidence": f["confidence"], "gain": f["gain"]["factor"]} for f in found]
    names = [f["rule"] for f in seen["findings"]]
    # A service with two diseases has both among its findings, in this order, the first of them before all others.
    order = [n for n in names if n in rules]
    seen["right"] = not names if not rules else names[:1] == rules[:1] and order == rules
    if "place" in patient and state == "sick":
        seen["right"] = seen["right"] and names_place(found[0], patient["place"])
    if "hot_spot" in patient and state == "sick":
        shown = [w["function"] for w in diagnosis["bottleneck"].get("where", [])]
        seen["right"] = seen["right"] and shown[:1] == [patient["hot_spot"]]
    return seen


def names_place(finding, place):
    """Whether a finding says where the disease is."""
    said = [finding["claim"]] + [f["what"] + f["value"] for f in finding.get("evidence", [])]
    said += [w["function"] for w in finding.get("where", [])]
    said += [
        d["text"] + d["command"] for d in finding.get("advice", []) if not d["text"].startswith(LOOKS_FOR)
    ]
    return any(place.lower() in text.lower() for text in said)


def line(out):
    with open(os.path.join(out, "result.json")) as f:
        result = json.load(f)
    if not result["line"]["found"]:
        raise Broken("the survey found no line: %s" % result["line"].get("why", "it does not say why"))
    i = result["line"]["rate_per_second"]
    return {"low": i["low"], "estimate": i["estimate"], "high": i["high"]}


def judge(patient, seen):
    """A patient's row, from what was seen of its states."""
    r = {"patient": patient["name"], "disease": patient["disease"], "rules": states(patient)[0][2], "states": seen}
    r["right"] = all(s.get("right", False) for s in seen)
    sick, better = seen[0], seen[min(1, len(seen) - 1)]
    r["first"] = None
    if sick.get("findings"):
        r["first"] = sick["findings"][0]["rule"]
        r["predicted"] = sick["findings"][0]["gain"]
    if better is not sick and "line" in sick and "line" in better:
        r["measured"] = better["line"]["estimate"] / sick["line"]["estimate"]
    if "predicted" in r and "measured" in r and r["predicted"] > 0:
        r["off"] = max(r["predicted"] / r["measured"], r["measured"] / r["predicted"])
    return r


def cells(r):
    lines = " → ".join("%.0f" % s["line"]["estimate"] if "line" in s else "?" for s in r["states"])
    wrong = [s["state"] for s in r["states"] if not s.get("right")]
    factor = lambda key: "%.2f×" % r[key] if key in r else "—"
    return [r["patient"], " + ".join(r["rules"]) or "none", r["first"] or ("none" if "findings" in r["states"][0] else "—"),
            "right" if not wrong else "WRONG (%s)" % ", ".join(wrong), lines, factor("predicted"), factor("measured")]


def table(rows):
    head = ["patient", "disease", "first finding", "", "line, requests/s", "predicted", "measured"]
    shown = [head] + [cells(r) for r in rows]
    widths = [max(len(row[i]) for row in shown) for i in range(len(head))]
    for row in shown:
        print("  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip())


def say(patient, s):
    what = "line %.0f" % s["line"]["estimate"] if "line" in s else "no line"
    if "findings" in s:
        what += ", %s: %s" % ("right" if s["right"] else "WRONG", ", ".join("%s (%.2f×)" % (f["rule"], f["gain"]) for f in s["findings"]) or "no finding")
    print("  %s, %s: %s%s" % (patient["name"], s["state"], what, "; " + s["why"] if "why" in s else ""), flush=True)


def listed():
    with open(os.path.join(WARDS, "patients.json")) as f:
        return json.load(f)


def choose(names, half):
    patients = listed()
    known = [p["name"] for p in patients]
    unknown = [n for n in names if n not in known]
    if unknown:
        sys.exit("there is no patient %s: there are %s" % (", ".join(unknown), ", ".join(known)))

    def in_half(p):
        return not half or p.get("half") == half or (half == "all" and "half" in p)

    return [p for p in patients if (not names or p["name"] in names) and in_half(p)]


def parse():
    halves = sorted({patient["half"] for patient in listed() if "half" in patient})
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--plimsoll", default="./plimsoll", help="the binary")
    p.add_argument("--thorough", action="store_true", help="whole surveys rather than quick ones")
    p.add_argument("--keep", default="", metavar="DIR", help="keep the run directories here")
    p.add_argument("--again", default="", metavar="DIR", help="survey nothing: diagnose the runs that --keep has kept")
    p.add_argument("--sick", action="store_true", help="only as they are, and not cured: half the time, and no gain to compare with")
    p.add_argument("--half", default="", choices=halves + ["all"], help="only the patients of this half, or of every half")
    p.add_argument("--port", type=int, default=18800, help="the services listen here, and show their insides on the next one")
    p.add_argument("names", nargs="*", help="patients (all)")
    a = p.parse_args()
    a.plimsoll = os.path.abspath(a.plimsoll)
    if not os.access(a.plimsoll, os.X_OK):
        sys.exit(f"{a.plimsoll} is not a program: make build makes it")
    return a


def stopped(*_):
    raise KeyboardInterrupt


def main():
    a = parse()
    chosen = choose(a.names, a.half)
    signal.signal(signal.SIGTERM, stopped)
    rows, left = [], 0
    with tempfile.TemporaryDirectory() as tmp:
        runs = os.path.abspath(a.again or a.keep or os.path.join(tmp, "runs"))
        os.makedirs(runs, exist_ok=True)
        try:
            for patient in chosen:
                lacks = "" if a.again else lacking(patient)
                if lacks:
                    print("  %s is left out: %s is not installed (./scripts/tools.sh installs it)" % (patient["name"], lacks), flush=True)
                    left += 1
                    continue
                program = [] if a.again else made(patient, tmp)
                seen = []
                for state, flags, rules in states(patient)[:1 if a.sick else None]:
                    if not a.again:
                        shutil.rmtree(os.path.join(runs, patient["name"] + "-" + state.replace(" ", "-")), ignore_errors=True)
                    seen.append(examine(a, patient, program, state, flags, rules, runs))
                    say(patient, seen[-1])
                rows.append(judge(patient, seen))
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
    if rows:
        conclude(a, rows)
    sys.exit(0 if len(rows) + left == len(chosen) and all(r["right"] for r in rows) else 3)


def conclude(a, rows):
    table(rows)
    sick = [r for r in rows if r["rules"]]
    near = [r for r in sick if r["first"] == r["rules"][0] and r.get("off", 9) <= 1.5]
    print("%d of %d right; the gain within a factor of 1.5 for %d of %d" % (sum(r["right"] for r in rows), len(rows), len(near), len(sick)))
    os.makedirs(OUT, exist_ok=True)
    path = os.path.join(OUT, "patients.json")
    with open(path + ".new", "w") as f:
        json.dump({"quick": not a.thorough, "patients": rows}, f, indent=1)
    os.rename(path + ".new", path)
    print("wrote", os.path.relpath(path))


if __name__ == "__main__":
    main()
