"""buoys tells where the buoys of a fairway lie. Its socket has a backlog of one, as in many an
example, and its clients make a connection for each request. While an event loop makes pages, more
of them come than have room, so that the kernel drops what they send to connect, and they try again
a second later.

Cured, the backlog is 1024."""

import argparse, asyncio, hashlib, math, os, signal, socket
from html import escape

from aiohttp import web

FEW, MANY = 1, 1024
BUOYS = [
    {
        "name": "Nun & can %d" % n,
        "north": 54 + n * 37 % 900 / 1000,
        "east": 10 + n * 53 % 900 / 1000,
        "light": "Q(%d)" % (1 + n % 9),
    }
    for n in range(700)
]


def far(a, b):
    """The nautical miles between two buoys."""
    across = (a["east"] - b["east"]) * math.cos(math.radians((a["north"] + b["north"]) / 2))
    return 60 * math.hypot(a["north"] - b["north"], across)


async def answer(request):
    at = BUOYS[int.from_bytes(os.urandom(2), "big") % len(BUOYS)]
    near = sorted((b for b in BUOYS if b is not at), key=lambda b: (far(at, b), b["name"]))[:20]
    rows = "".join(
        "<tr><td>%s<td>%s<td>%.2f" % (escape(b["name"]), b["light"], far(at, b)) for b in near
    )
    page = "<!doctype html><title>%s</title><table>%s</table>\n" % (escape(at["name"]), rows)
    return web.Response(
        text=page,
        content_type="text/html",
        headers={"ETag": '"%s"' % hashlib.sha1(page.encode()).hexdigest()},
    )


async def serve(listener, backlog):
    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=120)
    await runner.setup()
    await web.SockSite(runner, listener, backlog=backlog).start()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    host, port = a.address.rsplit(":", 1)
    backlog = MANY if a.cured else FEW
    listener = socket.create_server((host, int(port)), backlog=backlog)
    children = []
    for _ in range(os.cpu_count()):
        child = os.fork()
        if child == 0:
            asyncio.run(serve(listener, backlog))
            os._exit(0)
        children.append(child)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(c, signal.SIGTERM) for c in children])
    print("ready %s:%d" % listener.getsockname(), flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
