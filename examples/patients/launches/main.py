"""launches says which launch brings a crew ashore. What it has to tell others of that, it tells in
tasks, which it keeps in a set, as asyncio itself keeps no hold of them. Nothing takes a task out
when it is done, so tasks and what they returned stay for ever, and all are counted in each request.

Cured, a task is taken out when it is done."""
import argparse, asyncio, hashlib, json, math, os, random, signal, socket

from aiohttp import web

TOLD = "pier", "ship", "customs", "harbourmaster"
LAUNCHES = [{"name": "Launch & tender %d" % n, "x": n * 37 % 90, "y": n * 53 % 70, "seats": 4 + n % 9}
            for n in range(600)]


class Pier:
    """Where launches are sent from."""

    def __init__(self, cured):
        self.cured, self.telling = cured, set()

    async def tell(self, who, launch):
        """The letter that somebody is sent."""
        await asyncio.sleep(0.002)
        return "To the %s: %s\n" % (who, hashlib.sha256(launch["name"].encode()).hexdigest()) * 12

    def later(self, who, launch):
        task = asyncio.get_running_loop().create_task(self.tell(who, launch), name=who)
        self.telling.add(task)
        if self.cured:
            task.add_done_callback(self.telling.discard)

    def under_way(self, who):
        """How many letters somebody has not had yet."""
        return sum(1 for task in self.telling if task.get_name() == who and not task.done())

    async def answer(self, request):
        x, y, crew = random.randrange(90), random.randrange(70), random.randrange(4, 9)
        fitting = [(math.hypot(l["x"] - x, l["y"] - y), l["name"], l) for l in LAUNCHES if l["seats"] >= crew]
        near = [{"metres": round(100 * far), **launch} for far, _, launch in sorted(fitting, key=lambda f: f[:2])[:9]]
        for who in TOLD:
            self.later(who, near[0])
        body = json.dumps({"launches": near, "letters": {who: self.under_way(who) for who in TOLD}}) + "\n"
        return web.Response(text=body, content_type="application/json",
                            headers={"ETag": '"%s"' % hashlib.sha1(body.encode()).hexdigest()})


async def serve(listener, cured):
    app = web.Application()
    app.router.add_get("/", Pier(cured).answer)
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
    for _ in range(os.cpu_count()):
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
