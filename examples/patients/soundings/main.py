"""soundings tells how deep the water is around a place. It is made with http.server, which answers
with HTTP/1.0 unless it is told otherwise, so each connection ends after one answer, and each
request begins with a new one, and with a thread for it.

Cured, it answers with HTTP/1.1, and connections are kept."""
import argparse, hashlib, json, os, random, signal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WIDE = 80
DEPTHS = [[round(4 + (x * 37 + y * 53) % 290 / 10, 1) for x in range(WIDE)] for y in range(WIDE)]


def around(x, y):
    """The depths next to a place, and how they change."""
    near = [(i, j) for i in range(x - 3, x + 4) for j in range(y - 3, y + 4)]
    depths = {"%d,%d" % (i, j): DEPTHS[j % WIDE][i % WIDE] for i, j in near}
    least, most = min(depths.values()), max(depths.values())
    return {"depths": depths, "least": least, "slope": round(most - least, 1)}


class Survey(BaseHTTPRequestHandler):
    disable_nagle_algorithm, wbufsize = True, -1

    def do_GET(self):
        body = json.dumps(around(random.randrange(WIDE), random.randrange(WIDE))).encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("ETag", '"%s"' % hashlib.sha1(body).hexdigest())
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_):
        pass


class Modern(Survey):
    protocol_version = "HTTP/1.1"


class Server(ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 1024


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    host, port = a.address.rsplit(":", 1)
    server = Server((host, int(port)), Modern if a.cured else Survey)
    server.socket.setblocking(False)  # another process may have taken the client
    children = []
    for _ in range(os.cpu_count()):
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
            server.serve_forever()
        children.append(child)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(c, signal.SIGTERM) for c in children])
    print("ready %s:%d" % server.server_address, flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
