"""lights shows when lighthouses are lit. It is asynchronous, and as the library that asks the
authority blocks, it is called with asyncio.to_thread, which is right. But the threads are those of
the loop's own executor, which has four more than there are processors, and the authority takes 40
ms.

Cured, the executor has 64 threads."""

import argparse, asyncio, hashlib, json, os, signal, socket, threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

from aiohttp import web

PROCESSES, MANY = 2, 64
LIGHTS = [
    {
        "name": "Skerry %d" % n,
        "metres": 9 + n * 7 % 60,
        "miles": 5 + n % 19,
        "flash": "Fl(%d) %ds" % (1 + n % 4, 5 + n % 15),
    }
    for n in range(400)
]
own = threading.local()


def notice():
    """Asks the authority for the last notice to mariners, over a connection that the thread
    keeps."""
    if not hasattr(own, "authority"):
        own.authority = HTTPConnection(os.environ["PATIENT_SERVICE"], timeout=10)
    own.authority.request("GET", "/notice")
    return hashlib.sha1(own.authority.getresponse().read()).hexdigest()


def visible(miles):
    """The lights that can be seen from so far, the brightest first."""
    seen = [
        dict(light, horizon=round(2.08 * light["metres"] ** 0.5, 1))
        for light in LIGHTS
        if light["miles"] >= miles
    ]
    return sorted(seen, key=lambda light: (-light["miles"], light["name"]))[:20]


async def answer(request):
    miles = request.query.get("miles", "12")
    if not miles.isdecimal():
        raise web.HTTPBadRequest(text="miles is a number\n")
    number = await asyncio.to_thread(notice)
    return web.json_response({"notice": number, "lights": visible(int(miles))})


async def serve(listener, cured):
    if cured:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(MANY))
    app = web.Application()
    app.router.add_get("/", answer)
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
            asyncio.run(serve(listener, a.cured))
            os._exit(0)
        children.append(child)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(c, signal.SIGTERM) for c in children])
    print("ready %s:%d" % listener.getsockname(), flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
