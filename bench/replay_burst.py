"""How well a replay keeps the times of its log: a made log of 120,000 lines, 1,000 a second with
3,200 a second more for 8 seconds, is replayed against nginx, whose own access log tells when each
request arrived. Prints the worst second's difference between the two logs, and how late the last
requests were.

  replay_burst.py --plimsoll ./plimsoll                # as the log is: 94 seconds
  replay_burst.py --plimsoll ./plimsoll --speed 4x     # in a quarter of that
  replay_burst.py --plimsoll ./plimsoll --check        # fails when a budget is broken

Needs: nginx (Debian's package).
"""

import argparse, collections, json, os, subprocess, sys, tempfile, time
import rig

PORT = 18790
BASE, BURST, BURST_AT, BURST_FOR, LINES = 1000, 3200, 40, 8, 120_000
WORST_BUDGET, DRIFT_BUDGET_MS = 0.01, 5.0


def make_log(path):
    """Combined format, whose clock has whole seconds. Returns the lines of each second."""
    counts, left, second = [], LINES, 0
    with open(path, "w") as f:
        while left > 0:
            n = min(left, BASE + (BURST if BURST_AT <= second < BURST_AT + BURST_FOR else 0))
            stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(1_790_000_000 + second))
            line = f'192.0.2.1 - - [{stamp}] "GET /items/%d HTTP/1.1" 200 512 "-" "made"\n'
            f.writelines(line % i for i in range(n))
            counts.append(n)
            left, second = left - n, second + 1
    return counts


def nginx(tmp):
    conf = f"""worker_processes 1; daemon off; pid {tmp}/n.pid; error_log {tmp}/n.err; events {{ worker_connections 1024; }}
http {{ log_format t '$msec'; access_log {tmp}/seen.log t; keepalive_requests 1000000000; client_body_temp_path {tmp}/ct; proxy_temp_path {tmp}/pt;
 fastcgi_temp_path {tmp}/ft; uwsgi_temp_path {tmp}/ut; scgi_temp_path {tmp}/st;
 server {{ listen 127.0.0.1:{PORT}; location / {{ return 200 "ok"; }} }} }}"""
    rig.write(f"{tmp}/n.conf", conf)
    server = subprocess.Popen(
        ["nginx", "-p", tmp, "-c", f"{tmp}/n.conf"], stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 10
    while not rig.accepts(PORT):
        if server.poll() is not None or time.monotonic() > deadline:
            sys.exit("nginx did not start:\n" + open(f"{tmp}/n.err").read())
        time.sleep(0.05)
    open(f"{tmp}/seen.log", "w").close()  # what asked whether it listens is not part of the replay
    return server


def arrived(path, speed):
    """Requests of each second of the log, by the arrivals that nginx saw."""
    times = sorted(float(t) for t in open(path))
    counts = collections.Counter(int((t - times[0]) * speed) for t in times)
    return [counts[s] for s in range(max(counts) + 1)], times[-1] - times[0]


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--plimsoll", required=True, help="the plimsoll binary")
    p.add_argument("--speed", default="1x")
    p.add_argument("--check", action="store_true", help="exit with 1 when a budget is broken")
    a = p.parse_args()
    rig.need("nginx")
    with tempfile.TemporaryDirectory() as tmp:
        planned = make_log(f"{tmp}/made.log")
        server = nginx(tmp)
        try:
            run = subprocess.run(
                [
                    os.path.abspath(a.plimsoll),
                    "replay",
                    f"{tmp}/made.log",
                    "--target",
                    f"http://127.0.0.1:{PORT}",
                    "--speed",
                    a.speed,
                    "--json",
                ],
                capture_output=True,
                text=True,
            )
        finally:
            server.terminate()
            server.wait()
        if not run.stdout:
            sys.exit(run.stderr)
        said = json.loads(run.stdout)
        seen, took = arrived(f"{tmp}/seen.log", float(a.speed.rstrip("x")))
    kept, totals = said["log"]["kept"], said["totals"]
    # The last second of the log may be cut short by a millisecond of nginx's clock.
    worst = max(abs(s - w) / w for s, w in zip(seen[: len(planned) - 1], planned))
    drift = kept["drift_ns"] / 1e6
    print(
        f"{sum(seen)} of {LINES} requests arrived in {took:.3f} s; in the worst second {100 * worst:.2f} % off the log by nginx's log, "
        f"{100 * kept['worst_share']:.2f} % by plimsoll's own count; drift at the end {drift:.3f} ms; {totals['generator'].get('invalid', '')}"
    )
    if a.check and (worst > WORST_BUDGET or drift > DRIFT_BUDGET_MS or sum(seen) != LINES):
        sys.exit("budget broken: 1 % in each second, 5 ms at the end, every line")


if __name__ == "__main__":
    main()
