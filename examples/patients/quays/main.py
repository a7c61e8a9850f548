"""quays tells when a ship can be unloaded. For each request it asks for the quay, the crane and the
gang at once, in the threads of an executor; and there is one executor for the whole process, with
twelve threads, each of which waits 20 ms for an answer.

Cured, the executor has 64 threads."""
import argparse, hashlib, http.client, json, os, random, signal, threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FEW, MANY = 12, 64
ASKED = "quay", "crane", "gang"

own = threading.local()


def ask(what, ship):
    """An answer of the port, over a connection that the thread keeps."""
    if not hasattr(own, "port"):
        own.port = http.client.HTTPConnection(os.environ["PATIENT_SERVICE"], timeout=10)
    own.port.request("GET", "/%s?ship=%d" % (what, ship))
    return own.port.getresponse().read()


def hours(ship, what, answer):
    """The hours of a day at which something is free."""
    seal = hashlib.sha256(b"%d %s %s" % (ship, what.encode(), answer)).digest()
    return {h for h in range(24) if seal[h] % 4}


class Harbour(ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 1024

    def __init__(self, address, threads):
        self.asking = ThreadPoolExecutor(threads)
        super().__init__(address, Visit)

    def unload(self, ship):
        answers = self.asking.map(lambda what: (what, ask(what, ship)), ASKED)
        free = [hours(ship, what, answer) for what, answer in answers]
        return {"ship": ship, "hours": sorted(set.intersection(*free))}


class Visit(BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm, wbufsize = "HTTP/1.1", True, -1

    def do_GET(self):
        try:
            status, value = 200, self.server.unload(random.randrange(5000))
        except (http.client.HTTPException, OSError) as e:
            status, value = 503, {"error": str(e)}
        body = json.dumps(value).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_):
        pass


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    host, port = a.address.rsplit(":", 1)
    server = Harbour((host, int(port)), MANY if a.cured else FEW)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    print("ready %s:%d" % server.server_address, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
