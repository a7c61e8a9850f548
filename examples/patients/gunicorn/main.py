"""gunicorn serves with two sync workers, and each request waits 10 ms for the warehouse: two
requests are inside, and the others stand in the queue of the socket.

Cured, each worker has 32 threads (gthread)."""

import argparse, hashlib, http.client, os, threading

from gunicorn.app.base import BaseApplication

WORK = 300  # rounds of honest work, each of a microsecond

own = threading.local()


def ask():
    """The warehouse's answer, over a connection that this thread keeps."""
    if not hasattr(own, "warehouse"):
        own.warehouse = http.client.HTTPConnection(os.environ["PATIENT_SERVICE"])
    own.warehouse.request("GET", "/")
    return own.warehouse.getresponse().read()


def shop(environ, start_response):
    text = ask()
    for _ in range(WORK):
        text = hashlib.sha256(text).digest()
    body = text.hex().encode() + b"\n"
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


def ready(server):
    for listener in server.LISTENERS:
        print("ready %s:%d" % listener.getsockname(), flush=True)


class Shop(BaseApplication):
    def __init__(self, address, cured):
        self.settings = {
            "bind": address,
            "workers": 2,
            "when_ready": ready,
            "loglevel": "warning",
            "keepalive": 120,
        }
        if cured:
            self.settings.update(worker_class="gthread", threads=32)
        super().__init__()

    def load_config(self):
        for name, value in self.settings.items():
            self.cfg.set(name, value)

    def load(self):
        return shop


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    Shop(a.address, a.cured).run()
