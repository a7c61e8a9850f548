"""dockhands says who unloads a ship, for which it asks the office of the port. The office is
another process, under gunicorn, which asks the union how many gangs are free. It has two threads,
and each waits for the union meanwhile: so it serves two at a time, and the others wait for it.

Cured, the office has 64 threads."""
import argparse, asyncio, hashlib, os, random, signal, socket, subprocess, sys, threading
from http.client import HTTPConnection, HTTPException

import aiohttp
from aiohttp import web
from gunicorn.app.base import BaseApplication

PROCESSES, PATIENCE = 2, 10  # seconds that a request waits for the office
GANGS = [
    {"gang": "Gang %d" % n, "quay": n * 37 % 60, "cents": 1900 + n * 91 % 700}
    for n in range(400)
]


class Office(BaseApplication):
    """The office of the port, which knows whom to ask in the union."""

    def __init__(self, listener, threads):
        self.settings = {"bind": "fd://%d" % listener, "workers": 1,
                         "worker_class": "gthread", "threads": threads, "keepalive": 120,
                         "backlog": 1024, "graceful_timeout": 1, "loglevel": "warning"}
        self.own = threading.local()
        super().__init__()

    def load_config(self):
        for name, value in self.settings.items():
            self.cfg.set(name, value)

    def load(self):
        return self.answer

    def union(self, path):
        """What the union says. Each thread keeps its connection."""
        if not hasattr(self.own, "connection"):
            self.own.connection = HTTPConnection(os.environ["PATIENT_SERVICE"], timeout=PATIENCE)
        try:
            self.own.connection.request("GET", path)
            return self.own.connection.getresponse().read()
        except (OSError, HTTPException):
            del self.own.connection
            raise

    def answer(self, environ, start_response):
        try:
            status, body = "200 OK", self.union(environ["PATH_INFO"])
        except (OSError, HTTPException) as e:
            status, body = "502 Bad Gateway", b"%r\n" % e
        start_response(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
        return [body]


def choose(ship, free):
    """The gangs that are near the ship and cheap, the best first."""
    quay = ship * 53 % 60
    worth = sorted((abs(g["quay"] - quay) * 40 + g["cents"], g["gang"]) for g in GANGS)
    return [{"gang": name, "cents": cents, "seal": hashlib.sha256(name.encode()).hexdigest()}
            for cents, name in worth[:1 + free % 8]]


def port(office):
    async def session(app):
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
            app["client"] = client
            yield

    async def answer(request):
        ship = random.randrange(3000)
        url = "http://%s:%d/ships/%d" % (*office, ship)
        try:
            async with asyncio.timeout(PATIENCE):
                async with request.app["client"].get(url) as said:
                    said.raise_for_status()
                    free = int((await said.read()).split()[0])
        except (aiohttp.ClientError, asyncio.TimeoutError) as e:
            raise web.HTTPBadGateway(text="%r\n" % e)
        return web.json_response({"ship": ship, "free": free, "gangs": choose(ship, free)})

    app = web.Application()
    app.cleanup_ctx.append(session)
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
    p.add_argument("--office", type=int, help="be the office, on this socket")
    a = p.parse_args()
    if a.office is not None:
        Office(a.office, 64 if a.cured else 2).run()
        return
    inner = socket.create_server(("127.0.0.1", 0), backlog=1024)
    cured = ["--cured"] if a.cured else []
    office = subprocess.Popen([sys.executable, __file__, "--office", str(inner.fileno()), *cured],
                              pass_fds=[inner.fileno()])
    host, number = a.address.rsplit(":", 1)
    children, address = [], (host, int(number))
    for _ in range(PROCESSES):
        # Each has a socket of its own, or one of them would accept all that come at once.
        listener = socket.create_server(address, backlog=1024, reuse_port=True)
        address = listener.getsockname()
        child = os.fork()
        if child == 0:
            asyncio.run(serve(listener, port(inner.getsockname())))
            os._exit(0)
        listener.close()
        children.append(child)
    children.append(office.pid)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(c, signal.SIGTERM) for c in children])
    print("ready %s:%d" % address, flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
