"""cutters tells which cutter can bring a crew out to a ship, for which it asks the coast guard
where the ship is. Requests put their questions into an asyncio.Queue, and tasks take them from
there and ask. That was made so that the coast guard is not asked too much at once; but there are
two such tasks in each process, and it takes 10 ms to answer, so the others wait in the queue.

Cured, there are 48 tasks in each process."""

import argparse, asyncio, hashlib, json, os, random, signal, socket

import aiohttp
from aiohttp import web

PROCESSES = 2
PATIENCE = 5  # seconds that the coast guard is waited for at most
CUTTERS = [
    {"name": "Cutter %d" % n, "seats": 4 + n * 7 % 30, "north": n * 37 % 500, "east": n * 91 % 700}
    for n in range(1000)
]


class CoastGuard:
    """The service that knows where the ships are."""

    def __init__(self, session, tasks):
        self.session, self.questions = session, asyncio.Queue()
        self.tasks = [asyncio.create_task(self.work()) for _ in range(tasks)]

    async def work(self):
        """Asks what stands in the queue, one question after the other."""
        while True:
            ship, found = await self.questions.get()
            try:
                place = await self.ask(ship)
            except (aiohttp.ClientError, asyncio.TimeoutError) as e:
                if not found.done():  # it is when the client has gone
                    found.set_exception(e)
            else:
                if not found.done():
                    found.set_result(place)

    async def ask(self, ship):
        url = "http://%s/ships/%d" % (os.environ["PATIENT_SERVICE"], ship)
        async with self.session.get(url) as answer:
            answer.raise_for_status()
            seen = len(await answer.read())
            return (ship * 53 + seen) % 500, (ship * 29 + seen) % 700

    async def place(self, ship):
        found = asyncio.get_running_loop().create_future()
        await self.questions.put((ship, found))
        return await found


def nearest(crew, north, east):
    """The cutters that have room for a crew, the nearest first."""
    able = [cutter for cutter in CUTTERS if cutter["seats"] >= crew]
    miles = [((c["north"] - north) ** 2 + (c["east"] - east) ** 2, c["name"]) for c in able]
    return [{"cutter": name, "miles": round(far**0.5, 1)} for far, name in sorted(miles)[:6]]


def office(cured):
    async def session(app):
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as client:
            app["guard"] = CoastGuard(client, 48 if cured else 2)
            yield
            for task in app["guard"].tasks:
                task.cancel()

    async def answer(request):
        ship, crew = random.randrange(5000), random.randrange(4, 20)
        try:
            north, east = await request.app["guard"].place(ship)
        except (aiohttp.ClientError, asyncio.TimeoutError) as e:
            raise web.HTTPBadGateway(text="%r\n" % e)
        body = json.dumps({"ship": ship, "crew": crew, "near": nearest(crew, north, east)}).encode()
        etag = '"%s"' % hashlib.sha1(body).hexdigest()
        return web.Response(body=body, content_type="application/json", headers={"ETag": etag})

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
    for _ in range(PROCESSES):  # each has its own socket, so that the kernel shares clients out
        listener = socket.create_server(address, backlog=1024, reuse_port=True)
        address = listener.getsockname()
        child = os.fork()
        if child == 0:
            asyncio.run(serve(listener, office(a.cured)))
            os._exit(0)
        listener.close()
        children.append(child)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(c, signal.SIGTERM) for c in children])
    print("ready %s:%d" % address, flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
