"""Tells how a boat lies in the water, from what its sensors last wrote into Redis, and whether it
may take more on board. Each function that asks Redis makes a client of its own, so a request
connects to Redis four times, and each connection is closed after one question.

Cured, a process has one client, whose pool keeps connections.
"""

import argparse
import os
import random

import gunicorn.app.base
import redis

BOATS = 500
SENSORS = ("bow", "stern", "port", "starboard", "midships")
# Each process may have as many requests inside as connections to Redis.
PROCESSES, THREADS = 2, 32


class Readings:
    """What is known of the boats."""

    def __init__(self, address, cured):
        self.host, self.port = address.rsplit(":", 1)
        self.shared = self.connect() if cured else None

    def connect(self):
        return redis.Redis(host=self.host, port=int(self.port), decode_responses=True)

    def client(self):
        return self.shared or self.connect()

    def freeboard(self, boat):
        """How far each gunwale is above the water, in centimetres."""
        found = self.client().hgetall("freeboard:%d" % boat)
        return {sensor: float(found[sensor]) for sensor in SENSORS}

    def least(self, boat):
        """The freeboard that the boat has to keep."""
        return float(self.client().get("least:%d" % boat))

    def cargo(self, boat):
        """What is on board, in kilograms."""
        return [int(weight) for weight in self.client().lrange("cargo:%d" % boat, 0, -1)]

    def seen(self, boat):
        """Counts who asked for the boat."""
        return self.client().incr("seen:%d" % boat)

    def fill(self):
        """Writes readings for all boats."""
        with self.connect().pipeline(transaction=False) as pipeline:
            for boat in range(BOATS):
                heights = {s: 40 + (boat * 7 + n * 13) % 50 for n, s in enumerate(SENSORS)}
                pipeline.hset("freeboard:%d" % boat, mapping=heights)
                pipeline.set("least:%d" % boat, 45)
                pipeline.rpush("cargo:%d" % boat, *(100 + boat * n % 37 for n in range(20)))
            pipeline.execute()


def report(boat, readings):
    freeboard, least = readings.freeboard(boat), readings.least(boat)
    cargo, seen = readings.cargo(boat), readings.seen(boat)
    lines = ["boat %d, asked for %d times" % (boat, seen)]
    for sensor, height in freeboard.items():
        lines.append("%-10s %5.1f cm%s" % (sensor, height, "" if height >= least else " LOW"))
    heel = freeboard["port"] - freeboard["starboard"]
    trim = freeboard["bow"] - freeboard["stern"]
    lines.append("heel %.1f cm, trim %.1f cm" % (heel, trim))
    lines.append("%d pieces of cargo, %d kg" % (len(cargo), sum(cargo)))
    lines.append("may load" if min(freeboard.values()) >= least else "must not load")
    return "\n".join(lines) + "\n"


def ready(server):
    for listener in server.LISTENERS:
        print("ready %s:%d" % listener.getsockname(), flush=True)


class Service(gunicorn.app.base.BaseApplication):
    """gunicorn, with its settings in here rather than in a file."""

    def __init__(self, address, readings):
        self.address, self.readings = address, readings
        super().__init__()

    def load_config(self):
        settings = {
            "bind": self.address,
            "workers": PROCESSES,
            "worker_class": "gthread",
            "threads": THREADS,
            "worker_connections": 1000,
            "keepalive": 60,
            "graceful_timeout": 2,
            "loglevel": "warning",
            "when_ready": ready,
            "worker_tmp_dir": "/dev/shm",
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self):
        return self.answer

    def answer(self, _, start):
        boat = random.randrange(BOATS)
        body = report(boat, self.readings).encode()
        start("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
        return [body]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default="127.0.0.1:18800")
    parser.add_argument("--cured", action="store_true", help="without the disease")
    flags = parser.parse_args()
    address = os.environ.get("PATIENT_REDIS")
    if not address:
        parser.error("PATIENT_REDIS is not set: give it as 127.0.0.1:6379")
    readings = Readings(address, flags.cured)
    readings.fill()
    Service(flags.address, readings).run()


if __name__ == "__main__":
    main()
