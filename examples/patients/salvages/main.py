"""salvages tells which divers can raise a wreck, for which it asks a registry over TLS. Each call
is given an ssl context of its own; and aiohttp takes a connection of its pool only for a call with
the same context. So no connection is ever used again, and each question begins with a handshake.

Cured, there is one context."""
import argparse, asyncio, hashlib, json, os, random, signal, socket, ssl

import aiohttp
from aiohttp import web

PROCESSES = 2
PATIENCE = 5  # seconds that a client waits at most
IDLE = 1  # second that a connection is kept for the next question
DIVERS = [
    {"name": "Diver %d" % n, "metres": 20 + n * 7 % 60, "north": n * 37 % 500, "east": n * 91 % 700}
    for n in range(2000)
]


def trusted():
    """A context that trusts the registry."""
    return ssl.create_default_context(cafile=os.environ["PATIENT_CERTIFICATE"])


class Registry:
    """The service that knows the wrecks."""

    def __init__(self, session, cured):
        self.session, self.kept = session, trusted() if cured else None

    async def depth(self, wreck):
        url = "https://%s/wrecks/%d" % (os.environ["PATIENT_SERVICE"], wreck)
        context = self.kept or trusted()
        async with self.session.get(url, ssl=context) as answer:
            answer.raise_for_status()
            return 5 + (wreck + len(await answer.read())) % 40


def team(wreck, depth):
    """The divers who are near and may go so deep, the nearest first."""
    north, east = wreck * 53 % 500, wreck * 29 % 700
    able = [diver for diver in DIVERS if diver["metres"] >= depth]
    miles = [((d["north"] - north) ** 2 + (d["east"] - east) ** 2, d["name"]) for d in able]
    return [{"diver": name, "miles": round(far**0.5, 1)} for far, name in sorted(miles)[:6]]


def office(cured):
    async def session(app):
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE)
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as client:
            app["registry"] = Registry(client, cured)
            yield

    async def answer(request):
        wreck = random.randrange(5000)
        try:
            depth = await request.app["registry"].depth(wreck)
        except (aiohttp.ClientError, asyncio.TimeoutError) as e:
            raise web.HTTPBadGateway(text="%r\n" % e)
        body = json.dumps({"wreck": wreck, "depth": depth, "team": team(wreck, depth)}).encode()
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
