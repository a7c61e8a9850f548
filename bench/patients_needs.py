"""What the patients need around them, one context manager for each: a PostgreSQL, a Redis, a
service to ask, a network namespace, a cgroup. It ends, and leaves nothing behind, when its block is
left, however that is. What this machine cannot give raises Missing, which says why.

Each yields what has to be changed for the sake of it: "service" and "survey" are words before these
commands, "environment" is for the service. patients.json names them: "postgres", {"need":
"postgres", "connections": 12}, {"need": "cgroup", "cores": 0.5}, {"need": "netns", "ports": 1000}.

A command of your own can have one too, for as long as it runs:

    python3 bench/patients_needs.py '{"need": "postgres", "connections": 12}' go run
    ./examples/patients/poolabove
"""

import contextlib, fcntl, glob, json, os, pwd, shutil, signal, socket, subprocess, sys, tempfile
import time

import patients_behind

# How long a need may take to begin and to end, in seconds.
BEGIN, END = 60, 20


class Missing(OSError):
    """This machine cannot give what a patient needs."""


@contextlib.contextmanager
def postgres(connections=100):
    """A PostgreSQL of the patient's own on a loopback port, which takes that many connections at
    most. It writes to a temporary folder and syncs nothing. The service finds it by
    PATIENT_DATABASE."""
    binaries = sorted(
        glob.glob("/usr/lib/postgresql/*/bin"), key=lambda p: int(p.split("/")[4].split(".")[0])
    )
    if not binaries:
        raise Missing("PostgreSQL is not installed: apt-get install postgresql")
    as_user, owner = server_user()
    folder = tempfile.mkdtemp(prefix="patient-postgres-")
    server = None
    try:
        os.chown(folder, *owner)
        data, port = os.path.join(folder, "data"), str(free_port())
        make_cluster(as_user + [binaries[-1] + "/initdb"], data)
        log = os.path.join(folder, "log")
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": port,
            "unix_socket_directories": folder,
            "fsync": "off",
            "max_connections": str(connections),
            "superuser_reserved_connections": "0",
            "autovacuum": "off",
        }
        with open(log, "w") as f:
            server = subprocess.Popen(
                as_user
                + [binaries[-1] + "/postgres", "-D", data]
                + [w for k, v in settings.items() for w in ("-c", k + "=" + v)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=f,
                stderr=f,
                start_new_session=True,
            )
        wait_for(
            server,
            "PostgreSQL",
            [
                binaries[-1] + "/pg_isready",
                "-q",
                "-h",
                "127.0.0.1",
                "-p",
                port,
                "-U",
                "patient",
                "-d",
                "postgres",
            ],
            log,
        )
        yield {
            "environment": {
                "PATIENT_DATABASE": "postgres://patient@127.0.0.1:%s/postgres?sslmode=disable"
                % port
            }
        }
    finally:
        if server is not None:
            stop(server, signal.SIGINT)  # "fast": it sends its clients away and ends
        shutil.rmtree(folder, ignore_errors=True)


def make_cluster(initdb, data):
    """The files of a new PostgreSQL. Where PATIENT_CLUSTER names a folder they are made once and
    kept there, and the others are copies: it is for tests, which need many. The databases that
    others would be made from are dropped then, since they are two thirds of what is copied."""
    options = ["-U", "patient", "-A", "trust", "--no-sync", "-E", "UTF8", "--no-locale"]
    kept = os.environ.get("PATIENT_CLUSTER")
    if kept is None:
        make(initdb + options + ["-D", data])
        return
    first = os.path.join(kept, "data")
    with open(os.path.join(kept, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(first):
            make(initdb + options + ["-D", data])
            alone = [os.path.join(os.path.dirname(initdb[-1]), "postgres"), "--single", "-D", data]
            make(initdb[:-1] + alone + ["postgres"], WITHOUT_TEMPLATES)
            make(["cp", "-a", data, first])
            return
    make(["cp", "-a", first, data])


WITHOUT_TEMPLATES = """UPDATE pg_database SET datistemplate = false
DROP DATABASE template0
DROP DATABASE template1
"""


def make(words, says=""):
    """Runs a command that is part of making a PostgreSQL, and says that to it."""
    made = subprocess.run(
        words, cwd="/", input=says, capture_output=True, text=True, timeout=BEGIN
    )
    if made.returncode != 0:
        raise Missing(words[-1] + " was not made: " + made.stderr.strip()[-300:])


@contextlib.contextmanager
def redis():
    """A Redis of the patient's own on a loopback port, which keeps nothing on disk. The service
    finds it by PATIENT_REDIS."""
    program = shutil.which("redis-server")
    if not program:
        raise Missing("Redis is not installed: apt-get install redis-server")
    folder, port, server = tempfile.mkdtemp(prefix="patient-redis-"), free_port(), None
    try:
        log = os.path.join(folder, "log")
        with open(log, "w") as f:
            server = subprocess.Popen(
                [
                    "setpriv",
                    "--pdeathsig",
                    "TERM",
                    "--",
                    program,
                    "--bind",
                    "127.0.0.1",
                    "--port",
                    str(port),
                    "--dir",
                    folder,
                    "--save",
                    "",
                    "--appendonly",
                    "no",
                ],
                stdin=subprocess.DEVNULL,
                stdout=f,
                stderr=f,
                start_new_session=True,
            )
        wait_for(server, "Redis", ["redis-cli", "-p", str(port), "ping"], log)
        yield {"environment": {"PATIENT_REDIS": "127.0.0.1:%d" % port}}
    finally:
        if server is not None:
            stop(server, signal.SIGTERM)
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def service(milliseconds, tls=False):
    """A service that answers each request after a while, however many there are: HTTP/1.1 on a
    loopback port. The patient finds it by PATIENT_SERVICE, as HOST:PORT. With tls it is HTTPS, and
    PATIENT_CERTIFICATE is a file with the certificate to trust."""
    with contextlib.ExitStack() as stack:
        files, environment = [], {}
        if tls:
            files = self_signed(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="patient-certificate-"))
            )
            environment["PATIENT_CERTIFICATE"] = files[0]
        port = stack.enter_context(helper("service", milliseconds, *files))
        yield {"environment": {"PATIENT_SERVICE": "127.0.0.1:" + port, **environment}}


def self_signed(folder):
    """A certificate for 127.0.0.1, and its key."""
    files = [os.path.join(folder, name) for name in ("certificate.pem", "key.pem")]
    try:
        made = subprocess.run(
            [
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=patient",
                "-addext",
                "subjectAltName=IP:127.0.0.1",
                "-out",
                files[0],
                "-keyout",
                files[1],
            ],
            capture_output=True,
            text=True,
            timeout=BEGIN,
        )
    except FileNotFoundError:
        raise Missing("openssl is not installed: apt-get install openssl")
    if made.returncode != 0:
        raise Missing("openssl made no certificate: " + made.stderr.strip()[-300:])
    return files


@contextlib.contextmanager
def resolver(milliseconds):
    """A name server that answers each question after a while, with an address of its own machine.
    The patient has it in /etc/resolv.conf, in a mount namespace of its own."""
    if os.geteuid() != 0:
        raise Missing("a mount namespace needs root: run this as root")
    with (
        tempfile.NamedTemporaryFile("w", prefix="patient-resolv-") as file,
        helper("resolver", milliseconds),
    ):
        file.write("nameserver %s\n" % patients_behind.RESOLVER)
        file.flush()
        os.chmod(file.name, 0o644)
        yield {
            "service": [
                "unshare",
                "--mount",
                "sh",
                "-c",
                'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"',
                "enter",
                file.name,
            ]
        }


@contextlib.contextmanager
def helper(*words):
    """A program of patients_behind.py; it ends with us as it waits for us to close its input.
    Yields what it says when it is ready."""
    program = subprocess.Popen(
        [sys.executable, "-B", patients_behind.__file__] + [str(w) for w in words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        said = program.stdout.readline().strip()
        if not said:
            raise Missing("the %s behind the patient did not start" % words[0])
        yield said
    finally:
        program.stdin.close()
        stop(program, signal.SIGTERM)
        program.stdout.close()


def server_user():
    """What makes a command run as a user that PostgreSQL accepts, and that user's ids. It ends
    with us even if we are killed."""
    if os.geteuid() != 0:
        return ["setpriv", "--pdeathsig", "INT", "--"], (os.getuid(), os.getgid())
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        raise Missing(
            "PostgreSQL refuses to run as root, and there is no user postgres: apt-get install postgresql"
        )
    return (
        [
            "setpriv",
            "--reuid",
            "postgres",
            "--regid",
            str(user.pw_gid),
            "--init-groups",
            "--pdeathsig",
            "INT",
            "--",
        ],
        (user.pw_uid, user.pw_gid),
    )


def wait_for(server, name, question, log):
    """Asks until the answer is yes, at most BEGIN seconds."""
    until = time.monotonic() + BEGIN
    while (
        subprocess.run(
            question, timeout=BEGIN, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ).returncode
        != 0
    ):
        if server.poll() is not None or time.monotonic() > until:
            with open(log) as f:
                raise Missing("%s did not start: %s" % (name, f.read()[-300:]))
        time.sleep(0.1)


@contextlib.contextmanager
def netns(ports=28232):
    """A network namespace of the patient's own, with loopback and nothing else, and that many local
    ports for connections that are opened in it. The survey runs inside too. The namespace lives as
    long as its keeper, which ends with us as it waits for us to close its input."""
    if os.geteuid() != 0:
        raise Missing("a network namespace needs root: run this as root")
    keeper = subprocess.Popen(
        [
            "unshare",
            "--net",
            "sh",
            "-c",
            'ip link set lo up && echo "$1" >/proc/sys/net/ipv4/ip_local_port_range && echo made && exec cat',
            "keeper",
            "32768 %d" % (32768 + ports - 1),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        if keeper.stdout.readline() != "made\n":
            raise Missing(
                "no network namespace could be made: " + keeper.stderr.read()[-300:].strip()
            )
        enter = ["nsenter", "--net", "--target", str(keeper.pid), "--"]
        yield {"service": enter, "survey": enter}
    finally:
        keeper.stdin.close()
        stop(keeper, signal.SIGTERM)
        keeper.stdout.close()
        keeper.stderr.close()


@contextlib.contextmanager
def cgroup(cores):
    """A cgroup whose processes may use that many cores, by cgroup v1 or v2. The service is put
    into it; the survey is not."""
    folder = cpu_hierarchy()
    period = 100_000
    quota = int(cores * period)
    path = os.path.join(folder, "plimsoll-patient-%d" % os.getpid())
    try:
        os.mkdir(path)
    except OSError as e:
        raise Missing(
            "no cgroup can be made (%s): run this as root, where the cpu controller is writable" % e
        )
    try:
        try:
            if os.path.exists(os.path.join(path, "cpu.cfs_quota_us")):
                write(path, "cpu.cfs_period_us", period)
                write(path, "cpu.cfs_quota_us", quota)
            else:
                write(path, "cpu.max", "%d %d" % (quota, period))
        except OSError as e:
            raise Missing("the cgroup takes no quota: %s" % e)
        # A shell puts itself into the group and becomes the service, so that the service never runs
        # outside.
        yield {
            "service": [
                "sh",
                "-c",
                'echo $$ >"$1" && shift && exec "$@"',
                "enter",
                os.path.join(path, "cgroup.procs"),
            ]
        }
    finally:
        remove_cgroup(path)


def cpu_hierarchy():
    """Where groups of the cpu controller are made: v1's own mount, or v2's where it has the
    controller."""
    unified = None
    with open("/proc/self/mounts") as f:
        for mount in f:
            _, path, kind, options = mount.split()[:4]
            if kind == "cgroup" and "cpu" in options.split(","):
                return path
            if kind == "cgroup2":
                unified = path
    if unified:
        with open(os.path.join(unified, "cgroup.controllers")) as f:
            if "cpu" in f.read().split():
                with contextlib.suppress(
                    OSError
                ):  # on already, or the mkdir that follows says what is wrong
                    write(unified, "cgroup.subtree_control", "+cpu")
                return unified
    raise Missing("this machine offers no cpu controller for cgroups")


def remove_cgroup(path):
    """A group goes once its processes have; one that will not end is killed, as it is ours."""
    until = time.monotonic() + END
    while True:
        try:
            os.rmdir(path)
            return
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > until:
                raise
        with open(os.path.join(path, "cgroup.procs")) as f:
            for pid in f.read().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.05)


def write(folder, name, value):
    with open(os.path.join(folder, name), "w") as f:
        f.write(str(value))


def free_port():
    """A loopback port that nobody listens on now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def stop(process, sign):
    """Ends a process that we started, by force when it does not listen."""
    process.send_signal(sign)
    try:
        process.wait(END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


NEEDS = {
    "postgres": postgres,
    "redis": redis,
    "service": service,
    "resolver": resolver,
    "netns": netns,
    "cgroup": cgroup,
}


def main():
    """Runs a command with what it needs around it. Its exit code is the command's, or 2 when
    there is no such need, or it cannot be provided."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    need = json.loads(sys.argv[1])
    name = need.pop("need")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with NEEDS[name](**need) as given:
            command = subprocess.Popen(
                given.get("service", []) + sys.argv[2:],
                env={**os.environ, **given.get("environment", {})},
            )
            try:
                code = command.wait()
            finally:
                if command.returncode is None:
                    stop(command, signal.SIGTERM)
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except Missing as why:
        print(why, file=sys.stderr)
        code = 2
    sys.exit(code)


if __name__ == "__main__":
    main()
