"""bulkheads gives out packing lists with a signature, which customs can check: an asyncio service
with a process for each processor. How to sign was taken over from a shell script: the openssl
program is started for each list, and most of the processor time goes into that.

Cured, Python's own module hmac makes the same signature."""

import argparse, asyncio, hashlib, hmac, json, os, random, signal, socket

from aiohttp import web

KEY = "the key that customs gave us"
LINES = 800  # of a packing list
GOODS = ["timber", "wool", "rum", "hemp", "tar", "canvas", "salt", "pepper"]


async def sign_with_openssl(text):
    words = ["openssl", "dgst", "-sha256", "-hmac", KEY, "-r"]
    openssl = await asyncio.create_subprocess_exec(
        *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await openssl.communicate(text)
    if openssl.returncode != 0:
        raise RuntimeError("openssl ended with %d" % openssl.returncode)
    return said.split()[0].decode()


async def sign_with_hmac(text):
    return hmac.new(KEY.encode(), text, hashlib.sha256).hexdigest()


def packing_list(number):
    """What is in the cases, by their numbers, and the weight of each sort of goods."""
    chosen = random.Random(number)
    lines, weights = [], {}
    for case in range(LINES):
        goods, tons = chosen.choice(GOODS), chosen.randint(1, 400)
        lines.append({"case": case, "goods": goods, "tons": tons})
        weights[goods] = weights.get(goods, 0) + tons
    lines.sort(key=lambda line: (line["goods"], -line["tons"]))
    return json.dumps({"list": number, "lines": lines, "weights": weights}).encode()


def customs(sign):
    async def answer(_):
        text = packing_list(random.randint(1, 1_000_000))
        headers = {"Signature": await sign(text)}
        return web.Response(body=text, content_type="application/json", headers=headers)

    return answer


async def serve(listener, cured):
    app = web.Application()
    app.router.add_get("/", customs(sign_with_hmac if cured else sign_with_openssl))
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=120)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()
    os._exit(0)  # asyncio.run would wait for requests that are inside


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
            asyncio.run(serve(listener, a.cured))
        children.append(child)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(c, signal.SIGTERM) for c in children])
    print("ready %s:%d" % listener.getsockname(), flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
