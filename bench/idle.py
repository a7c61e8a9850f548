#!/usr/bin/env python3
"""What an idle connection costs: resident memory added per connection, for plimsoll, nginx and
HAProxy: plain, TLS, and HTTP/2 over TLS.

Each proxy is warmed with a few hundred short connections first, so that what it allocates once is
not counted. Then the connections are opened one after another, each sends one request, reads the
answer and stays open. After a pause in which the proxy may tidy up, the memory added (RSS of all
its processes) is divided by their number. The kernel's socket buffers are in nobody's RSS, so they
are not counted for anyone.

  idle.py --plimsoll ./plimsoll
  idle.py --plimsoll ./plimsoll --conns 2000 --settle 2

Needs: nginx haproxy gcc openssl (Debian packages of those names).
"""

import argparse, os, socket, ssl, sys, time

import h2_cost, rig

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
    length = next(
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    )
    while len(body) < length:
        part = s.recv(65536)
        if not part:
            sys.exit("the proxy closed a connection in the middle of a body")
        body += part


def frame(kind, flags, stream, payload):
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    )


def literal(index, value):
    """A field of HPACK that enters the dynamic table, its name by index."""
    return bytes([0x40 | index, len(value)]) + value


def ask_http2(s):
    """The beginning of an HTTP/2 connection, one request as a browser sends it, and its whole
    answer."""
    fields = (
        b"\x82\x87"
        + literal(1, b"localhost")
        + literal(4, b"/api/v1/users?page=3")
        + literal(19, b"*/*")
        + b"\x40\x0auser-agent\x04idle"
    )
    s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(1, 5, 1, fields))
    got, ended = b"", False
    while not ended:
        part = s.recv(65536)
        if not part:
            sys.exit("the proxy closed a connection before its answer was whole")
        got += part
        while len(got) >= 9 and len(got) >= 9 + int.from_bytes(got[:3], "big"):
            kind, flags, length = got[3], got[4], int.from_bytes(got[:3], "big")
            if kind in (3, 7):
                sys.exit(f"the proxy refused an HTTP/2 request: {got[:60]!r}")
            if kind == 4 and not flags & 1:
                s.sendall(frame(4, 1, 0, b""))
            ended = ended or kind in (0, 1) and flags & 1
            got = got[9 + length :]


def still_open(s):
    """Whether nothing has come on a connection: a proxy that closed it has no memory for it
    either."""
    s.settimeout(0)
    try:
        return s.recv(1) != b""
    except (BlockingIOError, ssl.SSLWantReadError):
        return True
    except OSError:
        return False


def measure(a, name, case):
    tls = case != "plain"
    send = ask_http2 if case == "HTTP/2" else ask
    with rig.Rig(a.plimsoll, tls) as r:
        if case == "HTTP/2":
            h2_cost.offer_http2(r)
        r.backend()
        r.proxy(name)
        context = ssl.create_default_context(cafile=f"{r.tmp}/c.pem") if tls else None
        if case == "HTTP/2":
            context.set_alpn_protocols(["h2"])
        port = rig.PORTS[name]
        for _ in range(300):
            s = connect(port, context)
            send(s)
            s.close()
        time.sleep(a.settle)
        before = rig.rss_kb(r.pid(name))
        held = []
        for _ in range(a.conns):
            held.append(connect(port, context))
            send(held[-1])
        time.sleep(a.settle)
        added = rig.rss_kb(r.pid(name)) - before
        opened = sum(map(still_open, held))
        for s in held:
            s.close()
    return added, opened


def main():
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("--plimsoll", help="the plimsoll binary; left out, only the peers are measured")
    ap.add_argument("--conns", type=int, default=7000)
    ap.add_argument("--settle", type=float, default=5, help="seconds of rest before each reading")
    ap.add_argument("--peers", default="nginx,haproxy")
    a = ap.parse_args()
    rig.need("nginx", "haproxy", "gcc", "openssl", "taskset", "pgrep")
    lines = [f"- {line}" for line in rig.machine(a.plimsoll)] + [
        f"- method: {a.conns} connections, one request each, {a.settle:g} s of rest; RSS of all the proxy's processes",
        "",
        "| case | proxy | still open | RSS added MB | KB per connection |",
        "|---|---|---|---|---|",
    ]
    for case in ("plain", "TLS 1.3", "HTTP/2"):
        for name in [p for p in a.peers.split(",") if p] + (["plimsoll"] if a.plimsoll else []):
            added, opened = measure(a, name, case)
            lines.append(
                f"| {case} | {name} | {opened} | {added / 1024:.1f} | {added / a.conns:.2f} |"
            )
            print(lines[-1], flush=True)
    os.makedirs(rig.OUT, exist_ok=True)
    with open(f"{rig.OUT}/idle.md", "w") as f:
        f.write("\n".join(lines) + "\n")
    print(f"written: {os.path.relpath(rig.OUT)}/idle.md")


if __name__ == "__main__":
    main()
