"""hatches tells how a hatch fared when it was last inspected. The last digit on its plate is a
check digit, and what is before it is the hatch's id, which the service gets with a division by ten.
In Python 3 that is a float, PostgreSQL takes it for a numeric, and compares it with a column of
integers as such, which the index does not help with: it reads the whole table for each request.

Cured, it is divided by //, which gives an integer."""

import argparse, hashlib, json, os, random, threading

import psycopg2
from gunicorn.app.base import BaseApplication

HATCHES, INSPECTIONS = 2000, 8  # inspections of each hatch
TABLES = """
DROP TABLE IF EXISTS inspections;
CREATE TABLE inspections (hatch int NOT NULL, day date NOT NULL, by text, bar numeric);
INSERT INTO inspections SELECT h, date '2019-01-01' + h %% 90 + i * 180,
    'Inspector ' || h * i %% 37, 1.5 + h * i %% 20 * 0.1
    FROM generate_series(1, %s) i, generate_series(1, %s) h;
CREATE INDEX ON inspections (hatch);
"""
FIND = """SELECT day::text, by, bar::float FROM inspections WHERE hatch = %s
    ORDER BY day DESC"""

own = threading.local()


def plate(hatch):
    """The number on a hatch's plate."""
    return hatch * 10 + hatch % 7


def inspections(number, cured):
    """How the hatch with that plate fared, the last inspection first, over a connection that this
    thread keeps."""
    if not hasattr(own, "database"):
        own.database = psycopg2.connect(os.environ["PATIENT_DATABASE"])
        own.database.autocommit = True
    check = number % 10
    hatch = (number - check) // 10 if cured else (number - check) / 10
    with own.database.cursor() as cursor:
        cursor.execute(FIND, (hatch,))
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row)) for row in cursor.fetchall()]


def seal(inspection):
    """An inspection with what an inspector's signature is compared with, for each of six bolts."""
    text = json.dumps(inspection, sort_keys=True)
    bolts = [hashlib.sha256(("%d %s" % (n, text)).encode()).hexdigest()[:12] for n in range(6)]
    return {**inspection, "tight": inspection["bar"] >= 2, "bolts": bolts}


class Office(BaseApplication):
    def __init__(self, address, cured):
        self.cured = cured
        self.settings = {"bind": address, "workers": 2, "worker_class": "gthread", "threads": 16,
                         "keepalive": 120, "when_ready": self.ready, "loglevel": "warning"}
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
        number = plate(random.randrange(HATCHES) + 1)
        try:
            found = inspections(number, self.cured)
            status, value = "200 OK", {"plate": number, "inspections": [seal(i) for i in found]}
        except psycopg2.Error as e:
            status, value = "503 Service Unavailable", {"error": str(e)}
        body = json.dumps(value).encode() + b"\n"
        start_response(
            status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        )
        return [body]


def fill():
    connection = psycopg2.connect(os.environ["PATIENT_DATABASE"])
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(TABLES, (INSPECTIONS, HATCHES))
        cursor.execute("VACUUM ANALYZE inspections")
    connection.close()


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    fill()
    Office(a.address, a.cured).run()
