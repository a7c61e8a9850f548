"""Tells a shipyard how worn the bobstays of a vessel are, and when each has to be replaced, from
what inspectors measured. Measurements are in PostgreSQL, and there is no index on the column that
says which vessel one belongs to, so that each request has PostgreSQL read all measurements of all
vessels.

Cured, there is an index on that column.
"""

import argparse
import collections
import multiprocessing
import os
import random
import signal
import threading

import gunicorn.app.base
import psycopg2

VESSELS = 1200
# A stay has to be replaced when so many tenths of a millimetre of it are gone.
WORN_OUT = 80
# Each thread has a connection of its own, which it keeps.
PROCESSES, THREADS = 2, 24

# Inspectors go from vessel to vessel, so the measurements of one lie far apart.
TABLES = """
DROP TABLE IF EXISTS measurements, vessels;
CREATE TABLE vessels (id int PRIMARY KEY, name text NOT NULL, yard text NOT NULL);
CREATE TABLE measurements (
    id serial PRIMARY KEY, vessel int NOT NULL, stay text NOT NULL,
    day int NOT NULL, wear int NOT NULL, inspector text NOT NULL);
INSERT INTO vessels
    SELECT n, 'vessel ' || n, 'yard ' || n %% 12 FROM generate_series(0, %(vessels)s - 1) n;
INSERT INTO measurements (vessel, stay, day, wear, inspector)
    SELECT v, stay, visit * 90 + v %% 30,
        visit * (3 + (v + ascii(stay)) %% 5) + v * visit %% 4, 'inspector ' || v %% 40
    FROM generate_series(1, 8) visit, generate_series(0, %(vessels)s - 1) v,
        unnest(ARRAY['inner', 'middle', 'outer']) stay;
"""
BY_VESSEL = "CREATE INDEX measurements_vessel ON measurements (vessel)"

VESSEL = "SELECT name, yard FROM vessels WHERE id = %s"
MEASUREMENTS = "SELECT stay, day, wear FROM measurements WHERE vessel = %s ORDER BY stay, day"


class Records:
    """What the shipyard knows. Any thread may ask."""

    def __init__(self, address):
        self.address = address
        self.of_thread = threading.local()

    def connect(self):
        connection = psycopg2.connect(self.address)
        connection.autocommit = True
        return connection

    def vessel(self, number):
        """Its name, its yard, and for each stay the days and the wear that was measured."""
        if not hasattr(self.of_thread, "connection"):
            self.of_thread.connection = self.connect()
        with self.of_thread.connection.cursor() as cursor:
            cursor.execute(VESSEL, (number,))
            name, yard = cursor.fetchone()
            cursor.execute(MEASUREMENTS, (number,))
            stays = collections.defaultdict(list)
            for stay, day, wear in cursor:
                stays[stay].append((day, wear))
        return name, yard, stays

    def fill(self, cured):
        """Makes the tables."""
        connection = self.connect()
        with connection.cursor() as cursor:
            cursor.execute(TABLES, {"vessels": VESSELS})
            if cured:
                cursor.execute(BY_VESSEL)
            cursor.execute("VACUUM ANALYZE vessels")
            cursor.execute("VACUUM ANALYZE measurements")
        connection.close()


def trend(measured):
    """The straight line through what was measured: wear on day 0, and wear a day."""
    days, wears = zip(*measured)
    day, wear = sum(days) / len(days), sum(wears) / len(wears)
    spread = sum((d - day) ** 2 for d in days)
    slope = sum((d - day) * (w - wear) for d, w in measured) / spread
    return wear - slope * day, slope


def report(name, yard, stays):
    lines = ["%s of %s" % (name, yard)]
    for stay, measured in stays.items():
        first, daily = trend(measured)
        furthest = max(abs(first + daily * day - wear) for day, wear in measured)
        lines.append(
            "%-7s worn %d, %.3f a day (within %.1f), replace on day %d"
            % (stay, measured[-1][1], daily, furthest, (WORN_OUT - first) / daily)
        )
    return "\n".join(lines) + "\n"


class Service(gunicorn.app.base.BaseApplication):
    """gunicorn, with its settings in here rather than in a file."""

    def __init__(self, address, records):
        self.address, self.records = address, records
        self.begun = multiprocessing.Value("i", 0)
        super().__init__()

    def load_config(self):
        settings = {
            "bind": self.address,
            "workers": PROCESSES,
            "worker_class": "gthread",
            "threads": THREADS,
            "worker_connections": 1000,
            "keepalive": 60,
            "graceful_timeout": 1,
            "loglevel": "warning",
            "post_worker_init": self.worker_begins,
            "child_exit": self.worker_ended,
            "worker_tmp_dir": "/dev/shm",
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def worker_begins(self, worker):
        """The last worker to begin says that the service is ready."""
        with self.begun.get_lock():
            self.begun.value += 1
            if self.begun.value == PROCESSES:
                print("ready %s:%d" % worker.sockets[0].getsockname(), flush=True)

    def worker_ended(self, server, _):
        """Without one of its workers the service ends."""
        os.kill(server.pid, signal.SIGTERM)

    def load(self):
        return self.answer

    def answer(self, _, start):
        body = report(*self.records.vessel(random.randrange(VESSELS))).encode()
        start("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
        return [body]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default="127.0.0.1:18800")
    parser.add_argument("--cured", action="store_true", help="without the disease")
    flags = parser.parse_args()
    address = os.environ.get("PATIENT_DATABASE")
    if not address:
        parser.error("PATIENT_DATABASE is not set: give it as postgres://user@127.0.0.1/postgres")
    records = Records(address)
    records.fill(flags.cured)
    Service(flags.address, records).run()


if __name__ == "__main__":
    main()
