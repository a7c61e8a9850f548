"""gilreport makes a small sales report for each request, with a thread for each connection. The
threads share the interpreter's lock, so together they compute on one processor, whatever the
machine has.

Cured, the same server runs in two processes for each processor, which accept from one socket."""

import argparse, html, json, os, random, signal, socket, statistics
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from string import Template
from urllib.parse import parse_qs, urlsplit

REGIONS = ("north", "east", "south", "west")
PAGE = Template(
    "<!doctype html><title>$title</title><h1>$title</h1><table>$rows</table>"
    "<script type=\"application/json\">$data</script>\n"
)


def ledger():
    """Orders of a year, the same each time."""
    r = random.Random(1)
    return [
        {
            "id": i,
            "region": r.choice(REGIONS),
            "month": r.randrange(12),
            "cents": r.randrange(500, 90000),
            "customer": "%s & Sons" % r.choice(("Ames", "Byrd", "Cole", "Dunn")),
        }
        for i in range(16000)
    ]


ORDERS = ledger()


def report(month):
    """Turnover by region and by customer."""
    orders = [o for o in ORDERS if o["month"] == month]
    rows, data = [], {}
    for region in REGIONS:
        cents = sorted(o["cents"] for o in orders if o["region"] == region)
        data[region] = {
            "orders": len(cents),
            "sum": sum(cents),
            "median": statistics.median(cents) if cents else 0,
        }
        rows.append(
            "<tr><td>%s<td>%d<td>%.2f" % (html.escape(region), len(cents), sum(cents) / 100)
        )
    customers = {}
    for o in orders:
        customers[o["customer"]] = customers.get(o["customer"], 0) + o["cents"]
    for name, cents in sorted(customers.items(), key=lambda pair: -pair[1]):
        rows.append("<tr><td>%s<td><td>%.2f" % (html.escape(name), cents / 100))
    return PAGE.substitute(
        title="Month %d" % (month + 1), rows="".join(rows), data=json.dumps(data)
    )


class Reports(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        asked = parse_qs(urlsplit(self.path).query).get("month", ["3"])[0]
        if not asked.isdigit() or int(asked) > 11:
            self.send_error(400, "month is 0 to 11")
            return
        body = report(int(asked)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, listener):
        super().__init__(listener.getsockname(), Reports, bind_and_activate=False)
        self.socket.close()
        self.socket = listener


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--address", default="127.0.0.1:18800")
    p.add_argument("--cured", action="store_true")
    a = p.parse_args()
    host, port = a.address.rsplit(":", 1)
    listener = socket.create_server((host, int(port)), backlog=1024)
    children = []
    for _ in range(2 * os.cpu_count() if a.cured else 0):
        child = os.fork()
        if child == 0:
            Server(listener).serve_forever()
        children.append(child)

    def end(*_):
        for child in children:
            os.kill(child, signal.SIGTERM)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    print("ready %s:%d" % listener.getsockname(), flush=True)
    if children:
        os.waitpid(children[0], 0)
    else:
        Server(listener).serve_forever()


if __name__ == "__main__":
    main()
