"""inspectors chooses a container that has to be opened. It lets PostgreSQL choose, with ORDER BY
random(), so that PostgreSQL reads the whole table and sorts it for each request.

Cured, a number is drawn, and the container that has it, or the next one, is looked up."""
import argparse, contextlib, hashlib, json, os, queue, random, signal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg2

CONTAINERS, CONNECTIONS = 24000, 16
TABLE = """
DROP TABLE IF EXISTS containers;
CREATE TABLE containers (id int PRIMARY KEY, code text, goods text, kilos int);
INSERT INTO containers SELECT n * 3, 'PLMU' || 100000 + n,
    (ARRAY['rope', 'tar', 'tea', 'tin'])[1 + n %% 4], 900 + n * 7 %% 20000
    FROM generate_series(1, %s) n;
"""
COLUMNS = "SELECT id, code, goods, kilos FROM containers "
ANY = COLUMNS + "ORDER BY random() LIMIT 1"
DRAWN = COLUMNS + "WHERE id >= %s ORDER BY id LIMIT 1"


class Store:
    """The containers in the database."""

    def __init__(self, cured):
        self.cured, self.free = cured, queue.SimpleQueue()
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

    def choose(self):
        with self.cursor() as cursor:
            if self.cured:
                cursor.execute(DRAWN, (random.randint(1, 3 * CONTAINERS),))
            else:
                cursor.execute(ANY)
            names = [column.name for column in cursor.description]
            return dict(zip(names, cursor.fetchone()))


def checks(container):
    """What has to be looked at, and for how long."""
    seal = hashlib.sha256(container["code"].encode()).digest()
    return [{"door": d, "minutes": 5 + container["kilos"] * seal[d] % 40} for d in range(6)]


class Inspection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 8192

    def do_GET(self):
        try:
            container = self.server.store.choose()
            status, value = 200, dict(container, checks=checks(container))
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
        cursor.execute(TABLE, (CONTAINERS,))
        cursor.execute("VACUUM ANALYZE containers")
    connection.close()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    fill()
    host, port = a.address.rsplit(":", 1)
    server = Server((host, int(port)), Inspection)
    server.socket.setblocking(False)  # another process may have taken the client
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
            server.store = Store(a.cured)
            server.serve_forever()
        children.append(child)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(c, signal.SIGTERM) for c in children])
    print("ready %s:%d" % server.server_address, flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
