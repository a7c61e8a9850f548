"""escorts tells which tug meets a ship, for which it asks another service with a token. Each of two
processes has one for each of two harbours, which is good for a minute, and is renewed, by one task
at a time, when it is good for less than that. So each request renews one of the four tokens, and
those for the same one do so one after the other.

Cured, it is renewed when it is good for less than ten seconds."""
import argparse, asyncio, hashlib, os, random, signal, socket, time

import aiohttp
from aiohttp import web

PROCESSES, HARBOURS = 2, 2
GOOD, EARLY, LATE = 60, 60, 10  # seconds
PATIENCE = 5  # seconds that a client waits at most
TUGS = [
    {"name": "Tug %d" % n, "pull": 20 + n * 7 % 60, "north": n * 37 % 500, "east": n * 91 % 700}
    for n in range(600)
]


class Registry:
    """The service that is asked for the ships in a harbour."""

    def __init__(self, session, margin):
        self.session, self.margin = session, margin
        self.renewing, self.token, self.until = asyncio.Lock(), None, 0

    async def get(self, path, **headers):
        url = "http://%s/%s" % (os.environ["PATIENT_SERVICE"], path)
        async with self.session.get(url, headers=headers) as answer:
            answer.raise_for_status()
            return await answer.read()

    async def authorize(self):
        async with self.renewing:
            if self.until - time.monotonic() < self.margin:
                self.token = hashlib.sha256(await self.get("token")).hexdigest()
                self.until = time.monotonic() + GOOD
            return self.token

    async def draught(self, ship):
        token = await self.authorize()
        found = await self.get("ships/%d" % ship, Authorization="Bearer " + token)
        return 4 + (ship + len(found)) % 9


def nearest(ship, draught):
    """The tugs that are near and strong enough, the nearest first."""
    north, east = ship * 53 % 500, ship * 29 % 700
    strong = [tug for tug in TUGS if tug["pull"] >= 5 * draught]
    miles = [((t["north"] - north) ** 2 + (t["east"] - east) ** 2, t["name"]) for t in strong]
    return [{"tug": name, "miles": round(far**0.5, 1)} for far, name in sorted(miles)[:6]]


def office(margin):
    async def session(app):
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as client:
            app["registries"] = [Registry(client, margin) for _ in range(HARBOURS)]
            yield

    async def answer(request):
        ship = random.randrange(5000)
        try:
            async with asyncio.timeout(PATIENCE):  # the wait for the lock is part of it
                draught = await request.app["registries"][ship % HARBOURS].draught(ship)
        except (aiohttp.ClientError, asyncio.TimeoutError) as e:
            raise web.HTTPBadGateway(text="%r\n" % e)
        return web.json_response({"ship": ship, "draught": draught, "tugs": nearest(ship, draught)})

    app = web.Application()
    app.cleanup_ctx.append(session)
    app.router.add_get("/", answer)
    return app


async def serve(listener, app):
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=120)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    host, port = a.address.rsplit(":", 1)
    listener = socket.create_server((host, int(port)), backlog=1024)
    children = []
    for _ in range(PROCESSES):
        child = os.fork()
        if child == 0:
            asyncio.run(serve(listener, office(LATE if a.cured else EARLY)))
            os._exit(0)
        children.append(child)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(c, signal.SIGTERM) for c in children])
    print("ready %s:%d" % listener.getsockname(), flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
