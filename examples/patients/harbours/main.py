"""harbours shows how many different ships called at a harbour in the last 150 days. Redis has a
HyperLogLog for each day, and is asked for the PFCOUNT of 150 of them at once: it keeps no such
answer, so it merges the 150 for each request, on its one thread.

Cured, it is asked for the PFCOUNT of the one key into which PFMERGE put the 150 days when the
last was over. Redis keeps the count of a single key with it."""
import argparse, asyncio, hashlib, os, random, signal, socket

import redis, redis.asyncio
from aiohttp import web

PROCESSES, HARBOURS, DAYS, SHIPS = 2, 12, 150, 700  # SHIPS are those of a harbour in a day
BERTHS = 220  # of a harbour


def fill(store):
    """The ships of each day, and those of all of these days, which are over. Many come again."""
    for harbour in range(HARBOURS):
        pipe = store.pipeline(transaction=False)
        for day in range(DAYS):
            first = harbour * 100_000 + day * SHIPS // 3
            pipe.pfadd(key(harbour, day), *range(first, first + SHIPS))
        pipe.pfmerge(key(harbour, "season"), *days(harbour))
        pipe.execute()


def key(harbour, when):
    return "ships:%d:%s" % (harbour, when)


def days(harbour):
    """The keys of the last 150 days."""
    return [key(harbour, day) for day in range(DAYS)]


def season(harbour):
    """The key that has all of these days."""
    return [key(harbour, "season")]


def berths(harbour, ships):
    """How the berths of a harbour share that many ships, the busiest first."""
    shares = []
    for berth in range(BERTHS):
        seal = hashlib.sha256(b"%d %d" % (harbour, berth)).digest()
        shares.append({"berth": berth, "share": 20 + seal[0] + seal[1] / 256})
    total = sum(s["share"] for s in shares)
    for s in shares:
        s["ships"] = round(ships * s["share"] / total, 1)
    return sorted(shares, key=lambda s: (-s["ships"], s["berth"]))[:12]


def register(keys):
    async def store(app):
        host, port = os.environ["PATIENT_REDIS"].split(":")
        app["redis"] = redis.asyncio.Redis(host=host, port=int(port))  # its pool keeps connections
        yield
        await app["redis"].close()

    async def answer(request):
        harbour = random.randrange(HARBOURS)
        try:
            ships = await request.app["redis"].pfcount(*keys(harbour))
        except redis.RedisError as e:
            raise web.HTTPServiceUnavailable(text="%r\n" % e)
        return web.json_response(
            {"harbour": harbour, "ships": ships, "berths": berths(harbour, ships)})

    app = web.Application()
    app.cleanup_ctx.append(store)
    app.router.add_get("/", answer)
    return app


async def serve(listener, app):
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=120)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()
    await runner.cleanup()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    store = os.environ["PATIENT_REDIS"].split(":")
    fill(redis.Redis(store[0], int(store[1])))
    host, port = a.address.rsplit(":", 1)
    children, address = [], (host, int(port))
    for _ in range(PROCESSES):
        # Each has a socket of its own, or one of them would accept all that come at once.
        listener = socket.create_server(address, backlog=1024, reuse_port=True)
        address = listener.getsockname()
        child = os.fork()
        if child == 0:
            asyncio.run(serve(listener, register(season if a.cured else days)))
            os._exit(0)
        listener.close()
        children.append(child)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(c, signal.SIGTERM) for c in children])
    print("ready %s:%d" % address, flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
