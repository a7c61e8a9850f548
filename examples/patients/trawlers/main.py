"""trawlers takes down when a trawler will land, in place of what it announced before, which is
deleted. The boxes of fish on the quay refer to landings by a foreign key, and there is no index on
that column. PostgreSQL has to see that no box refers to the landing that goes, and reads all boxes
for that, for each request.

Cured, there is an index on boxes (landing)."""
import argparse, contextlib, hashlib, json, os, queue, random, signal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg2

TRAWLERS, LANDED, BOXES = 3000, 600, 60  # boxes of each landing that has taken place
CONNECTIONS, PROCESSES = 16, 2
BERTHS = 18  # where a trawler may land
KEY, ROUNDS = b"trawlers", 20  # of the passes to the berths
TABLES = """
DROP TABLE IF EXISTS boxes, landings;
CREATE TABLE landings (id bigserial PRIMARY KEY, trawler int NOT NULL,
    expected timestamp NOT NULL, landed boolean NOT NULL);
INSERT INTO landings (trawler, expected, landed)
    SELECT n * 7 %% %(trawlers)s, timestamp '2026-01-01' + n * interval '1 hour', true
    FROM generate_series(1, %(landed)s) n;
INSERT INTO landings (trawler, expected, landed)
    SELECT n, timestamp '2026-11-01', false FROM generate_series(0, %(trawlers)s - 1) n;
CREATE INDEX ON landings (trawler) WHERE NOT landed;
CREATE TABLE boxes (id bigserial PRIMARY KEY, landing bigint NOT NULL REFERENCES landings,
    fish text NOT NULL, kilos int NOT NULL);
INSERT INTO boxes (landing, fish, kilos)
    SELECT 1 + n %% %(landed)s, 'fish ' || n %% 30, 5 + n %% 35
    FROM generate_series(1, %(landed)s * %(boxes)s) n;
"""
INDEX = "CREATE INDEX ON boxes (landing)"
FORGET = "DELETE FROM landings WHERE trawler = %s AND NOT landed"
ANNOUNCE = """INSERT INTO landings (trawler, expected, landed)
    VALUES (%s, now() + %s * interval '1 minute', false) RETURNING id, expected::text"""


class Office:
    """Keeps the landings in the database. Any thread may ask it."""

    def __init__(self):
        self.free = queue.SimpleQueue()
        for _ in range(CONNECTIONS):
            self.free.put(connect())

    @contextlib.contextmanager
    def transaction(self):
        connection = self.free.get()
        try:
            with connection, connection.cursor() as cursor:  # commits, or rolls back
                yield cursor
        finally:
            self.free.put(connection)

    def announce(self, trawler, minutes):
        """A landing in place of the one that was announced before."""
        with self.transaction() as cursor:
            cursor.execute(FORGET, (trawler,))
            cursor.execute(ANNOUNCE, (trawler, minutes))
            landing, expected = cursor.fetchone()
        return {"landing": landing, "trawler": trawler, "expected": expected}


def berths(landing):
    """Where the trawler may land, the nearest first, each with a pass."""
    found = []
    for berth in range(BERTHS):
        word = "%d %d" % (landing["landing"], berth)
        seal = hashlib.pbkdf2_hmac("sha256", word.encode(), KEY, ROUNDS)
        found.append({"berth": berth, "metres": 40 + seal[0] * 3, "pass": seal.hex()})
    return sorted(found, key=lambda berth: (berth["metres"], berth["berth"]))


class Visit(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 8192

    def do_GET(self):
        try:
            landing = self.server.office.announce(
                random.randrange(TRAWLERS), 30 + random.randrange(600)
            )
            status, value = 200, {**landing, "berths": berths(landing)}
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
    return psycopg2.connect(os.environ["PATIENT_DATABASE"])


def fill(cured):
    connection = connect()
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(TABLES, {"trawlers": TRAWLERS, "landed": LANDED, "boxes": BOXES})
        if cured:
            cursor.execute(INDEX)
        cursor.execute("VACUUM ANALYZE landings, boxes")
    connection.close()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    fill(a.cured)
    host, port = a.address.rsplit(":", 1)
    server = Server((host, int(port)), Visit)
    server.socket.setblocking(False)  # another process may have taken the client
    children = []
    for _ in range(PROCESSES):
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
            server.office = Office()
            server.serve_forever()
        children.append(child)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(c, signal.SIGTERM) for c in children])
    print("ready %s:%d" % server.server_address, flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
