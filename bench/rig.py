"""What the measurements share: the peers and their configurations, starting and stopping processes
on a CPU of their own, and what a process has used (CPU seconds and resident memory, from /proc)."""

import json, os, platform, re, resource, shutil, signal, socket, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "out")
BACKEND, ADMIN = 19000, 19905
PORTS = {"relay": 19001, "nginx": 19002, "haproxy": 19003, "plimsoll": 19004, "before": 19008}
HTTP2 = {"backend2": 19006, "nginx": 19007}
# The proxies have one CPU, the load and the backend another one, so that they do not take each
# other's time.
PROXY_CPU, LOAD_CPU = "0", "1"


def need(*programs):
    # Debian keeps servers where an ordinary user's PATH does not look.
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [p for p in programs if not shutil.which(p)]
    if missing:
        sys.exit(
            "missing programs: %s (scripts/tools.sh says or does what is needed)"
            % " ".join(missing)
        )
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("this needs two CPUs: one for the proxy, one for the load")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def certificate(tmp):
    crt, key = f"{tmp}/c.pem", f"{tmp}/k.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-keyout",
            key,
            "-out",
            crt,
            "-days",
            "30",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost,IP:127.0.0.1",
        ],
        check=True,
        capture_output=True,
    )
    with open(f"{tmp}/both.pem", "w") as both:
        both.write(open(crt).read() + open(key).read())
    return crt, key


def write(path, text):
    """Puts a file in place in one step: a reader meanwhile sees the old or the new one, whole."""
    with open(path + ".new", "w") as f:
        f.write(text)
    os.rename(path + ".new", path)


def nginx_conf(tmp, tls, version="1"):
    ng_tls = (
        f"ssl_certificate {tmp}/c.pem; ssl_certificate_key {tmp}/k.pem; ssl_protocols TLSv1.3;"
        if tls
        else ""
    )
    return f"""
worker_processes 1; worker_rlimit_nofile 20000; daemon off; pid {tmp}/nginx.pid; error_log {tmp}/nginx.err;
events {{ worker_connections 18000; multi_accept on; }}
http {{ access_log off; keepalive_requests 1000000000; keepalive_timeout 300; client_body_temp_path {tmp}/ct; proxy_temp_path {tmp}/pt;
  fastcgi_temp_path {tmp}/ft; uwsgi_temp_path {tmp}/ut; scgi_temp_path {tmp}/st;
  upstream b {{ server 127.0.0.1:{BACKEND}; keepalive 1024; keepalive_requests 1000000000; }}
  server {{ listen 127.0.0.1:{PORTS['nginx']} {'ssl' if tls else ''} reuseport backlog=4096; {ng_tls}
    location = /version {{ return 200 "{version}"; }}
    location / {{ proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_pass http://b; }} }} }}
"""


def http2_conf(tmp, body=128):
    """nginx as a service that speaks HTTP/2 without TLS, and answers with a body of its own."""
    return f"""
worker_processes 1; worker_rlimit_nofile 20000; daemon off; pid {tmp}/http2.pid; error_log {tmp}/http2.err crit;
events {{ worker_connections 10000; }}
http {{
  access_log off; keepalive_requests 1000000000; http2_max_concurrent_streams 1000;
  server {{ listen 127.0.0.1:{HTTP2['nginx']} http2 reuseport backlog=4096; location / {{ return 200 "{'x' * body}"; }} }}
}}
"""


def haproxy_cfg(tmp, tls):
    return f"""
global
  nbthread 1
  maxconn 9000
defaults
  mode http
  timeout connect 5s
  timeout client 300s
  timeout server 300s
  option http-keep-alive
  http-reuse always
frontend f
  bind 127.0.0.1:{PORTS['haproxy']} {f'ssl crt {tmp}/both.pem ssl-min-ver TLSv1.3' if tls else ''}
  option forwardfor
  default_backend b
backend b
  server s1 127.0.0.1:{BACKEND}
"""


