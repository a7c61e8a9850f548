"""tickets sells seats of a theatre. Several workers sell them, so the house is locked in Redis
while a seat is paid for, which takes 4 ms. Who does not get the lock sleeps for 20 ms and tries
once more.

Cured, there is a lock for each seat."""

import argparse, contextlib, hashlib, json, os, random, threading
from http.client import HTTPConnection, HTTPException

import redis
from gunicorn.app.base import BaseApplication

ROWS, SEATS, AGAIN, PATIENCE = 30, 40, 0.02, 5


class Late(Exception):
    """The lock was not to be had."""


class Theatre:
    """The house, as a worker's threads see it."""

    def __init__(self, each_seat):
        host, port = os.environ["PATIENT_REDIS"].split(":")
        self.redis = redis.Redis(
            connection_pool=redis.BlockingConnectionPool(
                max_connections=32, host=host, port=int(port), decode_responses=True
            )
        )
        self.each_seat, self.own = each_seat, threading.local()

    @contextlib.contextmanager
    def locked(self, seat):
        name = "lock:seat:" + seat if self.each_seat else "lock:house"
        lock = self.redis.lock(
            name, timeout=PATIENCE, sleep=AGAIN, blocking_timeout=PATIENCE, thread_local=True
        )
        if not lock.acquire():
            raise Late("the house is busy")
        try:
            yield
        finally:
            lock.release()

    def pay(self, cents):
        """Asks the bank, over a connection that the thread keeps."""
        if not hasattr(self.own, "bank"):
            self.own.bank = HTTPConnection(os.environ["PATIENT_SERVICE"], timeout=10)
        self.own.bank.request("GET", "/pay?cents=%d" % cents)
        return self.own.bank.getresponse().read().split()[0].decode()

    def sell(self, seat):
        cents = 1500 + int(seat) * 37 % 4000
        with self.locked(seat):
            sold = self.redis.hincrby("sold", seat)
            receipt = self.pay(cents)
        return {
            "seat": seat,
            "times": sold,
            "euros": "%d.%02d" % divmod(cents, 100),
            "receipt": receipt,
            "plan": plan(seat),
        }


def plan(seat):
    """The seats around, with what each would cost tonight."""
    row, at = divmod(int(seat), SEATS)
    around = []
    for r in range(max(row - 3, 0), min(row + 4, ROWS)):
        for s in range(max(at - 6, 0), min(at + 7, SEATS)):
            name = hashlib.sha1(b"%d-%d" % (r, s)).hexdigest()[:6]
            around.append(
                {
                    "row": r + 1,
                    "seat": s + 1,
                    "name": name,
                    "cents": 1500 + (r * SEATS + s) * 37 % 4000,
                }
            )
    return sorted(around, key=lambda s: (s["cents"], s["name"]))[:24]


class Office(BaseApplication):
    def __init__(self, address, cured):
        self.cured = cured
        self.settings = {
            "bind": address,
            "workers": 2,
            "worker_class": "gthread",
            "threads": 16,
            "keepalive": 120,
            "when_ready": self.ready,
            "loglevel": "warning",
        }
        super().__init__()

    @staticmethod
    def ready(server):
        for listener in server.LISTENERS:
            print("ready %s:%d" % listener.getsockname(), flush=True)

    def load_config(self):
        for name, value in self.settings.items():
            self.cfg.set(name, value)

    def load(self):
        """Runs in each worker."""
        self.theatre = Theatre(self.cured)
        return self.answer

    def answer(self, environ, start_response):
        try:
            status, value = "200 OK", self.theatre.sell(str(random.randrange(ROWS * SEATS)))
        except (redis.RedisError, HTTPException, OSError, Late) as e:
            status, value = "503 Service Unavailable", {"error": str(e)}
        body = json.dumps(value).encode() + b"\n"
        start_response(
            status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        )
        return [body]


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    Office(a.address, a.cured).run()
