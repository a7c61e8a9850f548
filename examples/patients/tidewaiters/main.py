"""tidewaiters shows a page of the log of the tide-waiters, who watch what is brought ashore. Redis
has the log as a sorted set by time, and a page is what ZREVRANGEBYSCORE has between +inf and -inf,
with a LIMIT. That command cannot jump to an offset: Redis goes through all entries before the page
for each request, on its one thread, and auditors read old pages as often as new ones.

Cured, ZREVRANGE asks for the page by the ranks of its entries, and Redis can jump to a rank."""
import argparse, hashlib, json, os, random

import redis
from gunicorn.app.base import BaseApplication

LOG = "log"
ENTRIES, PAGE = 70_000, 50
GOODS = "tea", "rum", "lace", "tobacco", "silk", "pepper", "salt"


def client():
    """A client of Redis. It may be used by all threads of a process."""
    host, port = os.environ["PATIENT_REDIS"].split(":")
    return redis.Redis(host, int(port), decode_responses=True)


def fill(store):
    """The log of some years: a chest every quarter of an hour or so. It is not written in the
    order of time, as the boats hand in their books when they come home."""
    store.delete(LOG)
    for first in range(0, ENTRIES, 10_000):
        numbers = (n * 7919 % ENTRIES for n in range(first, first + 10_000))
        store.zadd(LOG, {"chest-%06d" % n: 1_600_000_000 + n * 900 + n % 7 for n in numbers})


def duty(chest, time):
    """What is due for a chest, and the seal that it got."""
    seal = hashlib.sha256(("%s %d" % (chest, time)).encode())
    goods, pounds = GOODS[seal.digest()[0] % len(GOODS)], 20 + seal.digest()[1] % 90
    rate = 3 + len(goods) * seal.digest()[2] % 11
    return {"chest": chest, "time": int(time), "goods": goods, "pounds": pounds,
            "pence": pounds * rate, "seal": seal.hexdigest()[:16]}


class Office(BaseApplication):
    def __init__(self, address, cured):
        self.cured = cured
        self.settings = {"bind": address, "workers": 2, "worker_class": "gthread", "threads": 32,
                         "keepalive": 120, "backlog": 1024, "graceful_timeout": 1,
                         "when_ready": self.ready, "loglevel": "warning"}
        super().__init__()

    @staticmethod
    def ready(server):
        for listener in server.LISTENERS:
            print("ready %s:%d" % listener.getsockname(), flush=True)

    def load_config(self):
        for name, value in self.settings.items():
            self.cfg.set(name, value)

    def load(self):
        """Runs in each worker, whose threads share a client, and its connections are kept."""
        self.store = client()
        return self.answer

    def entries(self, first):
        """The entries of a page, the newest first, each with its time."""
        if self.cured:
            return self.store.zrevrange(LOG, first, first + PAGE - 1, withscores=True)
        return self.store.zrevrangebyscore(LOG, "+inf", "-inf", first, PAGE, withscores=True)

    def answer(self, environ, start_response):
        page = random.randrange(ENTRIES // PAGE)
        try:
            chests = [duty(*entry) for entry in self.entries(page * PAGE)]
            status, value = "200 OK", {"page": page, "chests": chests,
                                       "pence": sum(c["pence"] for c in chests)}
        except redis.RedisError as e:
            status, value = "503 Service Unavailable", {"error": str(e)}
        body = json.dumps(value).encode() + b"\n"
        start_response(status, [("Content-Type", "application/json"),
                                ("Content-Length", str(len(body)))])
        return [body]


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    fill(client())
    Office(a.address, a.cured).run()
