"""winches hands out the jobs of the winches of a yard. A job moves from the list of those that wait
to the list of those in hand, as long as its plan is made, so that none is lost. It leaves that list
by LREM with a count of 0, which removes a job however often it is there: so Redis goes through the
whole list for each request, on its one thread, and jobs that workers once dropped make it long.

Cured, the count is 1, and Redis stops at the job, which is near the head of the list."""
import argparse, hashlib, json, os

import redis
from gunicorn.app.base import BaseApplication

WAIT, HAND = "jobs:waiting", "jobs:in-hand"
JOBS, DROPPED, WINCHES, STEPS = 2000, 55_000, 12, 120
ALL, FIRST = 0, 1  # what LREM removes


def client():
    """A client of Redis. It may be used by all threads of a process."""
    host, port = os.environ["PATIENT_REDIS"].split(":")
    return redis.Redis(host, int(port), decode_responses=True)


def fill(store):
    """Jobs that wait, and jobs whose worker was killed before it gave them back."""
    store.delete(WAIT, HAND)
    lists = (WAIT, "haul", JOBS), (HAND, "lost", DROPPED)
    for name, job, many in lists:
        store.rpush(name, *("%s-%05d" % (job, i * 7919 % many) for i in range(many)))


def plan(job):
    """Which winch takes up how much of the rope in each step of a job, the hardest step first."""
    steps = []
    for step in range(STEPS):
        seal = hashlib.sha256(b"%s %d" % (job.encode(), step)).digest()
        steps.append({"step": step, "winch": seal[0] % WINCHES, "metres": 1 + seal[1] % 30,
                      "kilonewtons": round(4 + seal[2] / 16 + seal[3] / 4096, 3)})
    return sorted(steps, key=lambda s: (-s["kilonewtons"], s["step"]))


class Yard(BaseApplication):
    def __init__(self, address, removes):
        self.removes = removes
        self.settings = {"bind": address, "workers": 2, "worker_class": "gthread", "threads": 32,
                         "keepalive": 120, "backlog": 1024, "graceful_timeout": 1,
                         "when_ready": self.ready, "loglevel": "warning"}
        super().__init__()

    @staticmethod
    def ready(server):
        for listener in server.LISTENERS:
            print("ready %s:%d" % listener.getsockname(), flush=True)

    def load_config(self):
        for name, value in self.settings.items():
            self.cfg.set(name, value)

    def load(self):
        """Runs in each worker, whose threads share a client, and its connections are kept."""
        self.store = client()
        return self.answer

    def next(self):
        """Takes the job that has waited longest, and lets it wait again at the end of the list:
        the winches of this yard do the same every day."""
        job = self.store.lmove(WAIT, HAND, "LEFT", "LEFT")
        steps = plan(job)
        self.store.lrem(HAND, self.removes, job)
        self.store.rpush(WAIT, job)
        return {"job": job, "steps": steps}

    def answer(self, environ, start_response):
        try:
            status, value = "200 OK", self.next()
        except redis.RedisError as e:
            status, value = "503 Service Unavailable", {"error": str(e)}
        body = json.dumps(value).encode() + b"\n"
        start_response(status, [("Content-Type", "application/json"),
                                ("Content-Length", str(len(body)))])
        return [body]


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    fill(client())
    Yard(a.address, FIRST if a.cured else ALL).run()
