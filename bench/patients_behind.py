"""What stands behind patients that are not in Go: a service that takes its time, and a name server
that does. Each says in a line where it is, and serves until its standard input ends. Started by
patients_needs.py.

    python3 bench/patients_behind.py service 10      answers HTTP after 10 ms, however many requests
    there are python3 bench/patients_behind.py service 10 CERTIFICATE KEY     the same by HTTPS
    python3 bench/patients_behind.py resolver 10     answers DNS at 127.0.0.153 after 10 ms
"""

import asyncio, socket, ssl, sys

# RESOLVER is where the name server listens: port 53 of a loopback address that nobody else is
# likely to use.
RESOLVER = "127.0.0.153"

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nContent-Type: text/plain\r\n\r\n17 in stock\n"

# MOST is how much of a request is kept while its end is waited for.
MOST = 16384


class Service(asyncio.Protocol):
    """A connection: one request at a time, without a body."""

    def __init__(self, seconds):
        self.seconds, self.received = seconds, b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.received += data
        if b"\r\n\r\n" in self.received:
            self.received = b""
            asyncio.get_running_loop().call_later(self.seconds, self.transport.write, ANSWER)
        elif len(self.received) > MOST:
            self.transport.close()


class Resolver(asyncio.DatagramProtocol):
    """Every name has the address 127.0.0.1, and no other kind of record."""

    def __init__(self, seconds):
        self.seconds = seconds

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, client):
        end = data.find(b"\0", 12) + 5
        if end < 17 or len(data) < end:
            return
        question = data[12:end]
        has = question[-4:] == b"\0\1\0\1"  # an address, of the Internet
        head = data[:2] + b"\x81\x80\0\1" + (b"\0\1" if has else b"\0\0") + b"\0\0\0\0"
        record = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton("127.0.0.1") if has else b""
        answer = head + question + record
        asyncio.get_running_loop().call_later(self.seconds, self.transport.sendto, answer, client)


def tls(certificate, key):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context


async def serve(kind, seconds, *files):
    loop = asyncio.get_running_loop()
    if kind == "service":
        server = await loop.create_server(
            lambda: Service(seconds),
            "127.0.0.1",
            0,
            backlog=1024,
            ssl=tls(*files) if files else None,
        )
        print(server.sockets[0].getsockname()[1], flush=True)
    else:
        await loop.create_datagram_endpoint(lambda: Resolver(seconds), (RESOLVER, 53))
        print(RESOLVER, flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], float(sys.argv[2]) / 1000, *sys.argv[3:]))
