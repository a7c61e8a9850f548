"""blockedloop is asynchronous, but for one call: the warehouse is asked with a library that blocks,
so the event loop stands still for 5 ms with each request. There are two processes, each with a
loop.

Cured, the warehouse is asked with a client that waits in the loop."""

import argparse, asyncio, hashlib, http.client, os, signal, socket

from aiohttp import ClientSession, ClientTimeout, TCPConnector, web

PROCESSES = 2
WORK = 300  # rounds of honest work, each of a microsecond


def shop(ask):
    async def answer(_):
        text = await ask()
        for _ in range(WORK):
            text = hashlib.sha256(text).digest()
        return web.Response(text=text.hex() + "\n")

    return answer


def blocking():
    warehouse = http.client.HTTPConnection(os.environ["PATIENT_SERVICE"])

    async def ask():
        warehouse.request("GET", "/")
        return warehouse.getresponse().read()

    return ask


def waiting():
    client = ClientSession(connector=TCPConnector(limit=0), timeout=ClientTimeout(total=10))

    async def ask():
        async with client.get("http://%s/" % os.environ["PATIENT_SERVICE"]) as answer:
            return await answer.read()

    return ask


async def serve(listener, cured):
    app = web.Application()
    app.router.add_get("/", shop(waiting() if cured else blocking()))
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
