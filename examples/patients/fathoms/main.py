"""fathoms tells how much water a ship has under its keel on a course, for which it asks a store of
charts for the depths. The store is an nginx, and aiohttp tells it that it takes gzip: so nginx
compresses the chart for each request, at level 6, though charts never change, and is busy with
that.

Cured, nginx has gzip_static on, and sends the files that were compressed when they were made."""
import argparse, asyncio, contextlib, gzip, json, os, random, shutil, signal, socket, subprocess
import sys, tempfile, time

import aiohttp
from aiohttp import web

PROCESSES, CHARTS, SIDE = 2, 40, 90  # a chart has a depth for each place of a square
PATIENCE = 5  # seconds that the store is waited for at most
LATE = 10  # seconds that it may take to start
LEVEL = 6
COMPRESS = "gzip on; gzip_comp_level %d; gzip_types application/json;" % LEVEL
COMPRESSED = "gzip_static on;"
CONFIG = """
%(user)s
daemon off;
pid %(folder)s/pid;
error_log stderr emerg;
worker_processes auto;
events { worker_connections 1024; }
http {
    access_log off;
    types { application/json json; }
    keepalive_timeout 120s;
    keepalive_requests 10000000;
    sendfile on;
    open_file_cache max=1000 inactive=1h;
    %(gzip)s
    server {
        listen 127.0.0.1:%(port)d backlog=1024;
        root %(folder)s/charts;
    }
}
"""


def draw(number):
    """The depths of a chart, in decimetres: a bottom with hills, and what the lead found."""
    lead, depths, row = random.Random(number), [], [300] * SIDE
    for _ in range(SIDE):
        row = [max(20, depth + lead.randrange(-8, 9)) for depth in row]
        depths.append(row)
    return {"chart": number, "unit": "dm", "depths": depths}


@contextlib.contextmanager
def store(setting):
    """Runs the nginx that has the charts, and yields its port."""
    folder = tempfile.mkdtemp(prefix="patient-charts-")
    nginx = None
    try:
        os.chmod(folder, 0o755)
        os.mkdir(os.path.join(folder, "charts"))
        for number in range(CHARTS):
            file = os.path.join(folder, "charts", "%d.json" % number)
            text = json.dumps(draw(number)).encode()
            for name, body in (file, text), (file + ".gz", gzip.compress(text, LEVEL)):
                with open(name, "wb") as f:
                    f.write(body)
        with socket.socket() as s:  # nginx does not say which port it took
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        config = os.path.join(folder, "nginx.conf")
        with open(config, "w") as f:
            user = "user root;" if os.geteuid() == 0 else ""
            f.write(CONFIG % {"user": user, "folder": folder, "gzip": setting, "port": port})
        nginx = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", "--",
                                  "nginx", "-p", folder, "-c", config])
        reach(nginx, port)
        yield port
    finally:
        if nginx is not None:
            nginx.terminate()
            nginx.wait()
        shutil.rmtree(folder, ignore_errors=True)


def reach(nginx, port):
    """Waits until nginx can be reached."""
    until = time.monotonic() + LATE
    while True:
        with contextlib.suppress(OSError):
            return socket.create_connection(("127.0.0.1", port)).close()
        if nginx.poll() is not None or time.monotonic() > until:
            sys.exit("nginx did not start")
        time.sleep(0.05)


def under(depths, draught, start, end):
    """The water under the keel on a straight course from the west of a chart to its east."""
    course = [depths[start + (end - start) * x // SIDE][x] - draught for x in range(SIDE)]
    least = min(course)
    return {"draught": draught, "from": start, "to": end, "least": least,
            "where": course.index(least), "mean": round(sum(course) / SIDE, 1),
            "fathoms": [round(water / 18.288, 1) for water in course]}


def pilot(port):
    async def session(app):
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as client:
            app["client"] = client
            yield

    async def answer(request):
        url = "http://127.0.0.1:%d/%d.json" % (port, random.randrange(CHARTS))
        try:
            async with request.app["client"].get(url) as found:
                found.raise_for_status()
                chart = await found.json()
        except (aiohttp.ClientError, asyncio.TimeoutError) as e:
            raise web.HTTPBadGateway(text="%r\n" % e)
        start, end = random.randrange(SIDE), random.randrange(SIDE)
        keel = under(chart["depths"], random.randrange(20, 120), start, end)
        return web.json_response({"chart": chart["chart"], **keel})

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
    a = p.parse_args()
    host, port = a.address.rsplit(":", 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # which ends nginx, too
    with store(COMPRESSED if a.cured else COMPRESS) as charts:
        children, address = [], (host, int(port))
        for _ in range(PROCESSES):  # each has its own socket: the kernel shares clients out
            listener = socket.create_server(address, backlog=1024, reuse_port=True)
            address = listener.getsockname()
            child = os.fork()
            if child == 0:
                asyncio.run(serve(listener, pilot(charts)))
                os._exit(0)
            listener.close()
            children.append(child)
        signal.signal(signal.SIGTERM, lambda *_: [os.kill(c, signal.SIGTERM) for c in children])
        print("ready %s:%d" % address, flush=True)
        for child in children:
            os.waitpid(child, 0)


if __name__ == "__main__":
    main()