def plimsoll_yaml(tmp, tls, version="1", name="plimsoll", admin=ADMIN):
    tls_yaml = (
        f"\n    tls: {{certificates: [{{cert: {tmp}/c.pem, key: {tmp}/k.pem}}]}}" if tls else ""
    )
    return f"""
listeners:
  - address: 127.0.0.1:{PORTS[name]}{tls_yaml}
    limits: {{idle_timeout: 5m}}
upstreams:
  b: {{targets: ["127.0.0.1:{BACKEND}"]}}
routes:
  - {{match: "/", upstream: b}}
  - {{match: /version, respond: {{status: 200, body: "{version}"}}}}
admin: {{address: "127.0.0.1:{admin}"}}
"""


class Rig:
    """A temporary folder with configurations, and the processes that were started in it. Leaving
    it stops them all."""

    def __init__(self, binary=None, tls=False, before=None):
        self.binary, self.tls, self.processes = os.path.abspath(binary) if binary else None, tls, {}
        self.before = (
            os.path.abspath(before) if before else None
        )  # another plimsoll, to compare with
        if self.binary and not os.access(self.binary, os.X_OK):
            sys.exit(f"{binary} is not a program: run `make build` first")

    def __enter__(self):
        self.tmp = tempfile.mkdtemp(prefix="plimsoll-bench-")
        os.chmod(self.tmp, 0o755)
        if self.tls:
            certificate(self.tmp)
        for name in ("backend", "backend2", "relay"):
            subprocess.run(
                ["gcc", "-O2", "-o", f"{self.tmp}/{name}", f"{HERE}/{name}.c"], check=True
            )
        write(f"{self.tmp}/nginx.conf", nginx_conf(self.tmp, self.tls))
        write(f"{self.tmp}/http2.conf", http2_conf(self.tmp))
        write(f"{self.tmp}/haproxy.cfg", haproxy_cfg(self.tmp, self.tls))
        write(f"{self.tmp}/plimsoll.yaml", plimsoll_yaml(self.tmp, self.tls))
        write(
            f"{self.tmp}/before.yaml",
            plimsoll_yaml(self.tmp, self.tls, name="before", admin=ADMIN + 1),
        )
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.tmp, ignore_errors=True)

    def command(self, name):
        return {
            "relay": [f"{self.tmp}/relay", str(PORTS["relay"]), str(BACKEND)],
            # nginx starts its new binary by the name it was called by, without a search.
            "nginx": [shutil.which("nginx"), "-p", self.tmp, "-c", f"{self.tmp}/nginx.conf"],
            "haproxy": ["haproxy", "-f", f"{self.tmp}/haproxy.cfg"],
            "plimsoll": [self.binary, "serve", "--config", f"{self.tmp}/plimsoll.yaml"],
            "before": [self.before, "serve", "--config", f"{self.tmp}/before.yaml"],
        }[name]

    def backend(self, body=128, cpu=LOAD_CPU):
        self._start("backend", cpu, [f"{self.tmp}/backend", str(BACKEND), str(body)], BACKEND)

    def http2(self, name, cpu, body=128):
        """Starts a service that speaks HTTP/2 without TLS: backend2, which costs next to
        nothing, or nginx."""
        command = {
            "backend2": [f"{self.tmp}/backend2", str(HTTP2["backend2"]), str(body)],
            "nginx": [shutil.which("nginx"), "-p", self.tmp, "-c", f"{self.tmp}/http2.conf"],
        }[name]
        self._start("http2-" + name, cpu, command, HTTP2[name])

    def proxy(self, name):
        self._start(name, PROXY_CPU, self.command(name), PORTS[name])

    def _start(self, name, cpu, command, port):
        if accepts(port):
            sys.exit(f"port {port} is taken: stop what listens there (an earlier run?)")
        log = open(f"{self.tmp}/{name}.log", "w")
        self.processes[name] = subprocess.Popen(
            ["taskset", "-c", cpu] + command, stdout=log, stderr=log, cwd=self.tmp
        )
        deadline = time.monotonic() + 10
        while not accepts(port):
            if self.processes[name].poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{name} did not start:\n" + self.log(name))
            time.sleep(0.05)

    def load(self, name, url, *flags):
        """Starts a generator, whose totals `totals` gives."""
        command = ["taskset", "-c", LOAD_CPU, self.binary, "load", url, "-t", "1", "--json", *flags]
        with (
            open(f"{self.tmp}/{name}.json", "w") as said,
            open(f"{self.tmp}/{name}.log", "w") as log,
        ):
            self.processes[name] = subprocess.Popen(command, stdout=said, stderr=log, cwd=self.tmp)

    def totals(self, name):
        """What a generator has counted, when it has ended. 3 says that it was the limit itself;
        its totals say why."""
        code = self.processes[name].wait()
        if code not in (0, 3):
            sys.exit(f"the generator {name} ended with {code}:\n" + self.log(name))
        with open(f"{self.tmp}/{name}.json") as said:
            return json.load(said)["totals"]

    def late(self, names):
        """What the generators say, by what each is called, that could not keep up."""
        said = {c: self.totals(name)["generator"].get("invalid") for c, name in names.items()}
        return [f"{c}: {why}" for c, why in said.items() if why]

    def log(self, name):
        return open(f"{self.tmp}/{name}.log", errors="replace").read()[-2000:]

    def pid(self, name):
        return self.processes[name].pid

    def stop(self):
        # A new binary's process is not the child of this one, but it has the folder's name in its
        # arguments.
        left = set(p.pid for p in self.processes.values() if p.poll() is None) | set(
            with_argument(self.tmp)
        )
        for pid in left:
            send(pid, signal.SIGTERM)
        for p in self.processes.values():
            try:
                p.wait(5)
            except subprocess.TimeoutExpired:
                p.kill()
        for pid in with_argument(self.tmp):
            send(pid, signal.SIGKILL)
        self.processes = {}


