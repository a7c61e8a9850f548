"""helmsmen finds helmsmen who know a fairway, for which it asks the pilots' office over TLS. It
makes an aiohttp.ClientSession for each request, and the connections are the session's: so each
question begins with a handshake.

Cured, there is one session for as long as a process lives."""

import argparse, asyncio, contextlib, hashlib, json, os, random, signal, socket, ssl

import aiohttp
from aiohttp import web

PROCESSES = 2
FAIRWAYS = 3000
PATIENCE = aiohttp.ClientTimeout(total=5)  # the office is waited for so long at most
HELMSMEN = [
    {"name": "Helmsman %d" % n, "draught": 3 + n * 7 % 15, "years": n * 13 % 40, "home": n % 61}
    for n in range(2600)
]


class Office:
    """The service that knows how deep the fairways are."""

    def __init__(self, kept):
        self.kept = kept  # the session that is used for all questions, if there is one
        self.trusted = ssl.create_default_context(cafile=os.environ["PATIENT_CERTIFICATE"])

    @contextlib.asynccontextmanager
    async def session(self):
        if self.kept:
            yield self.kept
        else:
            async with aiohttp.ClientSession(timeout=PATIENCE) as session:
                yield session

    async def depth(self, fairway):
        url = "https://%s/fairways/%d" % (os.environ["PATIENT_SERVICE"], fairway)
        async with self.session() as session, session.get(url, ssl=self.trusted) as answer:
            answer.raise_for_status()
            return 4 + (fairway + len(await answer.read())) % 13


def able(fairway, depth):
    """The helmsmen who may steer a ship there, who has done it for long first."""
    home = fairway % 61
    those = [h for h in HELMSMEN if h["draught"] >= depth]
    those.sort(key=lambda h: (abs(h["home"] - home), -h["years"], h["name"]))
    return [{"helmsman": h["name"], "years": h["years"]} for h in those[:8]]


def service(cured):
    async def office(app):
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=PATIENCE, connector=connector) as session:
            app["office"] = Office(session if cured else None)
            yield

    async def answer(request):
        fairway = random.randrange(FAIRWAYS)
        try:
            depth = await request.app["office"].depth(fairway)
        except (aiohttp.ClientError, asyncio.TimeoutError) as e:
            raise web.HTTPBadGateway(text="%r\n" % e)
        value = {"fairway": fairway, "depth": depth, "able": able(fairway, depth)}
        body = json.dumps(value).encode()
        etag = '"%s"' % hashlib.sha1(body).hexdigest()
        return web.Response(body=body, content_type="application/json", headers={"ETag": etag})

    app = web.Application()
    app.cleanup_ctx.append(office)
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
            asyncio.run(serve(listener, service(a.cured)))
            os._exit(0)
        listener.close()
        children.append(child)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(c, signal.SIGTERM) for c in children])
    print("ready %s:%d" % address, flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
