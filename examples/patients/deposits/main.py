"""deposits takes a deposit for a boat. The transaction is begun, the boat is read and written down,
and then the bank is asked, which takes 30 ms, before the transaction is committed. A connection to
PostgreSQL is kept that long, idle in its transaction, and each worker has a pool of four.

Cured, the bank is asked before the transaction is begun."""

import argparse, contextlib, hashlib, json, os, random, threading
from http.client import HTTPConnection, HTTPException

import psycopg2
from gunicorn.app.base import BaseApplication
from psycopg2.pool import ThreadedConnectionPool

BOATS, POOL = 2000, 4
TABLES = """
CREATE TABLE IF NOT EXISTS boats (id int PRIMARY KEY, name text, cents int);
CREATE TABLE IF NOT EXISTS deposits (boat int, cents int, receipt text);
INSERT INTO boats SELECT n, 'Boat ' || n, 5000 + n * 37 %% 9000 FROM generate_series(1, %s) n ON CONFLICT DO NOTHING;
"""


class Harbour:
    """The boats, as a worker's threads see them."""

    def __init__(self, bank_first):
        self.pool = ThreadedConnectionPool(POOL, POOL, os.environ["PATIENT_DATABASE"])
        self.free = threading.BoundedSemaphore(
            POOL
        )  # as the pool raises an error where it should wait
        self.bank_first, self.own = bank_first, threading.local()

    @contextlib.contextmanager
    def transaction(self):
        with self.free:
            connection = self.pool.getconn()
            try:
                with connection, connection.cursor() as cursor:  # commits, or rolls back
                    yield cursor
            finally:
                self.pool.putconn(connection)

    def pay(self, boat):
        """Asks the bank, over a connection that the thread keeps."""
        if not hasattr(self.own, "bank"):
            self.own.bank = HTTPConnection(os.environ["PATIENT_SERVICE"], timeout=10)
        self.own.bank.request("GET", "/pay?boat=%d" % boat)
        return hashlib.sha1(self.own.bank.getresponse().read()).hexdigest()

    def deposit(self, boat):
        receipt = self.pay(boat) if self.bank_first else None
        with self.transaction() as cursor:
            cursor.execute("SELECT name, cents FROM boats WHERE id = %s", (boat,))
            name, cents = cursor.fetchone()
            if receipt is None:
                receipt = self.pay(boat)
            cursor.execute("INSERT INTO deposits VALUES (%s, %s, %s)", (boat, cents // 4, receipt))
        return {"boat": name, "deposit": cents // 4, "receipt": receipt, "due": due(cents)}


def due(cents):
    """What is to be paid in each month."""
    return [{"month": m, "cents": cents * 3 // 48 + m % 2} for m in range(1, 13)]


class Office(BaseApplication):
    def __init__(self, address, cured):
        self.cured = cured
        self.settings = {
            "bind": address,
            "workers": 2,
            "worker_class": "gthread",
            "threads": 24,
            "keepalive": 120,
            "when_ready": self.ready,
            "loglevel": "warning",
        }
        super().__init__()

    @staticmethod
    def ready(server):
        for listener in server.LISTENERS:
            print("ready %s:%d" % listener.getsockname(), flush=True)

    def load_config(self):
        for name, value in self.settings.items():
            self.cfg.set(name, value)

    def load(self):
        self.harbour = Harbour(self.cured)
        return self.answer

    def answer(self, environ, start_response):
        try:
            status, value = "200 OK", self.harbour.deposit(random.randrange(BOATS) + 1)
        except (psycopg2.Error, HTTPException, OSError) as e:
            status, value = "503 Service Unavailable", {"error": str(e)}
        body = json.dumps(value).encode() + b"\n"
        start_response(
            status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        )
        return [body]


def fill():
    connection = psycopg2.connect(os.environ["PATIENT_DATABASE"])
    with connection, connection.cursor() as cursor:
        cursor.execute(TABLES, (BOATS,))
    connection.close()


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    fill()
    Office(a.address, a.cured).run()