def accepts(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def send(pid, sig):
    try:
        os.kill(pid, sig)
    except ProcessLookupError:
        pass


def with_argument(text):
    """The processes whose command line contains a text, this one left out. Zombies have no
    command line."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if (
                name.isdigit()
                and int(name) != os.getpid()
                and text.encode() in open(f"/proc/{name}/cmdline", "rb").read()
            ):
                found.append(int(name))
        except OSError:
            pass
    return found


def tree(pid):
    pids, todo = [], [pid]
    while todo:
        p = todo.pop()
        pids.append(p)
        todo += [
            int(x)
            for x in subprocess.run(
                ["pgrep", "-P", str(p)], capture_output=True, text=True
            ).stdout.split()
        ]
    return pids


def cpu_seconds(pid):
    total = 0
    for p in tree(pid):
        try:
            f = open(f"/proc/{p}/stat").read().rsplit(")", 1)[1].split()
            total += int(f[11]) + int(f[12])
        except OSError:
            pass
    return total / os.sysconf("SC_CLK_TCK")


def waited_seconds(pid):
    """How long the threads of a process were ready to run and another program had their CPU."""
    total = 0
    for p in tree(pid):
        try:
            for thread in os.listdir(f"/proc/{p}/task"):
                total += int(open(f"/proc/{p}/task/{thread}/schedstat").read().split()[1])
        except OSError:
            pass
    return total / 1e9


def rss_kb(pid):
    total = 0
    for p in tree(pid):
        try:
            total += int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{p}/status").read()).group(1))
        except (OSError, AttributeError):
            pass
    return total


def machine(binary):
    """Lines that say what was measured on, for the head of a results file."""

    def first(*command):
        done = subprocess.run(command, capture_output=True, text=True)
        lines = (done.stdout + done.stderr).strip().splitlines()
        return lines[0] if lines else "unknown"

    cpu = re.search(r"model name\s*:\s*(.+)", open("/proc/cpuinfo").read())
    lines = [
        f"machine: {cpu.group(1) if cpu else platform.machine()}, {os.cpu_count()} CPUs; the proxy has CPU {PROXY_CPU}, load and backend have CPU {LOAD_CPU}",
        f"kernel: {platform.system()} {platform.release()}",
        "nginx: " + first("nginx", "-v").replace("nginx version: ", ""),
        "haproxy: " + first("haproxy", "-v"),
        "wrk: " + first("wrk", "-v"),
    ]
    if binary:
        lines.append("plimsoll: " + first(binary, "version"))
    return lines
