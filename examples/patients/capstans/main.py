"""capstans tells which capstan pulls a ship to its berth, for which it asks the harbour master how
strong the current is. That takes 8 ms, and the connector of each process's client has
limit_per_host = 3, which was meant for a program that reads the sites of others: so three questions
at a time are on their way, and the other requests wait for a connection.

Cured, the limit is 100."""
import argparse, asyncio, hashlib, math, os, random, signal, socket

import aiohttp
from aiohttp import web

PROCESSES, FEW, MANY = 2, 3, 100
PATIENCE = 5  # seconds that a request waits at most
HOURS = 24
CAPSTANS = [
    {"name": "Capstan %d" % n, "tonnes": 4 + n * 7 % 30, "north": n * 37 % 900,
     "east": n * 53 % 700, "metres": 60 + n * 11 % 140}
    for n in range(300)
]


def near(ship, tonnes):
    """The capstans that are strong enough and whose line is long enough, the nearest first."""
    north, east = ship * 53 % 900, ship * 29 % 700
    found = []
    for capstan in CAPSTANS:
        far = math.hypot(capstan["north"] - north, capstan["east"] - east)
        if capstan["tonnes"] >= tonnes and far <= 4 * capstan["metres"]:
            found.append((round(far, 1), capstan["name"]))
    return sorted(found)[:5]


def hours(ship, current):
    """How hard the water pulls at a ship in each hour of the day, the calmest hour first."""
    pull = []
    for hour in range(HOURS):
        seal = hashlib.sha256(b"%d %d" % (ship, hour)).digest()
        tide = 1 + math.sin((hour + seal[0] % 3) * math.pi / 6)
        pull.append({"hour": hour, "tonnes": round(current * tide / 8, 2)})
    return sorted(pull, key=lambda h: (h["tonnes"], h["hour"]))


def harbour(limit):
    async def session(app):
        connector = aiohttp.TCPConnector(limit_per_host=limit)
        patience = aiohttp.ClientTimeout(PATIENCE)  # the wait for a connection is part of it
        async with aiohttp.ClientSession(connector=connector, timeout=patience) as client:
            app["client"] = client
            yield

    async def answer(request):
        ship = random.randrange(4000)
        url = "http://%s/current" % os.environ["PATIENT_SERVICE"]
        try:
            async with request.app["client"].get(url, params={"ship": ship}) as said:
                said.raise_for_status()
                current = int((await said.read()).split()[0])
        except (aiohttp.ClientError, asyncio.TimeoutError) as e:
            raise web.HTTPBadGateway(text="%r\n" % e)
        calm = hours(ship, current)
        capstans = near(ship, calm[0]["tonnes"] + 4)
        return web.json_response({"ship": ship, "capstans": capstans, "hours": calm})

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
    children, address = [], (host, int(port))
    for _ in range(PROCESSES):
        # Each has a socket of its own, or one of them would accept all that come at once.
        listener = socket.create_server(address, backlog=1024, reuse_port=True)
        address = listener.getsockname()
        child = os.fork()
        if child == 0:
            asyncio.run(serve(listener, harbour(MANY if a.cured else FEW)))
            os._exit(0)
        listener.close()
        children.append(child)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(c, signal.SIGTERM) for c in children])
    print("ready %s:%d" % address, flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
