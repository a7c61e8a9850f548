"""ranking shows a player's rank and those around. A script in Redis looks for it: it reads the
whole table, and counts those who have more points, while Redis, which has one thread, does nothing
else.

Cured, Redis is asked for the rank, which a sorted set has at hand."""

import argparse, json, os, random

import redis
from gunicorn.app.base import BaseApplication

PLAYERS, AROUND = 2500, 5

COUNT = """
local all = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
local mine = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]))
local above = 0
for i = 2, #all, 2 do
  if tonumber(all[i]) > mine then above = above + 1 end
end
return above
"""


def connect():
    host, port = os.environ["PATIENT_REDIS"].split(":")
    return redis.Redis(
        connection_pool=redis.BlockingConnectionPool(
            max_connections=32, host=host, port=int(port), decode_responses=True
        )
    )


def fill(table):
    r, pipe = random.Random(4), table.pipeline()
    pipe.delete("points")
    for player in range(PLAYERS):
        pipe.zadd("points", {"player:%d" % player: r.randrange(10**6)})
        pipe.hset(
            "player:%d" % player,
            mapping={
                "name": "Player %d" % player,
                "club": "Club %d" % (player % 40),
                "since": 1990 + player % 30,
            },
        )
    pipe.execute()


class Table(BaseApplication):
    def __init__(self, address, cured):
        self.cured = cured
        self.settings = {
            "bind": address,
            "workers": 2,
            "worker_class": "gthread",
            "threads": 16,
            "keepalive": 120,
            "when_ready": self.ready,
            "loglevel": "warning",
        }
        super().__init__()

    @staticmethod
    def ready(server):
        for listener in server.LISTENERS:
            print("ready %s:%d" % listener.getsockname(), flush=True)

    def load_config(self):
        for name, value in self.settings.items():
            self.cfg.set(name, value)

    def load(self):
        """Runs in each worker."""
        self.table = connect()
        self.count = self.table.register_script(COUNT)
        return self.answer

    def above(self, player):
        if self.cured:
            return self.table.zrevrank("points", player)
        return self.count(keys=["points"], args=[player])

    def around(self, player):
        above = self.above(player)
        first = max(above - AROUND, 0)
        names = self.table.zrevrange("points", first, above + AROUND, withscores=True)
        pipe = self.table.pipeline(transaction=False)
        for name, _ in names:
            pipe.hgetall(name)
        players = [
            {"rank": first + i + 1, "points": int(points), "me": name == player, **profile}
            for i, ((name, points), profile) in enumerate(zip(names, pipe.execute()))
        ]
        return {"rank": above + 1, "around": players}

    def answer(self, environ, start_response):
        try:
            status, value = "200 OK", self.around("player:%d" % random.randrange(PLAYERS))
        except redis.RedisError as e:
            status, value = "503 Service Unavailable", {"error": str(e)}
        body = json.dumps(value).encode() + b"\n"
        start_response(
            status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        )
        return [body]


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    fill(connect())
    Table(a.address, a.cured).run()
