"""marinas offers berths, which are in a SQLite database. Every transaction is begun with BEGIN
IMMEDIATE, as somebody was tired of "database is locked": so those that only read take the lock for
writers too, one of all threads and workers at a time, and whoever does not get it sleeps for some
milliseconds before he tries again.

Cured, a transaction that only reads is begun with BEGIN."""
import argparse, contextlib, hashlib, json, os, random, shutil, sqlite3, tempfile, threading

from gunicorn.app.base import BaseApplication

MARINAS, BERTHS, NIGHTS = 40, 60, 4
TABLES = """
PRAGMA journal_mode = WAL;
CREATE TABLE berths (marina int, berth int, metres int, cents int, PRIMARY KEY (marina, berth));
CREATE TABLE taken (marina int, berth int, night int, PRIMARY KEY (marina, berth, night));
"""
FREE = """SELECT b.berth, b.metres, b.cents FROM berths b WHERE b.marina = ? AND b.metres >= ?
    AND NOT EXISTS (SELECT * FROM taken t
        WHERE t.marina = b.marina AND t.berth = b.berth AND t.night = ?) ORDER BY b.cents"""
PATIENCE = 30  # seconds that a thread waits for the database


class Store:
    """The database. Each thread has a connection of its own."""

    def __init__(self, file, cured):
        self.file, self.own = file, threading.local()
        self.begin = "BEGIN" if cured else "BEGIN IMMEDIATE"

    def connection(self):
        if not hasattr(self.own, "database"):
            self.own.database = sqlite3.connect(self.file, PATIENCE, isolation_level=None)
        return self.own.database

    @contextlib.contextmanager
    def reading(self):
        """A transaction in which all is read from one state of the database."""
        database = self.connection()
        database.execute(self.begin)
        try:
            yield database
        finally:
            database.execute("COMMIT")


def offer(marina, berth, metres, cents):
    """What a berth costs for each of some weeks, with a seal that nobody can change."""
    seal = hashlib.sha256(b"%d/%d/%d" % (marina, berth, metres)).digest()
    weeks = [cents * (100 + seal[week] % 30) // 100 for week in range(8)]
    return {"berth": berth, "metres": metres, "weeks": weeks, "seal": seal.hex()}


class Harbours(BaseApplication):
    def __init__(self, address, cured):
        self.folder = tempfile.mkdtemp(prefix="patient-marinas-")
        file = os.path.join(self.folder, "marinas.sqlite")
        fill(file)
        self.store = Store(file, cured)
        self.settings = {"bind": address, "workers": 2, "worker_class": "gthread", "threads": 16,
                         "keepalive": 120, "backlog": 2048, "when_ready": self.ready,
                         "on_exit": self.leave, "loglevel": "warning"}
        super().__init__()

    @staticmethod
    def ready(server):
        for listener in server.LISTENERS:
            print("ready %s:%d" % listener.getsockname(), flush=True)

    def leave(self, server):
        shutil.rmtree(self.folder)

    def load_config(self):
        for name, value in self.settings.items():
            self.cfg.set(name, value)

    def load(self):
        return self.answer

    def offers(self, marina, metres):
        """The berths that are free for each of some nights, the cheapest first."""
        with self.store.reading() as database:
            nights = [database.execute(FREE, (marina, metres, n)).fetchall() for n in range(NIGHTS)]
            return [[offer(marina, *berth) for berth in night] for night in nights]

    def answer(self, environ, start_response):
        marina, metres = random.randrange(MARINAS), random.randrange(9, 14)
        try:
            status, value = "200 OK", self.offers(marina, metres)
        except sqlite3.Error as e:
            status, value = "503 Service Unavailable", {"error": str(e)}
        body = json.dumps(value).encode() + b"\n"
        start_response(status, [("Content-Type", "application/json"),
                                ("Content-Length", str(len(body)))])
        return [body]


def fill(file):
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.executescript(TABLES)
        for marina in range(MARINAS):
            for berth in range(BERTHS):
                database.execute("INSERT INTO berths VALUES (?, ?, ?, ?)",
                                 (marina, berth, 6 + berth * 5 % 13, 900 + berth * 37 % 500))
                database.execute("INSERT INTO taken VALUES (?, ?, ?)", (marina, berth, berth % 7))
        database.commit()


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    Harbours(a.address, a.cured).run()
