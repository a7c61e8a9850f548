"""tides is a control: it has no disease. It shows the tides of a week, for which it asks a gauge
and Redis. Both are asked over connections that are kept, there are threads enough to wait, and the
processors are the bottleneck."""

import argparse, hashlib, json, math, os, random, threading
from http.client import HTTPConnection, HTTPException

import redis
from gunicorn.app.base import BaseApplication

HARBOURS = 300
CONSTITUENTS = [
    (1.0, 12.4206, 0),
    (0.46, 12.0, 1.2),
    (0.19, 12.6583, 0.4),
    (0.14, 23.9345, 2.1),
    (0.1, 25.8193, 0.9),
]  # metres, hours, phase


class Office:
    """The harbours, as a worker's threads see them."""

    def __init__(self):
        host, port = os.environ["PATIENT_REDIS"].split(":")
        self.redis, self.own = (
            redis.Redis(host, int(port), decode_responses=True, socket_timeout=10),
            threading.local(),
        )

    def wind(self):
        """Asks the gauge, over a connection that the thread keeps."""
        if not hasattr(self.own, "gauge"):
            self.own.gauge = HTTPConnection(os.environ["PATIENT_SERVICE"], timeout=10)
        self.own.gauge.request("GET", "/wind")
        return int(self.own.gauge.getresponse().read().split()[0])

    def week(self, harbour):
        known = self.redis.hgetall("harbour:%d" % harbour)
        wind = self.wind()
        level = lambda hour: (
            float(known["mean"])
            + wind / 100
            + sum(
                m * math.cos(2 * math.pi * hour / hours + phase + harbour)
                for m, hours, phase in CONSTITUENTS
            )
        )
        levels = [level(quarter / 4) for quarter in range(7 * 24 * 4)]
        turns = [
            {"hour": i / 4, "metres": round(levels[i], 2), "high": levels[i] > levels[i - 1]}
            for i in range(1, len(levels) - 1)
            if (levels[i] - levels[i - 1]) * (levels[i + 1] - levels[i]) < 0
        ]
        return {"harbour": known["name"], "wind": wind, "turns": turns}


class Tides(BaseApplication):
    def __init__(self, address):
        self.settings = {
            "bind": address,
            "workers": 2 * os.cpu_count(),
            "worker_class": "gthread",
            "threads": 16,
            "keepalive": 120,
            "backlog": 2048,
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
        self.office = Office()
        return self.answer

    def answer(self, environ, start_response):
        try:
            status, value = "200 OK", self.office.week(random.randrange(HARBOURS))
        except (redis.RedisError, HTTPException, OSError) as e:
            status, value = "503 Service Unavailable", {"error": str(e)}
        body = json.dumps(value).encode() + b"\n"
        start_response(
            status,
            [
                ("Content-Type", "application/json"),
                ("Content-Length", str(len(body))),
                ("ETag", '"%s"' % hashlib.sha1(body).hexdigest()),
            ],
        )
        return [body]


def fill():
    host, port = os.environ["PATIENT_REDIS"].split(":")
    with redis.Redis(host, int(port)) as r:
        for n in range(HARBOURS):
            r.hset("harbour:%d" % n, mapping={"name": "Haven %d" % n, "mean": 1.5 + n % 20 / 10})


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true", help="there is nothing to cure")
    a = p.parse_args()
    fill()
    Tides(a.address).run()
