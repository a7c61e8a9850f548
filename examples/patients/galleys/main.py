"""galleys plans what the crew of a ship eats, over HTTPS. gunicorn's keepalive is 0, which somebody
took for "for ever": so each connection is closed after one answer, and the next request begins
with a TLS handshake.

Cured, a connection is kept for two minutes."""
import argparse, hashlib, json, os, random, shutil, subprocess, tempfile

from gunicorn.app.base import BaseApplication

KEPT = 120  # seconds that a connection is kept without a request
MEALS, DAYS, SHIPS = 300, 14, 900
KINDS = ["fish", "beans", "beef", "rice", "soup", "pasta"]
CERTIFY = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
           "-nodes", "-days", "2", "-subj", "/CN=localhost"]

meals = [
    {"meal": "%s no. %d" % (KINDS[n % len(KINDS)], n), "kind": n % len(KINDS),
     "grams": 250 + n * 37 % 400, "cents": 180 + n * 53 % 700}
    for n in range(MEALS)
]


def tastes(ship, day):
    """How much the crew of a ship likes each kind of meal on a day."""
    seal = hashlib.sha256(b"ship %d, day %d" % (ship, day)).digest()
    return list(seal[:len(KINDS)])


def plan(ship, crew):
    """The meal of each day, which is none that there was before, and what it costs."""
    days, had = [], set()
    for day in range(1, DAYS + 1):
        likes = tastes(ship, day)
        left = (meal for meal in meals if meal["meal"] not in had)
        best = min(left, key=lambda m: (m["cents"] - 2 * likes[m["kind"]], m["meal"]))
        had.add(best["meal"])
        days.append({"day": day, "meal": best["meal"], "kilos": crew * best["grams"] / 1000,
                     "cents": crew * best["cents"]})
    return days


class Galleys(BaseApplication):
    def __init__(self, address, cured):
        self.folder = tempfile.mkdtemp(prefix="patient-galleys-")
        certificate, key = (os.path.join(self.folder, n) for n in ("certificate.pem", "key.pem"))
        subprocess.run(CERTIFY + ["-keyout", key, "-out", certificate],
                       check=True, capture_output=True)
        self.settings = {"bind": address, "workers": 2, "worker_class": "gthread", "threads": 16,
                         "keepalive": KEPT if cured else 0, "certfile": certificate,
                         "keyfile": key, "backlog": 2048, "graceful_timeout": 2,
                         "when_ready": self.ready, "on_exit": self.leave, "loglevel": "warning"}
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

    def answer(self, environ, start_response):
        ship, crew = random.randrange(SHIPS), random.randrange(6, 30)
        body = json.dumps({"ship": ship, "crew": crew, "days": plan(ship, crew)}).encode() + b"\n"
        start_response("200 OK", [("Content-Type", "application/json"),
                                  ("Content-Length", str(len(body)))])
        return [body]


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    Galleys(a.address, a.cured).run()
