#!/usr/bin/env python3
"""What the cache spares the service behind it, and what memory it takes, each measured once on a
whole gateway:

  crowd   10,000 clients ask at once for one thing that is not stored and takes the service 200 ms:
          requests that reach the service
  guard   1,000,000 random keys that do not exist, with a guard of 100,000 keys at 1 % false
          positives: the share that reaches it
  churn   four times the cache's size goes through it, no two responses for one URL: the process's
          resident memory over the bound

  cache_figures.py --plimsoll ./plimsoll [crowd guard churn]

Needs as many descriptors as there are clients: ulimit -n 20000. About a minute.
"""

import argparse, asyncio, os, random, resource, signal, subprocess, sys, tempfile, time, urllib.request

import rig

GATEWAY, SERVICE, ADMIN = 19080, 19081, 19082


class Service:
    """An HTTP/1.1 service that counts what it is asked."""

    def __init__(self, body, delay=0.0):
        self.asked, self.body, self.delay = 0, body, delay

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", SERVICE)
        return self

    async def __aexit__(self, *what):
        self.server.close()

    async def serve(self, reader, writer):
        head = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: %d\r\n\r\n" % len(
            self.body
        )
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.asked += 1
                if self.delay:
                    await asyncio.sleep(self.delay)
                writer.write(head + self.body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        writer.close()


class Gateway:
    """A gateway with a route, given as further keys of it, and further keys of the
    configuration."""

    def __init__(self, binary, route, more=""):
        self.binary, self.route, self.more = binary, route, more

    def __enter__(self):
        self.tmp = tempfile.TemporaryDirectory()
        path = os.path.join(self.tmp.name, "plimsoll.yaml")
        rig.write(
            path,
            f"""
listeners: [{{address: "127.0.0.1:{GATEWAY}", limits: {{max_connections: 12000}}}}]
upstreams: {{s: {{targets: ["127.0.0.1:{SERVICE}"]}}}}
routes: [{{match: "/k/{{id}}", upstream: s, {self.route.replace("DIR", self.tmp.name)}}}]
admin: {{address: "127.0.0.1:{ADMIN}"}}
{self.more}
""",
        )
        return self

    def start(self):
        self.process = subprocess.Popen(
            [self.binary, "serve", "-c", os.path.join(self.tmp.name, "plimsoll.yaml")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(600):
            if rig.accepts(GATEWAY):
                return
            time.sleep(0.05)
        sys.exit("the gateway does not start")

    def __exit__(self, *what):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.tmp.cleanup()


def request(key):
    return b"GET /k/%s HTTP/1.1\r\nHost: a\r\n\r\n" % key.encode()


async def ask_once(gate, statuses):
    reader, writer = await asyncio.open_connection("127.0.0.1", GATEWAY)
    gate["open"] += 1
    await gate["go"].wait()
    writer.write(request("one"))
    status = (await reader.readuntil(b"\r\n\r\n"))[9:12]
    statuses[status] = statuses.get(status, 0) + 1
    writer.close()


async def crowd(binary, clients):
    async with Service(b"x" * 1000, delay=0.2) as service:
        with Gateway(binary, "cache: {}") as gateway:
            gateway.start()
            gate, statuses = {"open": 0, "go": asyncio.Event()}, {}
            tasks = [asyncio.create_task(ask_once(gate, statuses)) for _ in range(clients)]
            while gate["open"] < clients:
                await asyncio.sleep(0.05)
            gate["go"].set()
            await asyncio.gather(*tasks)
    print(
        f"crowd: {clients} clients for one key: {service.asked} requests reach the service; statuses {statuses}",
        flush=True,
    )


async def pipelined(keys, batch=50):
    """Asks for keys on one connection, some at a time, and counts the responses by status."""
    reader, writer = await asyncio.open_connection("127.0.0.1", GATEWAY, limit=1 << 22)
    statuses = {}
    for at in range(0, len(keys), batch):
        part = keys[at : at + batch]
        writer.write(b"".join(map(request, part)))
        for _ in part:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            statuses[head[9:12]] = statuses.get(head[9:12], 0) + 1
    writer.close()
    return statuses


async def guard(binary, requests):
    known = 100_000
    async with Service(b"not there") as service:
        with Gateway(
            binary, 'guard: {key: "path:id", file: DIR/keys.txt, false_positives: 1%}'
        ) as gateway:
            rig.write(
                os.path.join(gateway.tmp.name, "keys.txt"),
                "".join(f"known{n}\n" for n in range(known)),
            )
            gateway.start()
            while f'plimsoll_guard_keys{{route="/k/{{id}}"}} {known}'.encode() not in metrics():
                await asyncio.sleep(0.1)
            r = random.Random(13)
            conns = 8
            counts = await asyncio.gather(
                *(
                    pipelined([f"{r.getrandbits(64):x}" for _ in range(requests // conns)])
                    for _ in range(conns)
                )
            )
    refused = sum(c.get(b"404", 0) for c in counts)
    print(
        f"guard: of {requests} keys that do not exist {service.asked} reach the service ({100 * service.asked / requests:.2f} %); "
        f"{refused} are refused",
        flush=True,
    )


def metrics():
    return urllib.request.urlopen(f"http://127.0.0.1:{ADMIN}/metrics").read()


async def churn(binary, bound):
    size = 20_000
    async with Service(b"x" * size) as service:
        with Gateway(binary, "cache: {}", f"cache: {{memory: {bound >> 20}MB}}") as gateway:
            gateway.start()
            idle, worst = rig.rss_kb(gateway.process.pid), 0
            for step in range(40):
                n = 4 * bound // size // 40
                await asyncio.gather(
                    *(
                        pipelined([f"{step}-{conn}-{key}" for key in range(n // 8)], batch=4)
                        for conn in range(8)
                    )
                )
                worst = max(worst, rig.rss_kb(gateway.process.pid))
            stored = [
                line
                for line in metrics().decode().splitlines()
                if line.startswith("plimsoll_cache_memory_bytes")
            ]
    print(
        f"churn: {service.asked} responses of {size} bytes through {bound >> 20} MB: at most {worst >> 10} MB resident, "
        f"{worst * 1024 / bound:.2f} of the bound ({idle >> 10} MB before); {stored}",
        flush=True,
    )


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--plimsoll", required=True, help="the binary")
    p.add_argument("--clients", type=int, default=10_000)
    p.add_argument("--keys", type=int, default=1_000_000)
    p.add_argument("--memory", type=int, default=256, help="of the cache under churn, MB")
    p.add_argument("figures", nargs="*", default=["crowd", "guard", "churn"])
    a = p.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for figure in a.figures:
        asyncio.run(
            {
                "crowd": lambda: crowd(a.plimsoll, a.clients),
                "guard": lambda: guard(a.plimsoll, a.keys),
                "churn": lambda: churn(a.plimsoll, a.memory << 20),
            }[figure]()
        )


if __name__ == "__main__":
    main()
