"""tariffs tells what each of thirty lines asks for a cargo. The tariff of each line is a small
file, so that the office can change one without a restart, and all of them are opened and read for
each request.

Cured, a tariff is read again when a minute has gone."""
import argparse, contextlib, hashlib, json, os, random, shutil, tempfile, time

from gunicorn.app.base import BaseApplication

LINES, KEPT = 30, 60
CARGOES = ["tea", "tar", "tin", "rope", "salt", "wool", "fish", "coal"]


class Tariffs:
    """The tariffs in a folder. Any thread may ask."""

    def __init__(self, folder, cured):
        self.folder, self.cured, self.known = folder, cured, {}

    def read(self, line):
        """What a line asks: a name and cents on each row of its file."""
        with open(os.path.join(self.folder, line + ".conf")) as file:
            rows = (row.split("=") for row in file)
            return {name: int(cents) for name, cents in rows}

    def of(self, line):
        if not self.cured:
            return self.read(line)
        at, tariff = self.known.get(line, (0, None))
        if time.monotonic() - at > KEPT or tariff is None:
            tariff = self.read(line)
            self.known[line] = time.monotonic(), tariff
        return tariff


def offers(tariffs, cargo, tonnes):
    """What the lines ask for a cargo, the cheapest first."""
    found = []
    for n in range(LINES):
        tariff = tariffs.of("line-%02d" % n)
        found.append({"line": n, "cents": tariff["base"] + tonnes * tariff[cargo]})
    return sorted(found, key=lambda offer: (offer["cents"], offer["line"]))


@contextlib.contextmanager
def published():
    """A folder with the tariffs of all lines. A worker that ends leaves this block too, so
    TemporaryDirectory would have it take the folder away from the others."""
    above, maker = tempfile.mkdtemp(prefix="patient-tariffs-"), os.getpid()
    try:
        folder = os.path.join(above, "tariffs.d")
        os.mkdir(folder)
        for n in range(LINES):
            with open(os.path.join(folder, "line-%02d.conf" % n), "w") as file:
                file.write("base=%d\n" % (9000 + 37 * n))
                for i, cargo in enumerate(CARGOES):
                    file.write("%s=%d\n" % (cargo, 200 + (n * 31 + i * 17) % 150))
        yield folder
    finally:
        if os.getpid() == maker:
            shutil.rmtree(above)


class Office(BaseApplication):
    def __init__(self, address, tariffs):
        self.tariffs = tariffs
        self.settings = {"bind": address, "workers": 2, "worker_class": "gthread", "threads": 8,
                         "keepalive": 120, "graceful_timeout": 5, "when_ready": self.ready,
                         "loglevel": "warning"}
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
        cargo, tonnes = random.choice(CARGOES), random.randrange(1, 400)
        found = offers(self.tariffs, cargo, tonnes)
        body = json.dumps({"cargo": cargo, "tonnes": tonnes, "offers": found}).encode() + b"\n"
        start_response("200 OK", [("Content-Type", "application/json"),
                                  ("ETag", '"%s"' % hashlib.sha256(body).hexdigest()),
                                  ("Content-Length", str(len(body)))])
        return [body]


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    with published() as folder:
        Office(a.address, Tariffs(folder, a.cured)).run()
