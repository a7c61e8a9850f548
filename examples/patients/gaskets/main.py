"""Offers sets of gaskets for marine engines: asks the store how many are left, fits what has to be
made onto sheets, and tells the price. It runs under gunicorn with two processes of six threads.
A thread is taken until its answer is written, and for nearly all of that time it only waits for
the store. So twelve requests are inside at once, and all others queue while the processors idle.

Cured, a process has 32 threads.
"""

import argparse
import http.client
import multiprocessing
import os
import random
import signal
import threading

import gunicorn.app.base

ENGINES = 400
PROCESSES = 2
SHEET = 350  # millimetres, in both directions
PRICE_OF_SHEET, PRICE_OF_CUT = 38.50, 0.012


class Store:
    """What is on the shelves, as the service of the store tells it."""

    def __init__(self, address):
        self.address = address
        self.kept = threading.local()

    def left(self, engine):
        """What the store answers for the gaskets of an engine. Each thread keeps a connection, and
        opens another when the store has closed it."""
        connection = getattr(self.kept, "connection", None)
        if connection is not None:
            try:
                return self.ask(connection, engine)
            except (ConnectionError, http.client.HTTPException):
                connection.close()
        self.kept.connection = http.client.HTTPConnection(self.address, timeout=10)
        return self.ask(self.kept.connection, engine)

    @staticmethod
    def ask(connection, engine):
        connection.request("GET", "/gaskets/%d" % engine)
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status != 200:
            raise http.client.HTTPException("the store answered %d" % answer.status)
        return text.strip()


def gaskets(engine):
    """The sizes of an engine's gaskets, in millimetres."""
    dice = random.Random(engine)
    return [(dice.randrange(20, 160), dice.randrange(20, 110)) for _ in range(40)]


def shelves(sizes):
    """Lays gaskets in rows, the highest first, and returns the height of each row."""
    heights, room = [], []
    for width, height in sorted(sizes, key=lambda size: -size[1]):
        for row, free in enumerate(room):
            if width <= free:
                room[row] -= width
                break
        else:
            heights.append(height)
            room.append(SHEET - width)
    return heights


def sheets(heights):
    """How many sheets the rows need."""
    free = []
    for height in heights:
        for sheet, left in enumerate(free):
            if height <= left:
                free[sheet] -= height
                break
        else:
            free.append(SHEET - height)
    return len(free)


def offer(engine, store):
    sizes = gaskets(engine)
    rows = shelves(sizes)
    count = sheets(rows)
    cut = sum(2 * (width + height) for width, height in sizes)
    lines = [
        "engine %d: %d gaskets, %s" % (engine, len(sizes), store.left(engine)),
        "rows: %d, sheets: %d, to cut: %.1f m" % (len(rows), count, cut / 1000),
        "%.2f for the set" % (count * PRICE_OF_SHEET + cut * PRICE_OF_CUT),
    ]
    return "\n".join(lines) + "\n"


class Service(gunicorn.app.base.BaseApplication):
    """gunicorn, with its settings in here rather than in a file."""

    def __init__(self, address, threads, store):
        self.address, self.threads, self.store = address, threads, store
        self.begun = multiprocessing.Value("i", 0)
        super().__init__()

    def load_config(self):
        settings = {
            "bind": self.address,
            "workers": PROCESSES,
            "worker_class": "gthread",
            "threads": self.threads,
            "keepalive": 60,
            "graceful_timeout": 1,
            "loglevel": "warning",
            "post_worker_init": self.ready,
            "child_exit": self.end,
            "worker_tmp_dir": "/dev/shm",
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def ready(self, worker):
        """The last process that begins tells where the service listens."""
        with self.begun.get_lock():
            self.begun.value += 1
            if self.begun.value == PROCESSES:
                print("ready %s:%d" % worker.sockets[0].getsockname(), flush=True)

    @staticmethod
    def end(_, __):
        """When a process has ended, all do."""
        os.kill(os.getpid(), signal.SIGTERM)

    def load(self):
        return self.answer

    def answer(self, _, start):
        body = offer(random.randrange(ENGINES), self.store).encode()
        start("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
        return [body]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default="127.0.0.1:18800")
    parser.add_argument("--cured", action="store_true", help="without the disease")
    flags = parser.parse_args()
    store = os.environ.get("PATIENT_SERVICE")
    if not store:
        parser.error("PATIENT_SERVICE is not set: give it as 127.0.0.1:8080")
    Service(flags.address, 32 if flags.cured else 6, Store(store)).run()


if __name__ == "__main__":
    main()
