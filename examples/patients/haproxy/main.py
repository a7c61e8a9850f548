"""haproxy is an HAProxy in front of a shop that takes 15 ms for a page, mostly to wait. The shop's
server may have 32 connections (maxconn), a figure from when it was smaller: the others wait in
HAProxy's queue.

Cured, maxconn is 512."""

import argparse, contextlib, os, signal, socket, subprocess, sys, tempfile, time
from http.client import HTTPConnection, HTTPException

CONFIG = """
global
    maxconn 8000
    nbthread 2

defaults
    mode http
    balance roundrobin
    option forwardfor
    option http-keep-alive
    http-reuse always
    timeout connect 2s
    timeout client 120s
    timeout server 10s
    timeout queue 10s

frontend shop
    bind %(address)s backlog 1024
    http-request set-header X-Request-Start "t=%%[date()]"
    http-response set-header Cache-Control "max-age=10" if { status 200 }
    acl is_image path_end .png .jpg .webp
    http-request deny deny_status 404 if is_image
    default_backend pages

backend pages
    http-response del-header Server
    server shop %(service)s maxconn %(maxconn)d pool-max-conn 512
"""
LATE = 20  # seconds that it may take to start


def free_port():
    """A port that nobody listens on now: HAProxy does not say which one it took."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def reachable(host, port):
    c = HTTPConnection(host, port, timeout=LATE)
    with contextlib.suppress(OSError, HTTPException), contextlib.closing(c):
        c.request("GET", "/")
        return c.getresponse().status == 200
    return False


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    host, port = a.address.rsplit(":", 1)
    port = int(port) or free_port()
    settings = {
        "address": "%s:%d" % (host, port),
        "service": os.environ["PATIENT_SERVICE"],
        "maxconn": 512 if a.cured else 32,
    }
    # The signals are blocked, and waited for, so that none is lost before HAProxy is told, and its
    # end is seen.
    signs = [signal.SIGTERM, signal.SIGCHLD]
    signal.pthread_sigmask(signal.SIG_BLOCK, signs)
    with tempfile.NamedTemporaryFile("w", prefix="patient-haproxy-", suffix=".cfg") as file:
        file.write(CONFIG % settings)
        file.flush()
        proxy = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", "--", "haproxy", "-q", "-db", "-f", file.name],
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, signs),
        )
        until = time.monotonic() + LATE
        while not reachable(host, port):
            if proxy.poll() is not None or time.monotonic() > until:
                proxy.kill()
                sys.exit("HAProxy did not start")
            time.sleep(0.05)
        print("ready %(address)s" % settings, flush=True)
        while signal.sigwait(signs) == signal.SIGCHLD:
            if proxy.poll() is not None:
                sys.exit("HAProxy is gone")
        proxy.terminate()
        proxy.wait()


if __name__ == "__main__":
    main()
