"""bowsprits tells what is known of a ship: a gunicorn with two workers of 32 threads, which ask
PostgreSQL. A query takes 10 ms. Each worker has a psycopg2 pool of ten connections, which does
not make a thread wait when all are taken, but raises PoolError, so that the answer is 503.

Cured, the pool has a connection for each thread."""

import argparse, html, json, os, random

import psycopg2
from gunicorn.app.base import BaseApplication
from psycopg2.pool import PoolError, ThreadedConnectionPool

THREADS = 32
SHIPS, CALLS = 500, 80  # what the table has: ships, and the calls of each at a port

SCHEMA = """
CREATE TABLE calls (ship integer, call integer, port text, cargo text, tons integer);
INSERT INTO calls SELECT ship, call, 'Port <' || (ship * 7 + call) % 90 || '>',
    (ARRAY['timber & tar', 'wool', 'rum', 'hemp "A"'])[1 + (ship + call) % 4], ship * call % 700
    FROM generate_series(1, {ships}) AS ship, generate_series(1, {calls}) AS call;
CREATE INDEX ON calls (ship);
-- A customs house in another town is asked for each ship, which takes its time.
CREATE FUNCTION calls_of(wanted integer) RETURNS SETOF calls LANGUAGE sql AS $$
    SELECT pg_sleep(0.01);
    SELECT * FROM calls WHERE ship = wanted ORDER BY call $$;
ANALYZE calls;
""".format(ships=SHIPS, calls=CALLS)


def fill():
    """The table, which is new whenever the service starts."""
    connection = psycopg2.connect(os.environ["PATIENT_DATABASE"])
    with connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS calls CASCADE")
        cursor.execute(SCHEMA)
    connection.close()


class Register:
    """What PostgreSQL knows of ships, over the connections of a worker."""

    def __init__(self, connections):
        self.pool = ThreadedConnectionPool(
            connections, connections, os.environ["PATIENT_DATABASE"]
        )

    def calls(self, ship):
        connection = self.pool.getconn()
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute("SELECT port, cargo, tons FROM calls_of(%s)", (ship,))
                return cursor.fetchall()
        finally:
            self.pool.putconn(connection)


def page(ship, calls):
    rows = [
        "<tr>%s</tr>" % "".join("<td>%s</td>" % html.escape(str(value)) for value in call)
        for call in calls
    ]
    data = json.dumps([{"port": port, "cargo": cargo, "tons": tons} for port, cargo, tons in calls])
    return "<h1>Ship %d</h1><table>%s</table><script>show(%s)</script>\n" % (
        ship,
        "\n".join(rows),
        data,
    )


def site(register):
    def answer(environ, start_response):
        ship = random.randint(1, SHIPS)
        status = "200 OK"
        try:
            body = page(ship, register.calls(ship)).encode()
        except PoolError:
            status, body = "503 Service Unavailable", b"Please try again.\n"
        headers = [("Content-Type", "text/html"), ("Content-Length", str(len(body)))]
        start_response(status, headers)
        return [body]

    return answer


def ready(server):
    for listener in server.LISTENERS:
        print("ready %s:%d" % listener.getsockname(), flush=True)


class Service(BaseApplication):
    def __init__(self, address, cured):
        self.connections = THREADS if cured else 10
        self.settings = {
            "bind": address,
            "workers": 2,
            "worker_class": "gthread",
            "threads": THREADS,
            "when_ready": ready,
            "loglevel": "warning",
            "keepalive": 120,
        }
        super().__init__()

    def load_config(self):
        for name, value in self.settings.items():
            self.cfg.set(name, value)

    def load(self):
        """Called in each worker, which makes its own connections."""
        return site(Register(self.connections))


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    fill()
    Service(a.address, a.cured).run()
