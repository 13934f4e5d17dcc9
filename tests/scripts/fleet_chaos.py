#!/usr/bin/env python3
"""Kills and cuts off the parts of a fleet at random moments, and counts what comes of it.

A real PostgreSQL server, `tracewright measure` in several network namespaces, `tracewright tune` in others, and a
witness that imports records one by one and notes which were acknowledged. Meanwhile machines, tuners and the server
are killed (-9), namespaces are cut off (their packets are dropped), and, with --full-disk, the server's disk is full for
a while. A tuner or machine that was killed is started again, as an init system would.

Checked at the end: every record that was acknowledged or seen is there, none is there twice, all trials are done, every
tuner has ended by itself with exit code 0, and whoever was cut off or lost the server was back within --reconnect
seconds.

Needs root, PostgreSQL's server (Debian: postgresql) and, for namespaces, `ip` and `bridge` (iproute2); without these
nobody is cut off. Exit codes: 0 good, 1 not, 77 it cannot run here.
"""
import argparse
import glob
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from fleet_parts import BRIDGE, NETWORK, Machine, Place, Server, Tuner, Witness, alive, say


class Chaos:
    def __init__(self, options):
        self.options, self.random = options, random.Random(options.seed)
        self.program = os.path.abspath(options.tracewright)
        self.folder = tempfile.mkdtemp(prefix="tw-chaos-")
        os.chmod(self.folder, 0o755)
        self.disk = None
        self.trials, self.results, self.seen, self.reconnections = options.trials, [], set(), []
        self.waiting = []  # machines that were away: (name, since when they may be back)
        self.kinds = {"machine": 0, "tuner": 0, "server": 0, "kernel worker": 0}
        self.is_split = can_cut()
        self.host = f"{NETWORK}.1" if self.is_split else "127.0.0.1"
        self.partitions = 0

    def set_up(self):
        if self.is_split:
            subprocess.run(["ip", "link", "add", BRIDGE, "type", "bridge"], check=True)
            subprocess.run(["ip", "addr", "add", f"{NETWORK}.1/24", "dev", BRIDGE], check=True)
            subprocess.run(["ip", "link", "set", BRIDGE, "up"], check=True)
        data = f"{self.folder}/server"
        os.mkdir(data)
        # A disk of its own that can be full, and is as fast on a busy machine. Killed processes leave it as it is.
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=320m", "tmpfs", data]).returncode == 0:
            self.disk = data
        elif self.options.full_disk:
            sys.exit("--full-disk needs to mount a file system")
        self.server = Server(data, self.host)
        self.server.start()
        self.server.sql("CREATE DATABASE tw TEMPLATE template0 ENCODING 'UTF8'", "postgres")
        subprocess.run([self.program, "db", "init", self.server.url("postgres", "127.0.0.1")], check=True,
                       stderr=subprocess.DEVNULL)
        count = self.options.machines
        places = [Place(i, self.is_split) for i in range(count + self.options.tuners)]
        self.machines = [Machine(self, f"machine{i}", places[i]) for i in range(count)]
        self.tuners = [Tuner(self, f"tuner{i}", places[count + i]) for i in range(self.options.tuners)]
        sizes = list(range(16, 1024))
        self.random.shuffle(sizes)
        self.sizes = {tuner.name: sizes[i::len(self.tuners)] for i, tuner in enumerate(self.tuners)}
        self.witness = Witness(self)
        for runner in self.machines + self.tuners:
            runner.start()
        self.witness.start()

    # ---- what goes wrong

    def strike(self):
        kind = self.random.choices(list(self.kinds), weights=[5, 3, 2, 1])[0]
        if kind == "server":
            self.waiting = []
            self.server.kill()
            time.sleep(self.random.choice([0, 0.5, 3]))
            self.server.start()
            self.expect_back([m for m in self.machines if alive(m.process) and not m.place.is_cut])
        elif kind == "kernel worker":
            machine = self.random.choice(self.machines)
            listed = subprocess.run(["pgrep", "-P", str(machine.process.pid)], capture_output=True, text=True)
            if not listed.stdout.split():
                return
            os.kill(int(self.random.choice(listed.stdout.split())), signal.SIGKILL)
        else:
            runner = self.random.choice(self.machines if kind == "machine" else self.tuners)
            if not alive(runner.process):
                return
            runner.kill()
            self.forget(runner)
        self.kinds[kind] += 1

    def cut(self):
        if not self.is_split:
            return
        runner = self.random.choice([r for r in self.machines + self.tuners if not r.place.is_cut])
        self.forget(runner)
        runner.place.cut(True)
        self.partitions += 1
        seconds = self.random.choice([1, 5, 12, 20, 30, 45]) if not self.options.short else 6

        def heal():
            time.sleep(seconds)
            runner.place.cut(False)
            if isinstance(runner, Machine):
                self.expect_back([runner])

        threading.Thread(target=heal, daemon=True).start()

    def fill_disk(self):
        """Until the server has noticed, and ten seconds more; a server that ended for that is started again, as an init
        system would."""
        say("the server's disk is full")
        subprocess.run(["sh", "-c", f"cat /dev/zero >{self.disk}/filler"], stderr=subprocess.DEVNULL, check=False)
        end, has_noticed = time.monotonic() + 120, False
        while time.monotonic() < end:
            if not has_noticed and "No space left on device" in open(f"{self.disk}.log").read():
                say("the server has noticed")
                end, has_noticed = time.monotonic() + 10, True
            if not alive(self.server.process):
                say("the server has ended")
                time.sleep(1)
                self.server.start()
            time.sleep(0.5)
            self.watch()
        os.remove(f"{self.disk}/filler")
        say("the disk has room again")
        if not alive(self.server.process):
            self.server.start()
        self.expect_back([m for m in self.machines if alive(m.process) and not m.place.is_cut])

    def forget(self, runner):
        self.waiting = [(name, since) for name, since in self.waiting if name != runner.name]

    def expect_back(self, machines):
        since = time.time()
        self.waiting += [(machine.name, since) for machine in machines]

    # ---- what is seen

    def watch(self):
        rows = self.server.sql("SELECT id || ' ' || digest FROM tracewright.records WHERE id > "
                               f"{max((int(row.split()[0]) for row in self.seen), default=0) - 1000}")
        self.seen.update(rows or [])
        beats = self.server.sql("SELECT name || ' ' || max(extract(epoch FROM heartbeat)) FROM "
                                "tracewright_fleet.machines GROUP BY name")
        latest = {row.split()[0]: float(row.split()[1]) for row in beats or []}
        left = []
        for name, since in self.waiting:
            if latest.get(name, 0) > since:
                self.reconnections.append(latest[name] - since)
            elif time.time() - since < 60:
                left.append((name, since))
            else:
                self.reconnections.append(60.0)
                say(f"{name} is not back after a minute")
        self.waiting = left

    def keep(self, is_over):
        for runner in self.machines + self.tuners:
            runner.keep(is_over)

    def run(self):
        options = self.options
        kills, cuts, full = options.kills, options.partitions, options.full_disk
        next_kill, next_cut = time.monotonic() + 3, time.monotonic() + 5
        while kills > 0 or cuts > 0 or full:
            self.keep(is_over=False)
            self.watch()
            if kills > 0 and time.monotonic() >= next_kill:
                before = sum(self.kinds.values())
                self.strike()
                kills -= sum(self.kinds.values()) - before
                next_kill = time.monotonic() + self.random.expovariate(1 / options.pause)
                if kills % 20 == 0:
                    say(f"{self.kinds}, {self.partitions} cut off, {len(self.seen)} records")
            if cuts > 0 and time.monotonic() >= next_cut:
                self.cut()
                cuts -= 1
                next_cut = time.monotonic() + self.random.expovariate(1 / options.cut_pause)
                cuts = cuts if self.is_split else 0
            if full and len(self.seen) > 4 and kills <= options.kills // 2:
                self.fill_disk()
                full = False
            time.sleep(0.1)
        say("no more faults; everything is to end by itself")
        self.witness.is_over = True
        end = time.monotonic() + options.seconds
        while not all(tuner.is_done for tuner in self.tuners) and time.monotonic() < end:
            self.keep(is_over=True)
            self.watch()
            time.sleep(0.2)
        while self.waiting and time.monotonic() < end:
            self.watch()
            time.sleep(0.2)

    # ---- the end

    def check(self):
        problems = []
        for tuner in self.tuners:
            if not tuner.is_done:
                problems.append(f"{tuner.name} has not ended")
        for runner in self.machines + self.tuners:
            if runner.ended:
                problems.append(f"{runner.name} ended with exit codes {runner.ended}")
        # Tuners that were killed may have left trials, which machines still measure.
        until = time.monotonic() + 90
        while self.server.sql("SELECT count(*) FROM tracewright_fleet.trials WHERE state <> 'done'") != ["0"]:
            if time.monotonic() > until:
                break
            time.sleep(0.2)
        for machine in self.machines:
            machine.process.send_signal(signal.SIGINT)
        for machine in self.machines:
            try:
                if machine.process.wait(timeout=60) != 130:
                    problems.append(f"{machine.name} ended with exit code {machine.process.returncode}")
            except subprocess.TimeoutExpired:
                problems.append(f"{machine.name} does not stop")
        self.witness.join(30)
        rows = set(self.server.sql("SELECT id || ' ' || digest FROM tracewright.records"))
        lost = self.seen - rows
        if lost:
            problems.append(f"{len(lost)} records that were seen are lost, such as {sorted(lost)[:3]}")
        imported = self.server.sql("SELECT digest FROM tracewright.records WHERE task LIKE 'witness%'")
        missing = set(self.witness.acknowledged) - set(imported)
        if len(imported) != len(set(imported)):
            problems.append("imported records are there twice")
        if missing:
            problems.append(f"{len(missing)} acknowledged records are lost, such as {sorted(missing)[:3]}")
        twice = self.server.sql("SELECT task || ' ' || program FROM tracewright.records GROUP BY workload, target, task, "
                                "program, machine_key HAVING count(*) > 1")
        if twice:
            problems.append(f"{len(twice)} programs are stored twice, such as {twice[:3]}")
        for result in self.results:
            for task in result["tasks"]:
                if task["trials"] < self.trials and not task.get("exhausted", task["name"].endswith("_rows")):
                    problems.append(f"{task['name']} has {task['trials']} trials of {self.trials}")
        left = self.server.sql("SELECT count(*) FROM tracewright_fleet.trials WHERE state <> 'done'")
        if left != ["0"]:
            problems.append(f"{left[0]} trials are left in the queue")
        if subprocess.run([self.program, "db", "verify", self.server.url("postgres", "127.0.0.1")],
                          stdout=subprocess.DEVNULL).returncode != 0:
            problems.append("db verify finds damage")
        slow = [t for t in self.reconnections if t > self.options.reconnect]
        if slow:
            problems.append(f"{len(slow)} of {len(self.reconnections)} reconnections took longer than "
                            f"{self.options.reconnect} s: {[round(t, 1) for t in slow]}")
        times = sorted(self.reconnections) or [0.0]
        print(f"killed: {self.kinds}, together {sum(self.kinds.values())}; cut off: {self.partitions}\n"
              f"records: {len(rows)}, acknowledged imports: {len(self.witness.acknowledged)}, lists tuned: "
              f"{len(self.results)}, trials: {sum(t['trials'] for r in self.results for t in r['tasks'])}\n"
              f"back after (seconds): median {times[len(times) // 2]:.1f}, longest {times[-1]:.1f}, of {len(times)}")
        for problem in problems:
            print(f"PROBLEM: {problem}")
        return not problems

    def tear_down(self, is_good):
        for runner in getattr(self, "machines", []) + getattr(self, "tuners", []):
            if alive(runner.process):
                runner.process.kill()
                runner.process.wait()
            runner.place.remove()
        if hasattr(self, "server") and alive(self.server.process):
            self.server.kill()
        if self.is_split:
            subprocess.run(["ip", "link", "del", BRIDGE], check=False, stderr=subprocess.DEVNULL)
        if self.disk:
            subprocess.run(["umount", self.disk], check=False)
        if is_good and not self.options.keep:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            print(f"logs: {self.folder}")


