"""gangways is an HAProxy that speaks TLS to the clients of a ferry's office. An option httpclose is
left in its frontend from the time when clients could not keep connections, so that each request
begins with a handshake.

Cured, connections are kept."""
import argparse, contextlib, os, signal, socket, ssl, subprocess, sys, tempfile, time
from http.client import HTTPSConnection, HTTPException

CONFIG = """
global
    maxconn 8000
    nbthread 2
    ssl-default-bind-options ssl-min-ver TLSv1.2
    tune.ssl.default-dh-param 2048

defaults
    mode http
    timeout connect 2s
    timeout client 120s
    timeout server 10s
    timeout http-keep-alive 120s

frontend tickets
    bind %(address)s ssl crt %(certificate)s alpn http/1.1 backlog 1024
    %(closing)s
    http-request set-header X-Forwarded-Proto https
    http-request deny deny_status 405 unless { method GET HEAD POST }
    http-response set-header Strict-Transport-Security "max-age=63072000"
    default_backend office

backend office
    http-reuse always
    http-response del-header Server
    server office %(service)s pool-max-conn 512
"""
LATE = 20  # seconds that it may take to start


def free_port():
    """A port that nobody listens on now: HAProxy does not say which one it took."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def certify(folder):
    """A file with a certificate and its key."""
    files = [os.path.join(folder, name) for name in ("certificate.pem", "key.pem", "both.pem")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:3072", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-out", files[0], "-keyout", files[1]],
                   check=True, capture_output=True)
    with open(files[2], "w") as both:
        for name in files[:2]:
            with open(name) as one:
                both.write(one.read())
    return files[2]


def reachable(host, port):
    c = HTTPSConnection(host, port, timeout=LATE, context=ssl._create_unverified_context())
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
    # The signals are blocked, and waited for, so that none is lost before HAProxy is told, and its
    # end is seen.
    signs = [signal.SIGTERM, signal.SIGCHLD]
    signal.pthread_sigmask(signal.SIG_BLOCK, signs)
    with tempfile.TemporaryDirectory(prefix="patient-haproxy-") as folder:
        config = os.path.join(folder, "haproxy.cfg")
        with open(config, "w") as file:
            file.write(CONFIG % {"address": "%s:%d" % (host, port), "certificate": certify(folder),
                                 "closing": "" if a.cured else "option httpclose",
                                 "service": os.environ["PATIENT_SERVICE"]})
        proxy = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", "--", "haproxy", "-q", "-db", "-f", config],
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, signs))
        until = time.monotonic() + LATE
        while not reachable(host, port):
            if proxy.poll() is not None or time.monotonic() > until:
                proxy.kill()
                sys.exit("HAProxy did not start")
            time.sleep(.05)
        print("ready %s:%d" % (host, port), flush=True)
        while signal.sigwait(signs) == signal.SIGCHLD:
            if proxy.poll() is not None:
                sys.exit("HAProxy is gone")
        proxy.terminate()
        proxy.wait()


if __name__ == "__main__":
    main()
