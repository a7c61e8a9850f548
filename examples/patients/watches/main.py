"""watches tells what time it is in the harbours of a line. It asks zoneinfo for the time zone of
each, which keeps eight that nobody holds, so that forty small files are opened and read for each
request.

Cured, the service keeps the time zones."""
import argparse, functools, hashlib, json, random
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from gunicorn.app.base import BaseApplication

ZONES = """Europe/London Europe/Lisbon Europe/Dublin Europe/Oslo Europe/Rome Europe/Athens
Europe/Helsinki Europe/Istanbul Europe/Malta Europe/Berlin Europe/Paris Europe/Madrid
Africa/Cairo Africa/Lagos Africa/Nairobi Africa/Tunis Africa/Algiers Africa/Abidjan
America/New_York America/Halifax America/Panama America/Lima America/Bogota America/Sao_Paulo
America/Los_Angeles America/Vancouver America/Caracas America/Havana Asia/Tokyo Asia/Shanghai
Asia/Singapore Asia/Manila Asia/Kolkata Asia/Dubai Asia/Karachi Asia/Jakarta
Australia/Sydney Australia/Perth Pacific/Auckland Pacific/Honolulu""".split()


def local(zone, at):
    """The time in a harbour, and its watch."""
    there = at.astimezone(zone)
    return {"zone": zone.key, "time": there.isoformat(), "watch": 1 + there.hour // 4}


class Bridge(BaseApplication):
    def __init__(self, address, cured):
        self.zone = functools.cache(ZoneInfo) if cured else ZoneInfo
        self.settings = {"bind": address, "workers": 2, "worker_class": "gthread", "threads": 8,
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
        at = datetime.now(timezone.utc) + timedelta(hours=random.randrange(24 * 30))
        found = [local(self.zone(name), at) for name in ZONES]
        found.sort(key=lambda one: (one["watch"], one["zone"]))
        body = json.dumps(found).encode() + b"\n"
        start_response("200 OK", [("Content-Type", "application/json"),
                                  ("ETag", '"%s"' % hashlib.sha256(body).hexdigest()),
                                  ("Content-Length", str(len(body)))])
        return [body]


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    Bridge(a.address, a.cured).run()
