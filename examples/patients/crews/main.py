"""crews finds a sailor by an e-mail address, however its letters are written: it looks for
lower(email), and the table has an index on email, which does not help with that. So PostgreSQL
reads all rows for each request, and turns each of their addresses into small letters.

Cured, the index is on lower(email)."""
import argparse, hashlib, json, os, random, threading

import psycopg2
from gunicorn.app.base import BaseApplication

SAILORS = 16000
TABLES = """
DROP TABLE IF EXISTS sailors;
CREATE TABLE sailors (id int PRIMARY KEY, email text NOT NULL, name text, rank text, joined date);
INSERT INTO sailors SELECT n, 'Sailor.' || n || '@Example' || n %% 7 || '.org', 'Sailor ' || n,
    (ARRAY['mate', 'cook', 'bosun', 'engineer'])[1 + n %% 4], date '2001-01-01' + n %% 8000
    FROM generate_series(1, %s) n;
"""
PLAIN = "CREATE INDEX ON sailors (email)"
LOWER = "CREATE INDEX ON sailors (lower(email))"
FIND = "SELECT id, email, name, rank, joined::text FROM sailors WHERE lower(email) = lower(%s)"

own = threading.local()


def find(email):
    """The sailor with an address, over a connection that this thread keeps."""
    if not hasattr(own, "database"):
        own.database = psycopg2.connect(os.environ["PATIENT_DATABASE"])
        own.database.autocommit = True
    with own.database.cursor() as cursor:
        cursor.execute(FIND, (email,))
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row)) for row in cursor.fetchall()]


def pay(sailor):
    """What a sailor earns in each month of a year."""
    seal = hashlib.sha256(sailor["name"].encode()).digest()
    days = [20 + seal[m] % 11 for m in range(12)]
    cents = 9000 + sailor["id"] % 900
    return [{"month": m, "days": d, "cents": d * cents} for m, d in enumerate(days, 1)]


class Office(BaseApplication):
    def __init__(self, address):
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
        n = random.randrange(SAILORS) + 1
        try:
            found = find("sailor.%d@EXAMPLE%d.org" % (n, n % 7))
            status, value = "200 OK", [{**sailor, "pay": pay(sailor)} for sailor in found]
        except psycopg2.Error as e:
            status, value = "503 Service Unavailable", {"error": str(e)}
        body = json.dumps(value).encode() + b"\n"
        start_response(status, [("Content-Type", "application/json"),
                                ("Content-Length", str(len(body)))])
        return [body]


def fill(index):
    connection = psycopg2.connect(os.environ["PATIENT_DATABASE"])
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(TABLES, (SAILORS,))
        cursor.execute(index)
        cursor.execute("VACUUM ANALYZE sailors")
    connection.close()


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    fill(LOWER if a.cured else PLAIN)
    Office(a.address).run()
