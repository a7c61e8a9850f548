#!/usr/bin/env python3
"""Runs the Autobahn test suite against two WebSocket services, directly and through the gateway,
and compares each case's result. It needs Python 2.7 with autobahntestsuite 0.8.2 (python2 -m pip
install autobahntestsuite 'txaio==2.10.0' 'autobahn==0.10.9' 'Twisted==20.3.0'), and Go.

    bench/autobahn.py --python2 python2.7 [--cases '1.*,5.*']

Without --cases it runs all 517, those of 9, 12 and 13 with large messages included, which take an
hour on a busy machine. Exit code 1: a case differs."""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

KINDS = ["coder", "gorilla"]
RUNNER = "import txaio; txaio.use_twisted(); from autobahntestsuite import wstest; wstest.run()"


def ports(n):
    """Ports that are free now."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    found = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return found


def wait(port):
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"nothing listens on port {port}")


def differences(report):
    for kind in KINDS:
        direct, through = report[kind + "-direct"], report[kind + "-gateway"]
        print(f"{kind}: {len(direct)} cases directly, {len(through)} through the gateway")
        for case in sorted(direct.keys() | through.keys()):
            a, b = (
                [r.get(case, {}).get(k) for k in ("behavior", "behaviorClose")]
                for r in (direct, through)
            )
            if a != b:
                yield f"{kind} {case}: {a} directly, {b} through the gateway"


def main():
    args = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    args.add_argument("--python2", default="python2.7", help="with the test suite")
    args.add_argument("--cases", default="*", help="patterns, by commas")
    args = args.parse_args()
    work, (gateway, *services) = tempfile.mkdtemp(), ports(1 + len(KINDS))
    for what in ["bench/wsecho", "cmd/plimsoll"]:
        subprocess.run(
            ["go", "build", "-o", f"{work}/{os.path.basename(what)}", f"./{what}"], check=True
        )
    config = {"listeners": [{"address": f"127.0.0.1:{gateway}"}], "upstreams": {}, "routes": []}
    servers, running = [], []
    for kind, port in zip(KINDS, services):
        running.append(
            subprocess.Popen([f"{work}/wsecho", "-listen", f"127.0.0.1:{port}", "-kind", kind])
        )
        config["upstreams"][kind] = {"targets": [f"127.0.0.1:{port}"]}
        config["routes"].append({"match": f"/{kind}", "upstream": kind})
        for way, at in (("direct", port), ("gateway", gateway)):
            servers.append(
                {
                    "agent": f"{kind}-{way}",
                    "url": f"ws://127.0.0.1:{at}/{kind}",
                    "options": {"version": 18},
                }
            )
    config["routes"][0]["websocket"] = {"ping_interval": "1s", "max_message": "100MB"}
    spec = {
        "options": {"failByDrop": False},
        "outdir": f"{work}/reports",
        "servers": servers,
        "cases": args.cases.split(","),
        "exclude-cases": [],
        "exclude-agent-cases": {},
    }
    for name, value in (("plimsoll.yaml", config), ("spec.json", spec)):
        with open(f"{work}/{name}", "w", encoding="utf-8") as f:
            json.dump(value, f)
    try:
        running.append(
            subprocess.Popen([f"{work}/plimsoll", "serve", "-c", f"{work}/plimsoll.yaml"])
        )
        for port in [gateway, *services]:
            wait(port)
        subprocess.run(
            [
                args.python2,
                "-W",
                "ignore",
                "-c",
                RUNNER,
                "-m",
                "fuzzingclient",
                "-s",
                f"{work}/spec.json",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    finally:
        for process in running:
            process.terminate()
    with open(f"{work}/reports/index.json", encoding="utf-8") as f:
        found = list(differences(json.load(f)))
    print("\n".join(found) or "no case differs")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
