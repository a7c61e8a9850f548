"""estuaries tells when a ship can pass the bars of an estuary, from what PostgreSQL knows of their
depths. psycopg2's pool is made with 1 and 20, which somebody took for "as many as are needed, and
at most 20"; but a pool of psycopg2 keeps no more than the first number, and closes what is given
back beyond it. So when requests come at the same time, most begin with a new connection.

Cured, the pool is made with 20 and 20, and keeps them all."""
import argparse, contextlib, hashlib, json, os, random

import psycopg2.pool
from gunicorn.app.base import BaseApplication

ESTUARIES, BARS, HOURS = 400, 6, 24
ROUNDS = 60  # of the seal of a pass, which pilots compare
TABLES = """
DROP TABLE IF EXISTS soundings, bars;
CREATE TABLE bars (id int PRIMARY KEY, estuary int NOT NULL, name text NOT NULL);
INSERT INTO bars SELECT n, n %% %(estuaries)s, 'Bar ' || n
    FROM generate_series(0, %(estuaries)s * %(bars)s - 1) n;
CREATE INDEX ON bars (estuary);
CREATE TABLE soundings (bar int PRIMARY KEY REFERENCES bars, metres real NOT NULL);
INSERT INTO soundings SELECT id, 2 + id * 7 %% 40 * 0.1 FROM bars;
"""
DEPTHS = """SELECT name, metres FROM bars JOIN soundings ON bar = id
    WHERE estuary = %s ORDER BY id"""
# A pool holds one connection for each thread at most, and there are fewer threads than this.
MOST = 20


class Chart:
    """What the database knows of the bars."""

    def __init__(self, least):
        self.pool = psycopg2.pool.ThreadedConnectionPool(
            least, MOST, os.environ["PATIENT_DATABASE"], application_name="estuaries")

    @contextlib.contextmanager
    def cursor(self):
        connection = self.pool.getconn()
        try:
            with connection, connection.cursor() as cursor:  # which commits
                yield cursor
        finally:
            self.pool.putconn(connection)

    def bars(self, estuary):
        with self.cursor() as cursor:
            cursor.execute(DEPTHS, (estuary,))
            return cursor.fetchall()


def fill():
    connection = psycopg2.connect(os.environ["PATIENT_DATABASE"])
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(TABLES, {"estuaries": ESTUARIES, "bars": BARS})
        cursor.execute("VACUUM ANALYZE bars, soundings")
    connection.close()


def tide(hour, estuary):
    """How much higher the water is in an hour than at the lowest, in metres."""
    since = (hour * 60 + estuary * 11) % 745  # minutes since it was low; it is again after 745
    return round(4.4 * (1 - abs(since - 372.5) / 372.5), 2)


def passable(draught, estuary, bars):
    """The hours in which there is water enough over each bar, and over all."""
    found = []
    for name, metres in bars:
        hours = [h for h in range(HOURS) if metres + tide(h, estuary) >= draught + 0.5]
        seal = hashlib.pbkdf2_hmac("sha256", name.encode(), b"estuaries", ROUNDS)
        found.append({"bar": name, "metres": round(metres, 1), "hours": hours,
                      "seal": seal.hex()})
    every = set(range(HOURS)).intersection(*(bar["hours"] for bar in found))
    return {"estuary": estuary, "draught": draught, "bars": found, "hours": sorted(every)}


class Pilots(BaseApplication):
    def __init__(self, address, cured):
        self.cured = cured
        self.settings = {"bind": address, "workers": 2, "worker_class": "gthread", "threads": 16,
                         "keepalive": 120, "backlog": 1024, "graceful_timeout": 1,
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
        """Runs in each worker, as a connection must not be shared by two processes."""
        self.chart = Chart(MOST if self.cured else 1)
        return self.answer

    def answer(self, environ, start_response):
        estuary, draught = random.randrange(ESTUARIES), random.randrange(20, 70) / 10
        try:
            status = "200 OK"
            value = passable(draught, estuary, self.chart.bars(estuary))
        except psycopg2.Error as e:
            status, value = "503 Service Unavailable", {"error": str(e)}
        body = json.dumps(value).encode() + b"\n"
        start_response(status, [("Content-Type", "application/json"),
                                ("Content-Length", str(len(body)))])
        return [body]


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    fill()
    Pilots(a.address, a.cured).run()
