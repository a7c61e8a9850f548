"""causeways is an HAProxy in front of the HTTPS service of a toll office. An option
http-server-close is left in its backend from an old guide, so that the connection to the service is
closed after each answer, and the next request begins with a TLS handshake.

Cured, connections to the service are kept."""
import argparse, contextlib, os, signal, socket, subprocess, sys, tempfile, time
from http.client import HTTPConnection, HTTPException

CONFIG = """
global
    maxconn 8000
    nbthread 2

defaults
    mode http
    timeout connect 2s
    timeout client 120s
    timeout server 10s
    timeout http-keep-alive 120s

frontend gate
    bind %(address)s backlog 1024
    http-request set-header X-Forwarded-Proto http
    http-request deny deny_status 405 unless { method GET HEAD POST }
    http-response set-header Cache-Control "max-age=5" if { status 200 }
    default_backend tolls

backend tolls
    %(closing)s
    http-reuse always
    http-response del-header Server
    server tolls %(service)s ssl verify required ca-file %(certificate)s pool-max-conn 512
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
        "closing": "" if a.cured else "option http-server-close",
        "service": os.environ["PATIENT_SERVICE"],
        "certificate": os.environ["PATIENT_CERTIFICATE"],
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
