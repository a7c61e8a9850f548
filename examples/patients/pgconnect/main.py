"""pgconnect lists a customer's orders from PostgreSQL. Each request connects, asks twice, and
closes the connection, as the database's module is used in its first example: PostgreSQL starts a
process for each.

Cured, each thread keeps its connection."""

import argparse, contextlib, json, os, random, threading

import psycopg2
from gunicorn.app.base import BaseApplication

CUSTOMERS, ORDERS = 250, 600  # of each
STATES = {"o": "open", "s": "sent", "r": "returned"}

own = threading.local()


def connect():
    database = psycopg2.connect(os.environ["PATIENT_DATABASE"])
    database.autocommit = True
    return database


def fresh():
    """The disease: a connection for one request."""
    return contextlib.closing(connect())


@contextlib.contextmanager
def kept():
    if not hasattr(own, "database"):
        own.database = connect()
    try:
        yield own.database
    except psycopg2.OperationalError:
        del own.database
        raise


def fill():
    with fresh() as database, database.cursor() as c:
        c.execute("DROP TABLE IF EXISTS orders, customers")
        c.execute("CREATE TABLE customers (id int PRIMARY KEY, name text)")
        c.execute(
            "INSERT INTO customers SELECT n, 'Customer ' || n FROM generate_series(0, %s - 1) n",
            (CUSTOMERS,),
        )
        c.execute(
            "CREATE TABLE orders (id serial PRIMARY KEY, customer int, state char, cents int)"
        )
        c.execute(
            "INSERT INTO orders (customer, state, cents) SELECT n %% %s, substr('osr', 1 + n %% 3, 1), n "
            "FROM generate_series(1, %s) n",
            (CUSTOMERS, CUSTOMERS * ORDERS),
        )
        c.execute("CREATE INDEX ON orders (customer)")
        c.execute("ANALYZE")


def orders(session, customer):
    """What is shown of a customer."""
    with session() as database, database.cursor() as c:
        c.execute("SELECT name FROM customers WHERE id = %s", (customer,))
        (name,) = c.fetchone()
        c.execute(
            "SELECT id, state, cents FROM orders WHERE customer = %s ORDER BY id DESC", (customer,)
        )
        rows = [
            {"id": i, "state": STATES[s], "price": "%.2f" % (cents / 100)}
            for i, s, cents in c.fetchall()
        ]
    return {"customer": name, "orders": rows, "open": sum(r["state"] == "open" for r in rows)}


class Shop(BaseApplication):
    def __init__(self, address, cured):
        self.session = kept if cured else fresh
        self.settings = {
            "bind": address,
            "workers": 2,
            "worker_class": "gthread",
            "threads": 16,
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
        return self.answer

    def answer(self, environ, start_response):
        try:
            status, value = "200 OK", orders(self.session, random.randrange(CUSTOMERS))
        except psycopg2.OperationalError as e:
            status, value = "503 Service Unavailable", {"error": str(e)}
        body = json.dumps(value).encode() + b"\n"
        start_response(
            status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        )
        return [body]


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    fill()
    Shop(a.address, a.cured).run()
