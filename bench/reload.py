#!/usr/bin/env python3
"""Whether anything fails while the configuration is reloaded again and again under a steady load:
50 reloads in 30 seconds at 10,000 requests a second, and every request that failed, or connection
that ended without notice, counted.

Each reload changes what /version answers, and counts only once a new connection sees the change.
Exit code 0 when every reload took effect and nothing failed.

  reload.py --plimsoll ./plimsoll
  reload.py --plimsoll ./plimsoll --tls
  reload.py --server nginx --count 5 --seconds 5     # the method, without plimsoll
"""

import signal, sys, time

import changes, rig


def configuration(r, a, number):
    if a.server == "nginx":
        rig.write(f"{r.tmp}/nginx.conf", rig.nginx_conf(r.tmp, a.tls, str(number)))
    else:
        rig.write(f"{r.tmp}/plimsoll.yaml", rig.plimsoll_yaml(r.tmp, a.tls, str(number)))


def main():
    a = changes.arguments(__doc__, 50)
    with rig.Rig(a.plimsoll, a.tls) as r:
        r.backend()
        r.proxy(a.server)
        steady = changes.Steady(r, a)
        begin, done = time.monotonic() + 0.5, 0
        for i in range(a.count):
            time.sleep(max(0, begin + i * a.seconds / a.count - time.monotonic()))
            configuration(r, a, i + 2)
            rig.send(r.pid(a.server), signal.SIGHUP)
            if changes.wait_for(lambda: changes.version(r, a) == str(i + 2)):
                done += 1
            else:
                print(f"reload {i + 1} had no effect within 5 s:\n{r.log(a.server)}")
        result = steady.result()
        if r.processes[a.server].poll() is not None:
            print(f"{a.server} ended:\n{r.log(a.server)}")
    sys.exit(changes.report(a, "reloads", done, result))


if __name__ == "__main__":
    main()
