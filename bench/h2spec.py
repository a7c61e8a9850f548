#!/usr/bin/env python3
"""Runs h2spec, strict, against the gateway in front of a service, with TLS: a listener without TLS
speaks HTTP/1.1 too, and answers in it what does not begin as HTTP/2 does, which h2spec takes for a
failure. It needs Go, which fetches and builds h2spec, and openssl.

    bench/h2spec.py [--runs 5]

Exit code 1: a case has failed in one of the runs."""

import argparse
import http.server
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

H2SPEC = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"


class Service(http.server.BaseHTTPRequestHandler):
    """Answers whatever it is asked once it has the request whole."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            while (n := int(self.rfile.readline(), 16)) > 0:
                self.rfile.read(n + 2)
            while self.rfile.readline().strip():
                pass
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    do_POST = do_GET

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        """Connections that the gateway gives up are part of the test."""


def port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def build(work):
    """h2spec's own module file is of another time, so it is built in a module beside."""
    os.mkdir(f"{work}/module")
    with open(f"{work}/module/go.mod", "w", encoding="utf-8") as f:
        f.write("module h2spec.local\n")
    go = dict(os.environ, GOFLAGS="-mod=mod")
    for command in (["get", H2SPEC], ["build", "-o", f"{work}/h2spec", H2SPEC.split("@")[0]]):
        subprocess.run(
            ["go", *command], cwd=f"{work}/module", env=go, check=True, stderr=subprocess.DEVNULL
        )
    subprocess.run(["go", "build", "-o", f"{work}/plimsoll", "./cmd/plimsoll"], check=True)


def main():
    args = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    args.add_argument("--runs", type=int, default=5)
    args = args.parse_args()
    work, secure, failed = tempfile.mkdtemp(), port(), False
    build(work)
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-keyout",
            f"{work}/key.pem",
            "-out",
            f"{work}/cert.pem",
        ],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    service = Server(("127.0.0.1", 0), Service)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    certificates = [{"cert": f"{work}/cert.pem", "key": f"{work}/key.pem"}]
    config = {
        "listeners": [{"address": f"127.0.0.1:{secure}", "tls": {"certificates": certificates}}],
        "upstreams": {"s": {"targets": [f"127.0.0.1:{service.server_port}"]}},
        "routes": [{"match": "/", "upstream": "s"}],
    }
    with open(f"{work}/plimsoll.yaml", "w", encoding="utf-8") as f:
        json.dump(config, f)
    gateway = subprocess.Popen(
        [f"{work}/plimsoll", "serve", "-c", f"{work}/plimsoll.yaml"], stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", secure), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        for run in range(1, args.runs + 1):
            done = subprocess.run(
                [f"{work}/h2spec", "-S", "-t", "-k", "-h", "127.0.0.1", "-p", str(secure)],
                capture_output=True,
                text=True,
                check=False,
            )
            told = re.findall(r"^\d+ tests, .*$", done.stdout, re.M)
            print(
                f"run {run}: {told[-1] if told else done.stderr.strip() or 'no result'}", flush=True
            )
            if done.returncode or not told or "0 skipped, 0 failed" not in told[-1]:
                failed = True
                print(done.stdout[done.stdout.find("Failures:") :])
    finally:
        gateway.terminate()
        gateway.wait()
    sys.exit(failed)


if __name__ == "__main__":
    main()
