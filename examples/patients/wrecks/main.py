"""wrecks shows a page of the wrecks on the sea bed, and how many there are. PostgreSQL counts them
for each page, and reads all of them to do so.

Cured, the number is in a row of its own, which is written when a wreck is added."""
import argparse, contextlib, hashlib, json, os, queue, random, signal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg2

WRECKS, CONNECTIONS, ROWS = 30000, 16, 15
TABLES = """
DROP TABLE IF EXISTS wrecks, totals;
CREATE TABLE wrecks (id int PRIMARY KEY, name text, metres int, sunk date, cargo text);
INSERT INTO wrecks SELECT n, 'Wreck ' || n, 4 + n * 37 %% 190, date '1650-01-01' + n * 4,
    (ARRAY['amphorae', 'copper', 'tea', 'guns', 'none'])[1 + n %% 5] FROM generate_series(1, %s) n;
CREATE TABLE totals (name text PRIMARY KEY, n bigint);
INSERT INTO totals SELECT 'wrecks', count(*) FROM wrecks;
"""
PAGE = "SELECT id, name, metres, sunk::text, cargo FROM wrecks WHERE id > %s ORDER BY id LIMIT %s"
COUNT = "SELECT count(*) FROM wrecks"
TOTAL = "SELECT n FROM totals WHERE name = 'wrecks'"


class Chart:
    """The wrecks in the database."""

    def __init__(self, total):
        self.total, self.free = total, queue.SimpleQueue()
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

    def page(self, after):
        with self.cursor() as cursor:
            cursor.execute(PAGE, (after, ROWS))
            names = [column.name for column in cursor.description]
            found = [dict(zip(names, row)) for row in cursor.fetchall()]
            cursor.execute(self.total)
            return {"wrecks": found, "of": cursor.fetchone()[0]}


def sign(page):
    """A page with the seal of each wreck."""
    for wreck in page["wrecks"]:
        wreck["seal"] = hashlib.sha256(repr(wreck).encode()).hexdigest()
    return page


class Visit(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 8192

    def do_GET(self):
        try:
            page = self.server.chart.page(random.randrange(WRECKS - ROWS))
            status, value = 200, sign(page)
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
        cursor.execute(TABLES, (WRECKS,))
        cursor.execute("VACUUM ANALYZE wrecks, totals")
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
    for _ in range(2):
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
            server.chart = Chart(TOTAL if a.cured else COUNT)
            server.serve_forever()
        children.append(child)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(c, signal.SIGTERM) for c in children])
    print("ready %s:%d" % server.server_address, flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
