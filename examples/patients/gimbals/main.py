"""Tells how a ship's lamps, stoves and compasses will swing in their gimbals today. It asks the
weather service for the sea on the ship's course, which takes 20 ms, and works out from it how far
the ship rolls and how far each instrument follows her. gunicorn runs two workers of four threads
each. Nearly all that a thread does is to wait for the weather service, so eight requests at once
are all that is ever under way: the others wait for a thread, while the processors have little to
do.

Cured, each worker has 48 threads.
"""

import argparse
import http.client
import math
import multiprocessing
import os
import random
import signal
import threading
import zlib

import gunicorn.app.base

WORKERS = 2
THREADS, THREADS_CURED = 4, 48
SHIPS = 400
# Each instrument's own period in seconds, and how much its bearings damp it.
INSTRUMENTS = {
    "compass": (2.1, 0.30),
    "chronometer": (1.4, 0.22),
    "barometer": (1.8, 0.18),
    "lamp": (1.1, 0.08),
    "stove": (2.6, 0.12),
}
# The waves that the sea is made of, in radians a second.
STEP = 0.06
WAVES = [0.3 + STEP * n for n in range(24)]


class Weather:
    """The weather service. Each thread keeps a connection of its own to it."""

    def __init__(self, address):
        self.address, self.kept = address, threading.local()

    def sea(self, ship):
        """The height of the waves in metres, and the angle from which they come."""
        drawn = zlib.crc32(self.ask("/sea?ship=%d" % ship) + b"%d" % ship)
        return 0.5 + drawn % 60 / 10, math.radians(drawn // 60 % 180)

    def ask(self, path):
        if not hasattr(self.kept, "connection"):
            self.kept.connection = http.client.HTTPConnection(self.address, timeout=5)
        try:
            self.kept.connection.request("GET", path)
            answer = self.kept.connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            self.kept.connection.close()
            raise
        if answer.status != 200:
            raise OSError("the weather service answered %d" % answer.status)
        return body


def response(wave, period, damping):
    """How much of a swing at a wave's pace comes through to what has a period of its own."""
    ratio = wave * period / (2 * math.pi)
    return 1 / math.hypot(1 - ratio * ratio, 2 * damping * ratio)


def rolls(height, angle, period):
    """How far the ship rolls in each of the waves, in degrees."""
    peak = 0.4 * math.sqrt(9.81 / height)
    found = []
    for wave in WAVES:
        drop = (peak / wave) ** 4
        energy = 0.3125 * height * height * drop / wave * math.exp(-1.25 * drop) * STEP
        slope = math.sqrt(2 * energy) * wave * wave / 9.81
        roll = slope * math.sin(angle) * response(wave, period, 0.15)
        found.append(math.degrees(roll))
    return found


def together(swings):
    """The significant swing, of many that know nothing of each other."""
    return 2 * math.sqrt(sum(swing * swing for swing in swings))


def report(ship, weather):
    height, angle = weather.sea(ship)
    ship_rolls = rolls(height, angle, 8 + ship % 7)
    lines = [
        "ship %d, waves of %.1f m from %.0f degrees" % (ship, height, math.degrees(angle)),
        "she rolls %.1f degrees" % together(ship_rolls),
    ]
    for name, (period, damping) in INSTRUMENTS.items():
        swing = together(
            roll * (response(wave, period, damping) - 1) for roll, wave in zip(ship_rolls, WAVES)
        )
        lines.append("%-12s %5.1f degrees%s" % (name, swing, " LASH" if swing > 1 else ""))
    return "\n".join(lines) + "\n"


class Service(gunicorn.app.base.BaseApplication):
    """gunicorn, with its settings in here rather than in a file."""

    def __init__(self, address, threads, weather):
        self.address, self.threads, self.weather = address, threads, weather
        self.started = multiprocessing.Value("i", 0)
        super().__init__()

    def load_config(self):
        settings = {
            "bind": self.address,
            "workers": WORKERS,
            "worker_class": "gthread",
            "threads": self.threads,
            "worker_connections": 1000,
            "keepalive": 60,
            "graceful_timeout": 1,
            "loglevel": "warning",
            "post_worker_init": self.ready,
            "child_exit": end,
            "worker_tmp_dir": "/dev/shm",
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def ready(self, worker):
        """Says where the service listens, once the last of the workers does."""
        with self.started.get_lock():
            self.started.value += 1
            if self.started.value == WORKERS:
                print("ready %s:%d" % worker.sockets[0].getsockname(), flush=True)

    def load(self):
        return self.answer

    def answer(self, _, start):
        status, body = "200 OK", ""
        try:
            status, body = "200 OK", report(random.randrange(SHIPS), self.weather)
        except (OSError, http.client.HTTPException) as error:
            status, body = "503 Service Unavailable", "%s\n" % error
        body = body.encode()
        start(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
        return [body]


def end(server, _):
    """Ends the service when one of its workers has ended."""
    os.kill(server.pid, signal.SIGTERM)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default="127.0.0.1:18800")
    parser.add_argument("--cured", action="store_true", help="without the disease")
    parser.add_argument("--debug", help="ignored: there is nothing to look at inside")
    flags = parser.parse_args()
    address = os.environ.get("PATIENT_SERVICE")
    if not address:
        parser.error("PATIENT_SERVICE is not set: give it as 127.0.0.1:8080")
    threads = THREADS_CURED if flags.cured else THREADS
    Service(flags.address, threads, Weather(address)).run()


if __name__ == "__main__":
    main()
