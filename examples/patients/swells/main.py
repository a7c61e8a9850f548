"""swells forecasts the sea at a harbour. The parent of its processes keeps itself to one processor,
so that it is in nobody's way, before it starts them: a process begins with the affinity of its
parent, so all of them share that processor, and the others have nothing to do.

Cured, each process may use all processors again."""
import argparse, asyncio, hashlib, json, math, os, random, signal, socket

from aiohttp import web

HOURS, HARBOURS = 168, 400
BUOYS = [
    {"name": "Buoy %d" % n, "north": n * 37 % 500, "east": n * 91 % 700,
     "height": 0.3 + n * 13 % 40 / 10, "period": 4 + n * 7 % 11}
    for n in range(240)
]


def near(harbour):
    """The buoys from which a swell comes to a harbour and the miles to them, the nearest first."""
    north, east = harbour * 53 % 500, harbour * 29 % 700
    miles = [(math.hypot(b["north"] - north, b["east"] - east), i) for i, b in enumerate(BUOYS)]
    return [(far, BUOYS[i]) for far, i in sorted(miles)[:8]]


def height(sources, hour):
    """How high the sea is in that hour: what comes from all of the buoys, by its energy."""
    energy = 0
    for far, buoy in sources:
        travelled = hour - far / (1.5 * buoy["period"])
        left = buoy["height"] * math.exp(-far / 400)
        energy += (left * (1 + 0.2 * math.cos(travelled / 2))) ** 2
    return round(math.sqrt(energy), 2)


def forecast(harbour):
    sources = near(harbour)
    hours = [{"hour": h, "metres": height(sources, h)} for h in range(HOURS)]
    calm = min(hours, key=lambda h: h["metres"])["hour"]
    names = [buoy["name"] for _, buoy in sources]
    return {"harbour": harbour, "from": names, "calm": calm, "hours": hours}


async def answer(request):
    body = json.dumps(forecast(random.randrange(HARBOURS))).encode() + b"\n"
    etag = '"%s"' % hashlib.sha1(body).hexdigest()
    return web.Response(body=body, content_type="application/json", headers={"ETag": etag})


async def serve(listener):
    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=120)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()


def start(listener, processors):
    """Starts a process that serves, on those processors if any are given."""
    child = os.fork()
    if child == 0:
        if processors:
            os.sched_setaffinity(0, processors)
        asyncio.run(serve(listener))
        os._exit(0)
    return child


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    host, port = a.address.rsplit(":", 1)
    children, address = [], (host, int(port))
    for _ in processors:  # each has its own socket, so that the kernel shares clients out
        listener = socket.create_server(address, backlog=1024, reuse_port=True)
        address = listener.getsockname()
        children.append(start(listener, processors if a.cured else None))
        listener.close()
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(c, signal.SIGTERM) for c in children])
    print("ready %s:%d" % address, flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
