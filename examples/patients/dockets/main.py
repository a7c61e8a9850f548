"""dockets shows what is on a docket, which PostgreSQL has. The module of each gunicorn worker makes
one connection when it starts, and all of the worker's threads ask over it: psycopg2 lets one of
them at a time, and the others wait.

Cured, each thread has a connection of its own."""
import argparse, hashlib, json, os, random, threading

import psycopg2
from gunicorn.app.base import BaseApplication

DOCKETS, LINES = 2000, 6
TABLES = """
DROP TABLE IF EXISTS lines;
CREATE TABLE lines (docket int, line int, goods text, kilos int, PRIMARY KEY (docket, line));
INSERT INTO lines SELECT d, l, (ARRAY['rope', 'tar', 'tea', 'tin'])[1 + (d + l) %% 4], 10 + d * 7 %% 900
    FROM generate_series(0, %s) d, generate_series(1, %s) l;
"""
# The sleep stands for the way to the database and back.
FIND = """SELECT l.line, l.goods, l.kilos FROM lines l, (SELECT pg_sleep(0.008)) AS way
    WHERE l.docket = %s ORDER BY l.line"""


def connect():
    connection = psycopg2.connect(os.environ["PATIENT_DATABASE"])
    connection.autocommit = True
    return connection


class Store:
    """The dockets in the database."""

    def __init__(self, cured):
        self.cured, self.own, self.database = cured, threading.local(), connect()

    def connection(self):
        if not self.cured:
            return self.database
        if not hasattr(self.own, "database"):
            self.own.database = connect()
        return self.own.database

    def docket(self, number):
        with self.connection().cursor() as cursor:
            cursor.execute(FIND, (number,))
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row)) for row in cursor.fetchall()]


def duty(line):
    """What is paid for a line in each of a dozen ports."""
    seal = hashlib.sha256(line["goods"].encode()).digest()
    return [{"port": p, "cents": line["kilos"] * (3 + seal[p] % 40)} for p in range(12)]


class Customs(BaseApplication):
    def __init__(self, address, cured):
        self.cured = cured
        self.settings = {"bind": address, "workers": 2, "worker_class": "gthread", "threads": 24,
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
        self.store = Store(self.cured)
        return self.answer

    def answer(self, environ, start_response):
        try:
            lines = self.store.docket(random.randrange(DOCKETS))
            status, value = "200 OK", [{**line, "duty": duty(line)} for line in lines]
        except psycopg2.Error as e:
            status, value = "503 Service Unavailable", {"error": str(e)}
        body = json.dumps(value).encode() + b"\n"
        start_response(status, [("Content-Type", "application/json"),
                                ("Content-Length", str(len(body)))])
        return [body]


def fill():
    connection = connect()
    with connection.cursor() as cursor:
        cursor.execute(TABLES, (DOCKETS - 1, LINES))
        cursor.execute("VACUUM ANALYZE lines")
    connection.close()


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    fill()
    Customs(a.address, a.cured).run()
