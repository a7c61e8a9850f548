"""convoys shows where each ship of a convoy was last seen. The query asks for DISTINCT ON (ship),
so PostgreSQL reads and sorts all that was ever reported of these ships for each request, and keeps
one row of each.

Cured, the query asks for the newest report of each ship with LATERAL and LIMIT 1, which the index
that there is finds at once."""
import argparse, contextlib, hashlib, json, os, queue, random, signal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg2

CONVOYS, SHIPS, REPORTS = 8, 15, 80  # ships in each convoy, and reports of each ship
CONNECTIONS, PROCESSES = 16, 2
KEY, ROUNDS = b"convoys", 25  # of the seals
TABLES = """
DROP TABLE IF EXISTS reports, ships;
CREATE TABLE ships (id int PRIMARY KEY, convoy int NOT NULL, name text NOT NULL);
INSERT INTO ships SELECT n, n %% %(convoys)s, 'Ship ' || n
    FROM generate_series(0, %(convoys)s * %(ships)s - 1) n;
CREATE INDEX ON ships (convoy);
CREATE TABLE reports (ship int NOT NULL REFERENCES ships, seen timestamp NOT NULL,
    east real NOT NULL, north real NOT NULL);
INSERT INTO reports SELECT ship, timestamp '2026-01-01' + n * interval '10 minutes' +
    ship * interval '1 second', -40 + n * 0.01 + ship, 50 + (n * 7 + ship) %% 90 * 0.1
    FROM generate_series(1, %(reports)s) n, generate_series(0, %(convoys)s * %(ships)s - 1) ship;
CREATE INDEX ON reports (ship, seen DESC);
"""
DISTINCT = """SELECT DISTINCT ON (r.ship) s.name, r.seen::text, r.east, r.north
    FROM ships s JOIN reports r ON r.ship = s.id
    WHERE s.convoy = %s ORDER BY r.ship, r.seen DESC"""
LATERAL = """SELECT s.name, r.seen::text, r.east, r.north
    FROM ships s, LATERAL (SELECT * FROM reports WHERE ship = s.id ORDER BY seen DESC LIMIT 1) r
    WHERE s.convoy = %s ORDER BY r.ship"""


class Chart:
    """Where the ships are, by the reports in the database."""

    def __init__(self, query):
        self.query, self.free = query, queue.SimpleQueue()
        for _ in range(CONNECTIONS):
            self.free.put(connect())

    @contextlib.contextmanager
    def cursor(self):
        connection = self.free.get()
        try:
            with connection.cursor() as cursor:
                yield cursor
        finally:
            self.free.put(connection)

    def convoy(self, number):
        with self.cursor() as cursor:
            cursor.execute(self.query, (number,))
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row)) for row in cursor.fetchall()]


def sign(ships):
    """The ships, each with a seal."""
    for ship in ships:
        seal = hashlib.pbkdf2_hmac("sha256", repr(ship).encode(), KEY, ROUNDS)
        ship["seal"] = seal.hex()
    return ships


class Visit(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 8192

    def do_GET(self):
        number = random.randrange(CONVOYS)
        try:
            status, value = 200, {
                "convoy": number,
                "ships": sign(self.server.chart.convoy(number)),
            }
        except psycopg2.Error as e:
            status, value = 503, {"error": str(e)}
        body = json.dumps(value).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 1024


def connect():
    connection = psycopg2.connect(os.environ["PATIENT_DATABASE"])
    connection.autocommit = True
    return connection


def fill():
    connection = connect()
    with connection.cursor() as cursor:
        cursor.execute(TABLES, {"convoys": CONVOYS, "ships": SHIPS, "reports": REPORTS})
        cursor.execute("VACUUM ANALYZE ships, reports")
    connection.close()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    fill()
    host, port = a.address.rsplit(":", 1)
    server = Server((host, int(port)), Visit)
    server.socket.setblocking(False)  # another process may have taken the client
    children = []
    for _ in range(PROCESSES):
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
            server.chart = Chart(LATERAL if a.cured else DISTINCT)
            server.serve_forever()
        children.append(child)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(c, signal.SIGTERM) for c in children])
    print("ready %s:%d" % server.server_address, flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
