"""rudders tells when the steering gear of a ship has to be surveyed, from what Redis knows of it.
The function that gives a client of Redis makes a new one each time, and with it a new pool: so each
request connects, chooses its database, asks, and leaves the connection to be closed.

Cured, the function remembers its client, and the pool keeps the connections."""
import argparse, functools, hashlib, json, os, random

import redis
from gunicorn.app.base import BaseApplication

SHIPS, DATABASE, SHOWN = 3000, 2, 6
PARTS = "stock", "bearing", "pintle", "quadrant", "ram", "pump"


def client():
    """A client of Redis. It may be used by all threads of a process."""
    host, port = os.environ["PATIENT_REDIS"].split(":")
    return redis.Redis(host, int(port), DATABASE, client_name="rudders", decode_responses=True)


def fill(store):
    """The hours that each part of a ship's steering gear has run."""
    pipe = store.pipeline(transaction=False)
    for ship in range(SHIPS):
        hours = {part: (ship * 37 + i * 411) % 9000 for i, part in enumerate(PARTS)}
        pipe.hset("rudder:%d" % ship, mapping=hours)
    pipe.execute()


def due(part, hours):
    """When a part is to be surveyed, by its hours and how it was found the last times."""
    seal = hashlib.sha256(b"%s %d" % (part.encode(), hours)).digest()
    left = [(9000 - hours) * (60 + worn % 40) // 100 for worn in seal[:SHOWN]]
    return {"part": part, "hours": hours, "left": min(left), "seal": seal.hex()}


class Survey(BaseApplication):
    def __init__(self, address, client):
        self.client = client
        self.settings = {"bind": address, "workers": 2, "worker_class": "gthread", "threads": 16,
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
        return self.answer

    def parts(self, ship):
        hours = self.client().hgetall("rudder:%d" % ship)
        found = [due(part, int(run)) for part, run in hours.items()]
        return {"ship": ship, "parts": sorted(found, key=lambda part: part["left"])}

    def answer(self, environ, start_response):
        try:
            status, value = "200 OK", self.parts(random.randrange(SHIPS))
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
    Survey(a.address, functools.cache(client) if a.cured else client).run()
