#!/usr/bin/env python3
"""What an idle connection costs: resident memory added per connection, for plimsoll, nginx and HAProxy, plain and TLS.

Each proxy is warmed with a few hundred short connections first, so that what it allocates once is not counted. Then the
connections are opened one after another, each sends one request, reads the answer and stays open. After a pause in which
the proxy may tidy up, the memory added (RSS of all its processes) is divided by their number. The kernel's socket
buffers are in nobody's RSS, so they are not counted for anyone.

  idle.py --plimsoll ./plimsoll
  idle.py --plimsoll ./plimsoll --conns 2000 --settle 2

Needs: nginx haproxy gcc openssl (Debian packages of those names).
"""
import argparse, os, socket, ssl, sys, time

import rig

REQUEST = b"GET /api/v1/users?page=3 HTTP/1.1\r\nHost: localhost\r\nUser-Agent: idle\r\nAccept: */*\r\n\r\n"


def connect(port, context):
    s = socket.create_connection(("127.0.0.1", port), timeout=10)
    return context.wrap_socket(s, server_hostname="localhost") if context else s


def ask(s):
    """One request and its whole answer; the backend's answers have a Content-Length."""
    s.sendall(REQUEST)
    got = b""
    while b"\r\n\r\n" not in got:
        part = s.recv(65536)
        if not part:
            sys.exit(f"the proxy closed a connection before its answer was whole: {got[:200]!r}")
        got += part
    head, body = got.split(b"\r\n\r\n", 1)
    if b" 200 " not in head.split(b"\r\n")[0]:
        sys.exit(f"the proxy answered {head[:200]!r}")
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    while len(body) < length:
        part = s.recv(65536)
        if not part:
            sys.exit("the proxy closed a connection in the middle of a body")
        body += part


def still_open(s):
    """Whether nothing has come on a connection: a proxy that closed it has no memory for it either."""
    s.settimeout(0)
    try:
        return s.recv(1) != b""
    except (BlockingIOError, ssl.SSLWantReadError):
        return True
    except OSError:
        return False


def measure(a, name, tls):
    with rig.Rig(a.plimsoll, tls) as r:
        r.backend()
        r.proxy(name)
        context = ssl.create_default_context(cafile=f"{r.tmp}/c.pem") if tls else None
        port = rig.PORTS[name]
        for _ in range(300):
            s = connect(port, context)
            ask(s)
            s.close()
        time.sleep(a.settle)
        before = rig.rss_kb(r.pid(name))
        held = []
        for _ in range(a.conns):
            held.append(connect(port, context))
            ask(held[-1])
        time.sleep(a.settle)
        added = rig.rss_kb(r.pid(name)) - before
        opened = sum(map(still_open, held))
        for s in held:
            s.close()
    return added, opened


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--plimsoll", help="the plimsoll binary; left out, only the peers are measured")
    ap.add_argument("--conns", type=int, default=7000)
    ap.add_argument("--settle", type=float, default=5, help="seconds of rest before each reading")
    ap.add_argument("--peers", default="nginx,haproxy")
    a = ap.parse_args()
    rig.need("nginx", "haproxy", "gcc", "openssl", "taskset", "pgrep")
    lines = [f"- {line}" for line in rig.machine(a.plimsoll)] + [
        f"- method: {a.conns} connections, one request each, {a.settle:g} s of rest; RSS of all the proxy's processes", "",
        "| case | proxy | still open | RSS added MB | KB per connection |", "|---|---|---|---|---|"]
    for tls in (False, True):
        for name in [p for p in a.peers.split(",") if p] + (["plimsoll"] if a.plimsoll else []):
            added, opened = measure(a, name, tls)
            lines.append(f"| {'TLS 1.3' if tls else 'plain'} | {name} | {opened} | {added / 1024:.1f} | {added / a.conns:.2f} |")
            print(lines[-1], flush=True)
    os.makedirs(rig.OUT, exist_ok=True)
    with open(f"{rig.OUT}/idle.md", "w") as f:
        f.write("\n".join(lines) + "\n")
    print(f"written: {os.path.relpath(rig.OUT)}/idle.md")


if __name__ == "__main__":
    main()
