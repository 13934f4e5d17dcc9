"""The parts of a fleet that fleet_chaos.py starts, kills and cuts off: a PostgreSQL server, network namespaces, machines,
tuners, and a witness that notes which records were acknowledged."""
import glob
import json
import os
import shutil
import signal
import subprocess
import threading
import time

TASKS = """version: 1
target: {{kind: cpu, threads: 1}}
budget: {{trials: {trials}, min_gain: 0}}
tasks:
  - {{name: {name}, op: matmul, args: {{M: {m}, N: 128, K: 64}}}}
  - {{name: {name}_rows, op: softmax, args: {{M: {m}, N: 64}}}}
"""
NETWORK = "10.213.77"
START = time.monotonic()
BRIDGE = f"twc{os.getpid() % 100000}"


def say(text):
    print(f"{time.monotonic() - START:7.1f} s  {text}", flush=True)


def alive(process):
    return process is not None and process.poll() is None


class Server:
    """A PostgreSQL server in a folder of its own, run by the user postgres."""

    def __init__(self, folder, address):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]))
        self.programs, self.folder, self.address = found[-1], folder, address
        self.port = 20000 + os.getpid() % 20000
        self.process, self.kills, self.started = None, 0, 0.0
        os.chmod(folder, 0o755)
        shutil.chown(folder, "postgres")
        self.run("initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
        with open(f"{folder}/data/postgresql.conf", "a") as file:
            file.write(f"port = {self.port}\nlisten_addresses = '127.0.0.1,{address}'\n"
                       f"unix_socket_directories = '{folder}'\nmax_connections = 100\nshared_buffers = 32MB\n"
                       "min_wal_size = 32MB\nmax_wal_size = 64MB\n")
        with open(f"{folder}/data/pg_hba.conf", "a") as file:
            file.write(f"host all all {NETWORK}.0/24 trust\n")

    def command(self, program, *words):
        return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", f"{self.programs}/{program}", *words]

    def run(self, program, *words):
        subprocess.run(self.command(program, *words), check=True, stdout=subprocess.DEVNULL, cwd="/")

    def start(self):
        """As an init system does: once more where processes of a killed one still end ("pre-existing shared memory")."""
        for _ in range(20):
            with open(f"{self.folder}.log", "a") as log:  # not on its disk
                self.process = subprocess.Popen(self.command("postgres", "-D", f"{self.folder}/data"), stdout=log,
                                                stderr=log, cwd="/")
            while alive(self.process) and self.sql("SELECT 1", "postgres") is None:
                time.sleep(0.05)
            if alive(self.process):
                break
            time.sleep(0.2)
        self.started = time.time()
        return alive(self.process)

    def kill(self):
        """Every process of it, as a power cut would; what was written is with the kernel."""
        os.kill(self.process.pid, signal.SIGSTOP)
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True)
        for child in listed.stdout.split():
            try:
                os.kill(int(child), signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.kill()
        self.process.wait()
        self.kills += 1

    def sql(self, text, database="tw"):
        """The lines of the answer; None where the server does not answer."""
        done = subprocess.run([f"{self.programs}/psql", "-XqtA", "-h", self.folder, "-p", str(self.port), "-U",
                               "postgres", database, "-c", text], capture_output=True, text=True,
                              env={**os.environ, "PGCONNECT_TIMEOUT": "5"})
        return done.stdout.splitlines() if done.returncode == 0 else None

    def url(self, role, host):
        return f"postgresql://{role}@{host}:{self.port}/tw"


class Place:
    """Where a process runs: a network namespace that can be cut off, or this one."""

    def __init__(self, number, is_separate):
        self.name, self.link = f"twc{os.getpid()}-{number}", f"twc{os.getpid() % 100000}v{number}"
        self.is_separate, self.is_cut = is_separate, False
        if is_separate:
            ip = f"ip netns add {self.name}; ip link add {self.link} type veth peer name eth0 netns {self.name}; " \
                 f"ip link set {self.link} master {BRIDGE} up; ip -n {self.name} link set lo up; " \
                 f"ip -n {self.name} addr add {NETWORK}.{number + 10}/24 dev eth0; ip -n {self.name} link set eth0 up"
            for words in ip.split("; "):
                subprocess.run(words.split(), check=True)

    def command(self, words):
        return (["ip", "netns", "exec", self.name] if self.is_separate else []) + words

    def cut(self, is_cut):
        """Packets in both directions are dropped without a word."""
        self.is_cut = is_cut
        subprocess.run(["bridge", "link", "set", "dev", self.link, "state", "0" if is_cut else "3"], check=True)

    def remove(self):
        if self.is_separate:
            subprocess.run(["ip", "link", "del", self.link], check=False, stderr=subprocess.DEVNULL)
            subprocess.run(["ip", "netns", "del", self.name], check=False)


class Runner:
    """Keeps one command alive: starts it again when it was killed."""

    def __init__(self, chaos, name, place):
        self.chaos, self.name, self.place = chaos, name, place
        self.process, self.kills, self.ended, self.began = None, 0, [], 0
        self.log = open(f"{chaos.folder}/{name}.log", "a")

    def words(self):
        raise NotImplementedError

    def start(self):
        self.began = os.path.getsize(self.log.name)
        self.process = subprocess.Popen(self.place.command(self.words()), stdout=self.log, stderr=self.log,
                                        cwd=self.chaos.folder)

    def kill(self):
        """The program itself: `ip netns exec` has become it."""
        self.process.kill()
        self.process.wait()
        self.kills += 1
        self.start()

    def note_end(self):
        """It has ended by itself. Where there was no server when it started, that is what it should do."""
        with open(self.log.name) as file:
            file.seek(self.began)
            lines = file.read().splitlines()
        had_no_server = any("cannot open database" in line and "; waiting" not in line for line in lines)
        if self.process.returncode != 0 and not (self.process.returncode == 3 and had_no_server):
            self.ended.append(self.process.returncode)
            say(f"{self.name} has ended by itself with exit code {self.process.returncode}")


class Machine(Runner):
    def words(self):
        return [self.chaos.program, "measure", "--uncalibrated", "--database", self.chaos.server.url("worker", self.chaos.host), "--name",
                self.name, "--json"]

    def keep(self, is_over):
        if not alive(self.process):
            self.note_end()
            if not is_over:
                self.start()


class Tuner(Runner):
    def __init__(self, chaos, name, place):
        super().__init__(chaos, name, place)
        self.rounds, self.is_done, self.result = 0, False, None

    def list(self):
        return f"{self.chaos.folder}/{self.name}_{self.rounds}.yaml"

    def words(self):
        with open(self.list(), "w") as file:
            file.write(TASKS.format(name=f"{self.name}_{self.rounds}", m=self.chaos.sizes[self.name][self.rounds],
                                    trials=self.chaos.trials))
        self.result = f"{self.list()}.json"
        return ["sh", "-c", 'exec "$@" >"$0"', self.result, self.chaos.program, "tune", self.list(), "--database",
                self.chaos.server.url("tuner", self.chaos.host), "--measure-on", "fleet", "--json"]

    def keep(self, is_over):
        """A list that is done is followed by another one until the chaos is over."""
        if self.is_done or alive(self.process):
            return
        self.note_end()
        code = self.process.returncode
        if code == 0:
            self.chaos.results.append(json.load(open(self.result)))
            self.rounds += 1
        if code == 0 and is_over:
            self.is_done = True
        else:
            self.start()


class Witness(threading.Thread):
    """Imports records one by one; notes which the command has acknowledged."""

    def __init__(self, chaos):
        super().__init__(daemon=True)
        self.chaos, self.acknowledged, self.is_over = chaos, [], False

    def lines(self):
        """Of a small tune into a file."""
        chaos, list_of_one = self.chaos, f"{self.chaos.folder}/witness.yaml"
        with open(list_of_one, "w") as file:
            file.write(TASKS.format(name="witness", m=8, trials=12))
        database = f"{chaos.folder}/witness.db"
        subprocess.run([chaos.program, "tune", list_of_one, "--database", database], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lines = subprocess.run([chaos.program, "db", "export", database], check=True, capture_output=True,
                               text=True).stdout.splitlines()
        rows = [json.loads(line) for line in lines]
        return [json.dumps(row) for row in rows if "program" not in row], [row for row in rows if "program" in row]

    def run(self):
        workloads, records = self.lines()
        for row in records:
            text = "\n".join([*workloads, json.dumps(row)]) + "\n"
            while not self.is_over:
                done = subprocess.run([self.chaos.program, "db", "import", self.chaos.server.url("tuner", "127.0.0.1")],
                                      input=text, capture_output=True, text=True)
                if done.returncode == 0:
                    self.acknowledged.append(row["digest"])
                    time.sleep(2)
                    break
                if done.returncode != 3:
                    say(f"the witness: {done.stderr}")
                time.sleep(0.2)
