"""pontoons offers the cheapest stays at a pontoon. The query has two series of days, and PostgreSQL
takes each for a thousand rows, where there are a few: so it believes that the query is expensive,
and compiles its expressions to machine code with LLVM for each request, which takes longer than the
query does.

Cured, jit is off in the connections of this service."""
import argparse, datetime, hashlib, json, os, random, threading

import psycopg2
from gunicorn.app.base import BaseApplication

# With more berths or stays the estimate is above 500,000, from where on LLVM optimizes too.
PONTOONS, BERTHS, STAYS = 300, 10, 16
DAYS = 280
TABLES = """
DROP TABLE IF EXISTS berths;
CREATE TABLE berths (pontoon int, berth int, cents int, PRIMARY KEY (pontoon, berth));
INSERT INTO berths SELECT p, b, 900 + (p + b * 37) %% 500
    FROM generate_series(0, %s) p, generate_series(1, %s) b;
"""
FIND = """SELECT b.berth, a.day, d.day, b.cents
    FROM berths b, generate_series(%(from)s::timestamp, %(till)s, interval '1 day') a(day),
        generate_series(a.day + '1 day', a.day + '7 days', interval '1 day') d(day)
    WHERE b.pontoon = %(pontoon)s ORDER BY b.cents LIMIT %(stays)s"""


def connect(cured):
    options = "-c jit=off" if cured else None
    connection = psycopg2.connect(os.environ["PATIENT_DATABASE"], options=options)
    connection.autocommit = True
    return connection


class Store:
    """The pontoons in the database. Each thread has a connection of its own."""

    def __init__(self, cured):
        self.cured, self.own = cured, threading.local()

    def stays(self, pontoon, first):
        """The cheapest stays that begin in the month after the first."""
        if not hasattr(self.own, "database"):
            self.own.database = connect(self.cured)
        last = first + datetime.timedelta(days=30)
        with self.own.database.cursor() as cursor:
            cursor.execute(FIND, {"from": first, "till": last, "pontoon": pontoon, "stays": STAYS})
            return cursor.fetchall()


def offer(berth, arrival, departure, cents):
    """What a stay costs boats of some lengths, with a seal that nobody can change."""
    nights = (departure - arrival).days
    stay = "%d from %s to %s" % (berth, arrival.date(), departure.date())
    prices = []
    for metres in range(6, 44):
        seal = hashlib.sha256(("%s, %d metres" % (stay, metres)).encode()).hexdigest()
        prices.append({"metres": metres, "cents": cents * nights * metres // 10, "seal": seal})
    return {"stay": stay, "nights": nights, "prices": prices}


class Harbour(BaseApplication):
    def __init__(self, address, cured):
        self.cured = cured
        self.settings = {"bind": address, "workers": 2, "worker_class": "gthread", "threads": 12,
                         "keepalive": 120, "backlog": 2048, "graceful_timeout": 3,
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
        self.store = Store(self.cured)
        return self.answer

    def answer(self, environ, start_response):
        first = datetime.date(2026, 3, 1) + datetime.timedelta(days=random.randrange(DAYS))
        try:
            stays = self.store.stays(random.randrange(PONTOONS), first)
            status, value = "200 OK", [offer(*stay) for stay in stays]
        except psycopg2.Error as e:
            status, value = "503 Service Unavailable", {"error": str(e)}
        body = json.dumps(value).encode() + b"\n"
        start_response(status, [("Content-Type", "application/json"),
                                ("Content-Length", str(len(body)))])
        return [body]


def fill():
    connection = connect(True)
    with connection.cursor() as cursor:
        cursor.execute(TABLES, (PONTOONS - 1, BERTHS))
        cursor.execute("VACUUM ANALYZE berths")
    connection.close()


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    fill()
    Harbour(a.address, a.cured).run()
