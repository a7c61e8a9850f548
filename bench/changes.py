"""What reload.py and upgrade.py share: the steady client under which a server is changed, and
asking a server which version of its configuration, or which process, answers."""

import argparse, json, os, ssl, subprocess, sys, time, urllib.request

import rig

SERVERS = ("plimsoll", "nginx")


def arguments(doc, count):
    ap = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("--plimsoll", help="the plimsoll binary")
    ap.add_argument(
        "--server",
        choices=SERVERS,
        default="plimsoll",
        help="nginx is the stand-in that shows the method works",
    )
    ap.add_argument("--count", type=int, default=count, help="how many changes")
    ap.add_argument("--seconds", type=float, default=30, help="over how long")
    ap.add_argument("--rate", type=int, default=10000, help="requests a second")
    ap.add_argument("--conns", type=int, default=100)
    ap.add_argument("--tls", action="store_true")
    a = ap.parse_args()
    if a.server == "plimsoll" and not a.plimsoll:
        sys.exit("--plimsoll says which binary to measure (or --server nginx)")
    rig.need("nginx", "gcc", "go", "openssl", "taskset", "pgrep")
    return a


class Steady:
    """The client of bench/steady, built into the rig's folder, sending from the moment this is
    made."""

    def __init__(self, r, a):
        program = f"{r.tmp}/steady"
        subprocess.run(["go", "build", "-o", program, "./steady"], cwd=rig.HERE, check=True)
        url = (
            f"{'https' if a.tls else 'http'}://127.0.0.1:{rig.PORTS[a.server]}/api/v1/users?page=3"
        )
        command = [
            "taskset",
            "-c",
            rig.LOAD_CPU,
            program,
            "-url",
            url,
            "-rate",
            str(a.rate),
            "-duration",
            f"{a.seconds + 1}s",
            "-connections",
            str(a.conns),
        ] + (["-ca", f"{r.tmp}/c.pem"] if a.tls else [])
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def result(self):
        out, _ = self.process.communicate(timeout=120)
        if self.process.returncode:
            sys.exit("the steady client failed")
        return json.loads(out)


def version(r, a):
    """The body of /version, asked on a connection of its own; None when there was no answer."""
    context = ssl.create_default_context(cafile=f"{r.tmp}/c.pem") if a.tls else None
    try:
        with urllib.request.urlopen(
            f"{'https' if a.tls else 'http'}://127.0.0.1:{rig.PORTS[a.server]}/version",
            timeout=2,
            context=context,
        ) as answer:
            return answer.read().decode()
    except OSError:
        return None


def wait_for(what, seconds=5):
    """Asks until what() is true; False when it was not within the time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if what():
            return True
        time.sleep(0.01)
    return False


def report(a, noun, done, result):
    """Prints the outcome and returns the exit code: 0 when every change took effect and nothing
    failed."""
    print(
        f"{a.server}{', TLS' if a.tls else ''}: {done} of {a.count} {noun} took effect at {a.rate} requests a second over {a.conns} connections"
    )
    print(
        f"sent {result['sent']}, ok {result['ok']}, failed {result['failed']} {result['kinds'] or ''}"
    )
    print(
        f"connections closed with notice {result['goodbyes']}, sent late {result['late']}, "
        f"p50 {result['p50_ms']:.2f} ms, p99 {result['p99_ms']:.2f} ms, max {result['max_ms']:.1f} ms"
    )
    if result["late"] > result["sent"] / 20:
        print(
            "the rate was not held for more than 5 % of the requests: this machine is too busy for a figure"
        )
    os.makedirs(rig.OUT, exist_ok=True)
    with open(f"{rig.OUT}/{noun}-{a.server}{'-tls' if a.tls else ''}.json", "w") as f:
        json.dump(
            dict(
                result, changes=done, wanted=a.count, rate=a.rate, machine=rig.machine(a.plimsoll)
            ),
            f,
            indent=1,
        )
    return 0 if done == a.count and result["failed"] == 0 else 1
