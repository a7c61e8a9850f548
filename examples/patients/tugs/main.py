"""tugs tells which tugs are free. It asks an office with urllib, which makes a connection for each
question and closes it, so that its local port rests in TIME_WAIT; when all of them rest, no more
connections can be made.

Cured, each thread keeps its connection (http.client)."""
import argparse, hashlib, http.client, json, pathlib, random, subprocess, sys, threading
import urllib.request

from gunicorn.app.base import BaseApplication

TUGS = [{"tug": "Tug %d" % n, "tonnes": 20 + n * 7 % 60, "pier": n % 9} for n in range(200)]
BEHIND = pathlib.Path(__file__).resolve().parents[3] / "bench" / "patients_behind.py"
TAKES = "3"  # milliseconds, to ask the office
LATE = 10  # seconds

own = threading.local()


def by_url(office, path):
    """The office's answer. It is the disease."""
    with urllib.request.urlopen("http://%s%s" % (office, path), timeout=LATE) as answer:
        return answer.read()


def kept(office, path):
    """The office's answer, over a connection that this thread keeps."""
    if not hasattr(own, "office"):
        own.office = http.client.HTTPConnection(office, timeout=LATE)
    own.office.request("GET", path)
    return own.office.getresponse().read()


class Harbour(BaseApplication):
    def __init__(self, address, office, ask):
        self.office, self.ask = office, ask
        self.settings = {"bind": address, "workers": 2, "worker_class": "gthread", "threads": 24,
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
        tonnes = random.randrange(20, 60)
        try:
            booked = self.ask(self.office, "/booked?tonnes=%d" % tonnes)
            status, value = "200 OK", free(tonnes, booked)
        except (http.client.HTTPException, OSError) as e:
            status, value = "503 Service Unavailable", {"error": str(e)}
        body = json.dumps(value).encode() + b"\n"
        start_response(status, [("Content-Type", "application/json"),
                                ("Content-Length", str(len(body)))])
        return [body]


def free(tonnes, booked):
    """The tugs that are strong enough and not booked, the weakest first."""
    seal = hashlib.sha1(booked).digest()
    some = [t for i, t in enumerate(TUGS) if t["tonnes"] >= tonnes and seal[i % 20] % 3]
    return sorted(some, key=lambda t: (t["tonnes"], t["tug"]))[:5]


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    # The office ends with us, as it waits for us to close its input.
    office = subprocess.Popen([sys.executable, "-B", str(BEHIND), "service", TAKES],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    port = office.stdout.readline().strip()
    if not port:
        sys.exit("the office did not start")
    Harbour(a.address, "127.0.0.1:" + port, kept if a.cured else by_url).run()


if __name__ == "__main__":
    main()
