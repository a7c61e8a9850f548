"""Tells which stanchions of a ship's rail may be leaned on: it takes the wind that a weather
service gives for the berth, and works out the bending of each stanchion. The service is
asynchronous, but the library that asks for the wind is an older one, which is not: it waits for
the answer within the coroutine, and while it waits, the event loop can do nothing for anybody
else.

Cured, the wind is asked for by aiohttp's own client, so that other requests go on meanwhile.
"""

import argparse
import asyncio
import http.client
import math
import os
import random
import signal
import zlib

import aiohttp
from aiohttp import web

BERTHS = 200
STANCHIONS = 24
# The section modulus of a stanchion's foot, in cubic centimetres, and what its steel bears, in
# newtons per square millimetre.
MODULUS, BEARS = 4.2, 160
# As many questions may be on their way to the weather service at once.
QUESTIONS = 500


class OldWeather:
    """Asks the weather service by the library that all of the port's programs use. It keeps its
    connection."""

    def __init__(self, address):
        self.connection = http.client.HTTPConnection(address, timeout=10)

    async def observation(self, berth):
        """What the weather service says about a berth."""
        try:
            return self.ask(berth)
        except ConnectionError:
            # the weather service may close a connection that nobody used for a while
            self.connection.close()
            return self.ask(berth)

    def ask(self, berth):
        self.connection.request("GET", "/wind?berth=%d" % berth)
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise OSError("the weather service answered %d" % answer.status)
        return body

    async def close(self):
        self.connection.close()


class Weather:
    """Asks the weather service without holding anybody up."""

    def __init__(self, address):
        self.url = "http://%s/wind" % address
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=QUESTIONS),
            timeout=aiohttp.ClientTimeout(total=10),
        )

    async def observation(self, berth):
        """What the weather service says about a berth."""
        async with self.session.get(self.url, params={"berth": berth}) as answer:
            answer.raise_for_status()
            return await answer.read()

    async def close(self):
        await self.session.close()


class Rails:
    """What is known of the ship at each berth."""

    def __init__(self, weather):
        self.weather = weather
        self.heights = [
            [0.9 + (berth * 5 + n * 3) % 9 / 20 for n in range(STANCHIONS)]
            for berth in range(BERTHS)
        ]

    async def report(self, _):
        """Answers with the stanchions of a berth."""
        berth = random.randrange(BERTHS)
        wind = speed(berth, await self.weather.observation(berth))
        lines = ["berth %d, wind %.1f m/s" % (berth, wind)]
        for number, height in enumerate(self.heights[berth]):
            stress = bending(height, wind)
            verdict = "holds" if stress < BEARS else "KEEP OFF"
            lines.append("%2d %4.2f m %6.1f N/mm2 %s" % (number + 1, height, stress, verdict))
        return web.Response(text="\n".join(lines) + "\n")


def speed(berth, observation):
    """The wind at a berth, in metres per second: the observation, for how open the berth is."""
    return 4 + zlib.crc32(observation) % 90 / 10 + berth % 7 * 0.6


def bending(height, wind):
    """The stress in a stanchion's foot when somebody leans on its top in that wind."""
    lean = 450 + 0.6 * wind**2
    spray = sum(0.05 * wind**2 * math.exp(-step / 4) for step in range(8))
    return (lean * height + spray * height / 2) / MODULUS


async def serve(flags, service):
    """Serves until it is told to stop."""
    weather = Weather(service) if flags.cured else OldWeather(service)
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    app = web.Application()
    app.router.add_get("/", Rails(weather).report)
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=60)
    await runner.setup()
    host, port = flags.address.rsplit(":", 1)
    await web.TCPSite(runner, host, int(port), shutdown_timeout=1, backlog=4096).start()
    print("ready %s:%d" % runner.addresses[0], flush=True)
    await stop.wait()
    await runner.cleanup()
    await weather.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default="127.0.0.1:18800")
    parser.add_argument("--debug", help="there is nothing to look inside")
    parser.add_argument("--cured", action="store_true", help="without the disease")
    flags = parser.parse_args()
    service = os.environ.get("PATIENT_SERVICE")
    if not service:
        parser.error("PATIENT_SERVICE is not set: give it as 127.0.0.1:8080")
    asyncio.run(serve(flags, service))


if __name__ == "__main__":
    main()
