"""frigates finds ships by a part of their name. It asks PostgreSQL for name ILIKE '%part%', and the
index that there is on the names helps only who knows how a name begins: so all names are read and
compared for each request.

Cured, there is an index of trigrams, which knows what is within a name too."""

import argparse, hashlib, json, os, random, threading

import psycopg2
from gunicorn.app.base import BaseApplication

SHIPS = 12000
FIRST = "Amber Brave Calm Distant Eager Fair Golden Hardy Iron Jolly Lonely Merry Noble Old".split()
SECOND = "Albatross Badger Curlew Dolphin Egret Falcon Gannet Heron Ibis Jackdaw Kestrel".split()
PORTS = "Aberdeen Bergen Cadiz Dublin Esbjerg Funchal Gdansk Hull Izmir Kiel Lisbon".split()
TABLES = """
CREATE EXTENSION IF NOT EXISTS pg_trgm;
DROP TABLE IF EXISTS ships;
CREATE TABLE ships (id int PRIMARY KEY, name text NOT NULL, built int NOT NULL, tons int NOT NULL);
"""
INDEX = "CREATE INDEX ON ships (name text_pattern_ops)"
TRIGRAMS = "CREATE INDEX ON ships USING gin (name gin_trgm_ops)"
FIND = "SELECT id, name, built, tons FROM ships WHERE name ILIKE %s ORDER BY tons DESC LIMIT 12"

own = threading.local()


def name(n):
    """The name of a ship: there are some with the same words."""
    words = FIRST[n % 14], SECOND[n // 14 % 11], PORTS[n // 154 % 11]
    return "%s %s of %s no. %d" % (*words, n % 97)


def ships(part):
    """The ships with that in their name, over a connection that this thread keeps."""
    if not hasattr(own, "database"):
        own.database = psycopg2.connect(os.environ["PATIENT_DATABASE"])
        own.database.autocommit = True
    with own.database.cursor() as cursor:
        cursor.execute(FIND, ("%" + part + "%",))
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row)) for row in cursor.fetchall()]


def flag(ship):
    """A ship with the signal letters for each of her four masts."""
    text = json.dumps(ship, sort_keys=True)
    sums = (hashlib.sha256(("%d %s" % (n, text)).encode()).hexdigest() for n in range(4))
    return {**ship, "age": 2026 - ship["built"], "flags": [s[:6] for s in sums]}


class Office(BaseApplication):
    def __init__(self, address):
        self.settings = {"bind": address, "workers": 2, "worker_class": "gthread", "threads": 12,
                         "keepalive": 120, "when_ready": self.ready, "loglevel": "warning"}
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
        words = [random.choice(words).lower() for words in (FIRST, SECOND, PORTS)]
        part = "%s %s of %s" % (words[0][1:], words[1], words[2][:3])
        try:
            status, value = "200 OK", {"part": part, "ships": [flag(s) for s in ships(part)]}
        except psycopg2.Error as e:
            status, value = "503 Service Unavailable", {"error": str(e)}
        body = json.dumps(value).encode() + b"\n"
        start_response(
            status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        )
        return [body]


def fill(cured):
    connection = psycopg2.connect(os.environ["PATIENT_DATABASE"])
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(TABLES)
        rows = [(n, name(n), 1900 + n * 13 % 120, 900 + n * 37 % 9000) for n in range(SHIPS)]
        values = b",".join(cursor.mogrify("(%s,%s,%s,%s)", row) for row in rows)
        cursor.execute(b"INSERT INTO ships VALUES " + values)
        cursor.execute(TRIGRAMS if cured else INDEX)
        cursor.execute("VACUUM ANALYZE ships")
    connection.close()


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    fill(a.cured)
    Office(a.address).run()
