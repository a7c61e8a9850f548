#!/usr/bin/env python3
"""Whether anything fails while the running binary is replaced under a steady load: SIGUSR2 makes
the server start its binary again and hand it the listening sockets; the old process drains and
ends. Every request that failed, or connection that ended without notice, is counted.

An upgrade counts once the process before it has ended and a new one answers. nginx is told to drain
with SIGQUIT, as its manual says. Exit code 0 when every upgrade took effect and nothing failed.

  upgrade.py --plimsoll ./plimsoll
  upgrade.py --server nginx --count 2 --seconds 6     # the method, without plimsoll
"""

import signal, subprocess, sys, time

import changes, rig


def leaders(r, server):
    """The server's processes that are not children of another one of them: one when at rest, two
    during an upgrade."""
    if server == "nginx":
        return list(
            set(rig.with_argument("nginx: master process"))
            & set(rig.with_argument(f"{r.tmp}/nginx.conf"))
        )
    return rig.with_argument(f"{r.tmp}/plimsoll.yaml")


def start(r, server):
    if server != "nginx":
        return r.proxy(server)
    # nginx refuses to be replaced while the process that started it is its parent still, so a shell
    # starts it and goes.
    command = " ".join(["exec", "taskset", "-c", rig.PROXY_CPU] + r.command("nginx"))
    subprocess.run(["sh", "-c", f"({command}) >/dev/null 2>&1 & sleep 1"], check=True)
    if not changes.wait_for(lambda: rig.accepts(rig.PORTS["nginx"])):
        sys.exit("nginx did not start")


def log(r, server):
    return open(f"{r.tmp}/nginx.err").read()[-2000:] if server == "nginx" else r.log(server)


def upgrade(r, a):
    """One upgrade; True when it took effect."""
    before = set(leaders(r, a.server))
    if len(before) != 1:
        print(f"{len(before)} processes of {a.server} where there must be one:\n{log(r, a.server)}")
        return False
    old = before.pop()
    rig.send(old, signal.SIGUSR2)
    if not changes.wait_for(lambda: set(leaders(r, a.server)) - {old}):
        print(f"no new process within 5 s:\n{log(r, a.server)}")
        return False
    if a.server == "nginx":
        time.sleep(0.5)
        rig.send(old, signal.SIGQUIT)
    if not changes.wait_for(lambda: old not in leaders(r, a.server), 40):
        print(f"the old process did not end within 40 s:\n{log(r, a.server)}")
        return False
    return changes.wait_for(lambda: changes.version(r, a) == "1")


def main():
    a = changes.arguments(__doc__, 5)
    with rig.Rig(a.plimsoll, a.tls) as r:
        r.backend()
        start(r, a.server)
        steady = changes.Steady(r, a)
        begin, done = time.monotonic() + 0.5, 0
        for i in range(a.count):
            time.sleep(max(0, begin + i * a.seconds / a.count - time.monotonic()))
            done += upgrade(r, a)
        result = steady.result()
    sys.exit(changes.report(a, "upgrades", done, result))


if __name__ == "__main__":
    main()