def can_cut():
    if not (shutil.which("ip") and shutil.which("bridge")):
        return False
    made = subprocess.run(["ip", "link", "add", BRIDGE, "type", "bridge"], capture_output=True)
    subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True)
    return made.returncode == 0 and os.path.isdir("/var/run") and subprocess.run(
        ["unshare", "-n", "true"], capture_output=True).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tracewright", default="build/release/tracewright")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--full-disk", action="store_true", help="the server's disk is full once")
    parser.add_argument("--short", action="store_true", help="a few faults in less than a minute")
    parser.add_argument("--machines", type=int, default=3)
    parser.add_argument("--tuners", type=int, default=2)
    parser.add_argument("--trials", type=int, default=40, help="of each task")
    parser.add_argument("--pause", type=float, default=2.0, help="mean seconds between two kills")
    parser.add_argument("--cut-pause", type=float, default=15.0, help="mean seconds between two partitions")
    parser.add_argument("--reconnect", type=float, default=10.0, help="most seconds until a machine is back")
    parser.add_argument("--seconds", type=float, default=300.0, help="most seconds until all has ended by itself")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the folder with the logs")
    options = parser.parse_args()
    if options.short:
        options.kills, options.partitions, options.machines, options.trials = 8, 2, 2, 10
        options.pause, options.cut_pause, options.tuners = 1.0, 4.0, 1
    if os.geteuid() != 0 or not glob.glob("/usr/lib/postgresql/*/bin/initdb") or not shutil.which("setpriv"):
        print("skipped: needs root, PostgreSQL's server (Debian: postgresql) and setpriv")
        return 77
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chaos, is_good = Chaos(options), False
    try:
        chaos.set_up()
        chaos.run()
        is_good = chaos.check()
    finally:
        chaos.tear_down(is_good)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
