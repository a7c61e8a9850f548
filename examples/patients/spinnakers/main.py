"""Tells a crew which spinnaker to hoist, and which angle to sail downwind, from the wind that a
buoy near the boat measures. The service that knows the buoys is asked over HTTP, through a client
that came from a program without asyncio: it keeps its connection, but it blocks until the answer is
there. It is called in the event loop, so in the meantime the loop does nothing for other requests.

Cured, the same client is called in threads, and each of 32 threads has a connection of its own.
"""

import argparse
import asyncio
import concurrent.futures
import http.client
import math
import os
import random
import signal
import threading
import zlib

from aiohttp import web

BUOYS, BOATS = 60, 300
# How many may ask the service of the buoys at once, cured.
THREADS = 32
# Sails, with the apparent wind in knots that each stands, and how full it is cut.
SAILS = (
    ("A1 light air", 9, 1.15),
    ("A2 runner", 16, 1.0),
    ("S2 all purpose", 20, 0.97),
    ("A3 reacher", 24, 0.9),
    ("S4 heavy air", 32, 0.82),
    ("A5 storm", 45, 0.7),
)
ANGLES = range(110, 180)


class Buoys:
    """The client of the service that knows the buoys. It has a connection for each thread."""

    def __init__(self, address):
        self.address = address
        self.local = threading.local()

    def connection(self):
        if not hasattr(self.local, "connection"):
            self.local.connection = http.client.HTTPConnection(self.address, timeout=5)
        return self.local.connection

    def measured(self, buoy):
        """What a buoy last sent."""
        connection = self.connection()
        try:
            connection.request("GET", "/?buoy=%d" % buoy)
            answer = connection.getresponse()
            sent = answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            raise
        if answer.status != 200:
            raise http.client.HTTPException("the buoys answered %d" % answer.status)
        return sent


def speed(boat, fullness, wind, angle):
    """How fast a boat is, in knots, at an angle to the wind."""
    hull = 8 + boat % 7
    drive = wind * fullness * math.sin(math.radians(angle * 0.93)) ** 0.6
    return hull * math.tanh(drive / hull)


def apparent(wind, angle, knots):
    """The wind that is felt on board."""
    return math.hypot(wind * math.cos(math.radians(angle)) + knots,
                      wind * math.sin(math.radians(angle)))


def best(boat, wind):
    """The sail and the angle that bring a boat downwind fastest: speed, sail, angle."""
    choices = [(0.0, "none", 180)]
    for sail, most, fullness in SAILS:
        for angle in ANGLES:
            knots = speed(boat, fullness, wind, angle)
            if apparent(wind, angle, knots) <= most:
                choices.append((-knots * math.cos(math.radians(angle)), sail, angle))
    return max(choices)


def advice(boat, buoy, sent):
    wind = 4 + (zlib.crc32(sent) + buoy * 37) % 260 / 10
    downwind, sail, angle = best(boat, wind)
    return "boat %d, buoy %d: wind %.1f kn\nhoist %s, sail %d degrees, %.2f kn downwind\n" % (
        boat, buoy, wind, sail, angle, downwind)


class Service:
    """Answers the crews."""

    def __init__(self, buoys, cured):
        self.buoys = buoys
        self.threads = concurrent.futures.ThreadPoolExecutor(THREADS) if cured else None

    async def measured(self, buoy):
        if self.threads is None:
            return self.buoys.measured(buoy)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.threads, self.buoys.measured, buoy)

    async def answer(self, _):
        boat, buoy = random.randrange(BOATS), random.randrange(BUOYS)
        try:
            sent = await self.measured(buoy)
        except (OSError, http.client.HTTPException) as error:
            raise web.HTTPBadGateway(text="%s\n" % error)
        return web.Response(text=advice(boat, buoy, sent))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default="127.0.0.1:18800")
    parser.add_argument("--cured", action="store_true", help="without the disease")
    flags = parser.parse_args()
    address = os.environ.get("PATIENT_SERVICE")
    if not address:
        parser.error("PATIENT_SERVICE is not set: give it as 127.0.0.1:8080")
    asyncio.run(serve(flags.address, Service(Buoys(address), flags.cured)))


async def serve(address, service):
    """Serves until the process is told to stop."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    application = web.Application()
    application.router.add_get("/", service.answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    host, port = address.rsplit(":", 1)
    await web.TCPSite(runner, host, int(port), shutdown_timeout=1, backlog=1024).start()
    print("ready %s:%d" % runner.addresses[0], flush=True)
    await stop.wait()
    await runner.cleanup()


if __name__ == "__main__":
    main()
