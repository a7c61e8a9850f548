"""pennants draws the flags that a ship has to hoist for a message. An asyncio service draws and packs
them in its loop, and there is one process, so that it works on one processor.

Cured, there is a process for each processor."""
import argparse, asyncio, hashlib, os, random, signal, socket, zlib

from aiohttp import web

WIDE, HIGH = 24, 16
COLOURS = [bytes(c) for c in ((255, 255, 255), (200, 0, 0), (0, 0, 160), (240, 220, 0), (0, 0, 0))]
WORDS = "pilot doctor anchor fire diver stop keep clear engine astern tug fishing".split()


def flag(letter):
    """The rows of a flag."""
    seal = hashlib.sha256(letter.encode()).digest()
    kind, one, other = seal[0] % 3, COLOURS[seal[1] % 5], COLOURS[seal[2] % 5]
    rows = []
    for y in range(HIGH):
        dots = []
        for x in range(WIDE):
            first = (x < WIDE // 2, y < HIGH // 2, (x // 6 + y // 4) % 2 == 0)[kind]
            dots.append(one if first else other)
        rows.append(b"".join(dots))
    return rows


def picture(text):
    """A message as a picture, its flags side by side."""
    flags = [flag(letter) for letter in text]
    rows = b"".join(b"\0" + b"".join(f[y] for f in flags) for y in range(HIGH))
    return zlib.compress(rows, 6)


async def answer(request):
    text = "".join(random.sample(WORDS, 3))[:12]
    body = picture(text)
    return web.Response(body=body, content_type="application/octet-stream",
                        headers={"X-Message": text})


async def serve(listener):
    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=120)
    await runner.setup()
    await web.SockSite(runner, listener, backlog=1024).start()
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
    for _ in range(len(os.sched_getaffinity(0)) if a.cured else 1):
        child = os.fork()
        if child == 0:
            asyncio.run(serve(listener))
            os._exit(0)
        children.append(child)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(c, signal.SIGTERM) for c in children])
    print("ready %s:%d" % listener.getsockname(), flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
