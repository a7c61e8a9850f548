"""Tells a rigger how much longer the lines of a vessel may be used, from the inspections that are
kept in PostgreSQL for each line. Inspections are found by the vessel that they were made on, and
there is no index on that column, so PostgreSQL reads those of the whole fleet for each request.

Cured, there is an index on the column with the vessel.
"""

import argparse
import hashlib
import os
import queue
import random

import gunicorn.app.base
import psycopg2

VESSELS, INSPECTIONS = 1200, 24
# Each thread of a process has a connection to PostgreSQL, so none waits for one.
PROCESSES, THREADS = 2, 16
# Each report has a seal, and who wants to forge one has to hash this often for each attempt.
ROUNDS = 200

TABLES = """DROP TABLE IF EXISTS inspections, materials;
CREATE TABLE materials (id int PRIMARY KEY, name text NOT NULL, breaking int NOT NULL);
CREATE TABLE inspections (
    id bigserial PRIMARY KEY, vessel int NOT NULL, line text NOT NULL,
    material int NOT NULL REFERENCES materials, day date NOT NULL, wear real NOT NULL);
INSERT INTO materials VALUES (0, 'hemp', 40), (1, 'nylon', 85), (2, 'polyester', 75),
    (3, 'aramid', 160);
INSERT INTO inspections (vessel, line, material, day, wear)
    SELECT n %% %(vessels)s, 'bowline ' || n / %(vessels)s %% 6, n / %(vessels)s %% 6 %% 4,
        date '2020-01-01' + n / %(vessels)s * 30, (n / %(vessels)s + n %% 7) / 60.0
    FROM generate_series(0, %(vessels)s * %(each)s - 1) n;
ANALYZE materials, inspections"""

BY_VESSEL = "CREATE INDEX inspections_vessel ON inspections (vessel)"

OF_VESSEL = """SELECT i.line, m.name, m.breaking, i.day, i.wear
    FROM inspections i JOIN materials m ON m.id = i.material
    WHERE i.vessel = %s ORDER BY i.line, i.day"""


def fill(database, cured):
    """Writes the inspections of the fleet."""
    connection = psycopg2.connect(database)
    with connection, connection.cursor() as cursor:
        cursor.execute(TABLES, {"vessels": VESSELS, "each": INSPECTIONS})
        if cured:
            cursor.execute(BY_VESSEL)
    connection.close()


class Inspections:
    """What was found on vessels, by connections that are kept."""

    def __init__(self, database):
        self.free = queue.LifoQueue()
        for _ in range(THREADS):
            connection = psycopg2.connect(database)
            connection.autocommit = True
            self.free.put(connection)

    def of(self, vessel):
        """What was found on a vessel, line by line, the oldest first."""
        connection = self.free.get()
        try:
            with connection.cursor() as cursor:
                cursor.execute(OF_VESSEL, (vessel,))
                return cursor.fetchall()
        finally:
            self.free.put(connection)


def days_left(found):
    """How many days after its last inspection a line is worn by half, if it goes on as before."""
    first = found[0][3]
    points = [((day - first).days, wear) for *_, day, wear in found]
    middle = sum(day for day, _ in points) / len(points)
    mean = sum(wear for _, wear in points) / len(points)
    spread = sum((day - middle) ** 2 for day, _ in points)
    slope = sum((day - middle) * (wear - mean) for day, wear in points) / spread
    last_day, last_wear = points[-1]
    return max(0, round((0.5 - last_wear) / slope))


def report(vessel, found):
    """The report on a vessel, a line of text for each of its lines, with a seal."""
    lines = {}
    for row in found:
        lines.setdefault(row[0], []).append(row)
    text = ["vessel %d, %d inspections" % (vessel, len(found))]
    for line, history in lines.items():
        _, material, breaking, day, wear = history[-1]
        holds = breaking * (1 - wear)
        text.append("%-10s %-10s holds %5.1f kN, seen on %s, replace in %d days"
                    % (line, material, holds, day.isoformat(), days_left(history)))
    body = "\n".join(text)
    seal = hashlib.pbkdf2_hmac("sha256", body.encode(), b"rigger", ROUNDS)
    return "%s\nseal %s\n" % (body, seal.hex())


def ready(server):
    for listener in server.LISTENERS:
        print("ready %s:%d" % listener.getsockname(), flush=True)


class Service(gunicorn.app.base.BaseApplication):
    """gunicorn, with its settings in here rather than in a file."""

    def __init__(self, address, database):
        self.address, self.database = address, database
        self.inspections = None
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
            "when_ready": ready,
            "worker_tmp_dir": "/dev/shm",
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self):
        """Prepares a worker, which is a process of its own, to answer."""
        self.inspections = Inspections(self.database)
        return self.answer

    def answer(self, _, start):
        vessel = random.randrange(VESSELS)
        body = report(vessel, self.inspections.of(vessel)).encode()
        start("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
        return [body]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default="127.0.0.1:18800")
    parser.add_argument("--cured", action="store_true", help="without the disease")
    parser.add_argument("--debug", action="store_true", help="ignored: nothing to show")
    flags = parser.parse_args()
    database = os.environ.get("PATIENT_DATABASE")
    if not database:
        parser.error("PATIENT_DATABASE is not set: give it as postgres://user@127.0.0.1/postgres")
    fill(database, flags.cured)
    Service(flags.address, database).run()


if __name__ == "__main__":
    main()
