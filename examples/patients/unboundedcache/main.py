"""unboundedcache greets each visitor with what it recommends, and remembers every recommendation
that it ever made, by visitor. Most visitors come once, so its memory grows with each request. There
is a process for each processor.

Cured, it remembers those of the last 256 visitors."""

import argparse, asyncio, functools, itertools, json, os, signal, socket
from html import escape

from aiohttp import web

CATALOGUE = [
    {"sku": "P%04d" % i, "title": "Shackle & pin no. %d" % i, "cents": 120 + 7 * i % 4000}
    for i in range(1500)
]

visits = itertools.count(1)


def recommend(visitor):
    """The dozen things out of the catalogue that are nearest to a visitor's taste, as the page
    shows them."""
    taste = visitor * 7919 % 4000
    near = sorted(CATALOGUE, key=lambda thing: (abs(thing["cents"] - taste), thing["sku"]))[:12]
    return [
        "<li><a href=\"/things/%s?from=%d\">%s</a> <b>%.2f</b></li>"
        % (thing["sku"], visitor, escape(thing["title"]), thing["cents"] / 100)
        for thing in near
    ]


def shop(remember):
    remembered = remember(recommend)

    async def page(request):
        visitor = request.cookies.get("visitor", "")
        visitor = int(visitor) if visitor.isdigit() else next(visits)
        items = remembered(visitor)
        answer = web.Response(
            content_type="text/html",
            text="<!doctype html><ul>%s</ul><script>let visit = %s</script>\n"
            % ("".join(items), json.dumps({"visitor": visitor, "shown": len(items)})),
        )
        answer.set_cookie("visitor", str(visitor))
        return answer

    app = web.Application()
    app.router.add_get("/", page)
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
    for _ in range(os.cpu_count()):
        child = os.fork()
        if child == 0:
            asyncio.run(
                serve(listener, shop(functools.lru_cache(maxsize=256 if a.cured else None)))
            )
            os._exit(0)
        children.append(child)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(c, signal.SIGTERM) for c in children])
    print("ready %s:%d" % listener.getsockname(), flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
