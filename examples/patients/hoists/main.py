"""hoists tells which hoists of a port may lift a load. It logs a line for each hoist that it looks
at, at level DEBUG, and the logger's level is DEBUG, which somebody once set to look for an error:
so most of the time of gunicorn's workers goes into lines that nobody reads, and each is a write to
a file.

Cured, the logger's level is INFO."""
import argparse, hashlib, json, logging, logging.handlers, os, random, shutil, tempfile

from gunicorn.app.base import BaseApplication

LOADS, SHOWN, ROUNDS = 4000, 6, 6
BYTES = 16 << 20  # of a log, before a new one is begun; there is one old one
HOISTS = [
    {"name": "Hoist %d" % n, "tonnes": 4 + n * 7 % 40, "metres": 10 + n * 11 % 30,
     "quay": n % 8}
    for n in range(60)
]
log = logging.getLogger("hoists")


def keep_log(folder, level):
    """Each worker has a file of its own, as only one process may begin a new one."""
    file = os.path.join(folder, "rules-%d.log" % os.getpid())
    handler = logging.handlers.RotatingFileHandler(file, maxBytes=BYTES, backupCount=1)
    handler.setFormatter(logging.Formatter(
        "%(asctime)s %(levelname)s %(name)s %(filename)s:%(lineno)d %(message)s"))
    log.addHandler(handler)
    log.setLevel(level)
    log.propagate = False


def worn(hoist, load):
    """The part of its strength that a hoist has left, by how its rope was found."""
    seal = b"%s %d" % (hoist["name"].encode(), load["number"])
    for _ in range(ROUNDS):
        seal = hashlib.sha256(seal).digest()
    return 1 - seal[0] / 1024


def strong(hoist, load):
    return hoist["tonnes"] * worn(hoist, load) >= load["tonnes"]


def long(hoist, load):
    return hoist["metres"] >= load["metres"]


def near(hoist, load):
    return abs(hoist["quay"] - load["quay"]) <= 2


RULES = strong, long, near


def may(hoist, load):
    """The rules that a hoist breaks for a load. All are tried, as who asks is told of each."""
    broken = []
    for rule in RULES:
        if not rule(hoist, load):
            broken.append(rule.__name__)
    log.debug("load %d: %s, broken: %s", load["number"], hoist["name"], ", ".join(broken))
    return broken


def choose(number):
    """The hoists that may lift a load, the weakest first, and how many broke each rule."""
    load = {"number": number, "tonnes": 2 + number % 23, "metres": 5 + number % 29,
            "quay": number % 8}
    found, counts = [], {rule.__name__: 0 for rule in RULES}
    for hoist in HOISTS:
        broken = may(hoist, load)
        for name in broken:
            counts[name] += 1
        if not broken:
            found.append(hoist)
    found.sort(key=lambda h: (h["tonnes"], h["name"]))
    return {"load": load, "hoists": found[:SHOWN], "broken": counts}


class Port(BaseApplication):
    def __init__(self, address, folder, level):
        self.folder, self.level = folder, level
        self.settings = {"bind": address, "workers": 2, "worker_class": "gthread", "threads": 8,
                         "keepalive": 120, "backlog": 1024, "graceful_timeout": 1,
                         "when_ready": self.ready, "on_exit": self.gone, "loglevel": "warning"}
        super().__init__()

    @staticmethod
    def ready(server):
        for listener in server.LISTENERS:
            print("ready %s:%d" % listener.getsockname(), flush=True)

    def gone(self, server):
        shutil.rmtree(self.folder, ignore_errors=True)

    def load_config(self):
        for name, value in self.settings.items():
            self.cfg.set(name, value)

    def load(self):
        """Runs in each worker."""
        keep_log(self.folder, self.level)
        return self.answer

    def answer(self, environ, start_response):
        value = choose(random.randrange(LOADS))
        log.info("load %d: %d hoists", value["load"]["number"], len(value["hoists"]))
        body = json.dumps(value).encode() + b"\n"
        start_response("200 OK", [("Content-Type", "application/json"),
                                  ("Content-Length", str(len(body)))])
        return [body]


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    level = logging.INFO if a.cured else logging.DEBUG
    Port(a.address, tempfile.mkdtemp(prefix="hoists-"), level).run()
