"""clearances gives ships that leave a clearance with a number, from the first book of numbers that
is not full. The query that takes the number locks the book's row until the customs office has been
told of it, and does not say SKIP LOCKED, so all others wait in PostgreSQL for the same book while
99 lie there.

Cured, the query says SKIP LOCKED, and takes a number from the first book that nobody has."""
import argparse, contextlib, hashlib, http.client, json, os, queue, random, signal, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg2

BOOKS, NUMBERS = 100, 10_000_000  # more books than there are connections, and numbers in each
CONNECTIONS, PROCESSES = 40, 2
KEY, ROUNDS, COPIES = b"clearances", 60, 10  # of the seals
TABLES = """
DROP TABLE IF EXISTS books;
CREATE TABLE books (id int PRIMARY KEY, next bigint NOT NULL, last bigint NOT NULL)
    WITH (fillfactor = 40);
INSERT INTO books SELECT n, n * %(numbers)s::bigint + 1, (n + 1) * %(numbers)s::bigint
    FROM generate_series(0, %(books)s - 1) n;
"""
TAKE = """UPDATE books SET next = next + 1 WHERE id = (
    SELECT id FROM books WHERE next <= last ORDER BY id LIMIT 1 FOR UPDATE %s
) RETURNING id, next - 1"""


class Customs:
    """The office that is told of each clearance. Each thread has its connection."""

    def __init__(self, address):
        self.address, self.own = address, threading.local()

    def tell(self):
        if not hasattr(self.own, "connection"):
            self.own.connection = http.client.HTTPConnection(self.address, timeout=10)
        self.own.connection.request("GET", "/clearance")
        return len(self.own.connection.getresponse().read())


class Desk:
    """Where clearances are written."""

    def __init__(self, query, customs):
        self.query, self.customs, self.free = query, customs, queue.SimpleQueue()
        for _ in range(CONNECTIONS):
            self.free.put(psycopg2.connect(os.environ["PATIENT_DATABASE"]))

    @contextlib.contextmanager
    def transaction(self):
        connection = self.free.get()
        try:
            with connection, connection.cursor() as cursor:
                yield cursor
        finally:
            self.free.put(connection)

    def clear(self, ship):
        # If the call to the office fails, the number is not used up.
        with self.transaction() as cursor:
            cursor.execute(self.query)
            book, number = cursor.fetchone()
            told = self.customs.tell()
        return {"ship": ship, "book": book, "number": number, "told": told}


def sign(clearance):
    """The clearance, with a seal for each copy."""
    text = json.dumps(clearance, sort_keys=True)
    clearance["seals"] = [
        hashlib.pbkdf2_hmac("sha256", ("%d %s" % (copy, text)).encode(), KEY, ROUNDS).hex()
        for copy in range(COPIES)
    ]
    return clearance


class Visit(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 8192

    def do_GET(self):
        try:
            clearance = self.server.desk.clear("Ship %d" % random.randrange(10_000))
            status, value = 200, sign(clearance)
        except (psycopg2.Error, http.client.HTTPException, OSError) as e:
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


def fill():
    connection = psycopg2.connect(os.environ["PATIENT_DATABASE"])
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(TABLES, {"books": BOOKS, "numbers": NUMBERS})
        cursor.execute("VACUUM ANALYZE books")
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
            customs = Customs(os.environ["PATIENT_SERVICE"])
            server.desk = Desk(TAKE % ("SKIP LOCKED" if a.cured else ""), customs)
            server.serve_forever()
        children.append(child)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(c, signal.SIGTERM) for c in children])
    print("ready %s:%d" % server.server_address, flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
