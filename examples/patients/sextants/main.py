"""sextants finds where a ship is from the heights of stars. Each gunicorn worker is put on a
processor of its own, but in pre_fork, which gunicorn calls in the process that all workers come
from: so that one is put on a processor, all that it starts may run there only, and the other
processors have nothing to do.

Cured, it is done in post_fork, which gunicorn calls in the worker."""
import argparse, hashlib, json, math, os, random

from gunicorn.app.base import BaseApplication

STARS = [{"star": "Star %d" % n, "declination": math.radians(n * 37 % 160 - 80),
          "hour": math.radians(n * 53 % 360)} for n in range(58)]
SIGHTS, STEPS = 6, 40


def height(star, latitude, longitude):
    """How high a star stands at a place, in radians."""
    angle = star["hour"] + longitude
    return math.asin(math.sin(latitude) * math.sin(star["declination"])
                     + math.cos(latitude) * math.cos(star["declination"]) * math.cos(angle))


def missed(sights, latitude, longitude):
    """How far the heights at a place are from those that were seen."""
    return sum((height(star, latitude, longitude) - seen) ** 2 for star, seen in sights)


def fix(sights, latitude, longitude):
    """The place that fits the sights, from the one that the ship believes to be at."""
    stride = 0.02
    best = missed(sights, latitude, longitude)
    for _ in range(STEPS):
        moves = [(latitude + stride * y, longitude + stride * x)
                 for y, x in ((1, 0), (-1, 0), (0, 1), (0, -1))]
        least, place = min((missed(sights, *move), move) for move in moves)
        if least < best:
            best, (latitude, longitude) = least, place
        else:
            stride /= 2
    return latitude, longitude


def pin(server, worker):
    """Puts a worker on one of the processors that it may run on, in turn."""
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processors[worker.age % len(processors)]})


class Sextants(BaseApplication):
    def __init__(self, address, cured):
        self.settings = {"bind": address, "workers": len(os.sched_getaffinity(0)),
                         "worker_class": "gthread", "threads": 8, "keepalive": 120,
                         "backlog": 2048, "when_ready": self.ready, "loglevel": "warning",
                         "post_fork" if cured else "pre_fork": pin}
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

    def answer(self, environ, start_response):
        latitude, longitude = random.uniform(-1, 1), random.uniform(-3, 3)
        sights = [(star, height(star, latitude, longitude))
                  for star in random.sample(STARS, SIGHTS)]
        found = fix(sights, latitude + random.gauss(0, 0.02), longitude + random.gauss(0, 0.02))
        body = json.dumps({"latitude": round(math.degrees(found[0]), 3),
                           "longitude": round(math.degrees(found[1]), 3),
                           "stars": [star["star"] for star, _ in sights]}).encode() + b"\n"
        start_response("200 OK", [("Content-Type", "application/json"),
                                  ("ETag", '"%s"' % hashlib.sha256(body).hexdigest()),
                                  ("Content-Length", str(len(body)))])
        return [body]


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    Sextants(a.address, a.cured).run()
