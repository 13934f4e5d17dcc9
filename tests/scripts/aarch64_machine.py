#!/usr/bin/env python3
"""A measuring machine on aarch64, in an emulator: builds tracewright-measure and its worker for aarch64, and tunes with them.

Fetches Debian's libraries for aarch64 into a folder of its own (nothing is installed), cross compiles the two programs
(cmake --preset aarch64), starts a PostgreSQL server, a tuner and a builder on this machine, and tracewright-measure in
qemu-user. Fails if a trial was not measured, a record is missing or has a wrong result, if a fault is seen, or if the
machine takes a trial for x86-64. It takes about a quarter of an hour where nothing is built yet, so it is no test of
CI: run it by night. Times of an emulator say nothing.

qemu-user has no seccomp. Here alone the worker is allowed to run without (TRACEWRIGHT_WITHOUT_SECCOMP, runtime/worker/sandbox.h);
that it does not run a kernel otherwise is looked at, too.

Needs root, apt-get, a PostgreSQL server, openssl, Debian's g++-aarch64-linux-gnu and qemu-user, and a built tracewright.
Exit codes: 0 good, 1 not, 77 it cannot run here.
"""
import argparse
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from fleet_parts import Server, say

PACKAGES = ["libboost1.81-dev", "libcli11-dev", "libfmt-dev", "libhwloc-dev", "libpq-dev", "libseccomp-dev", "libsqlite3-dev",
            "libsqlitecpp-dev", "libssl-dev", "libstdc++-12-dev", "libxxhash-dev", "libyaml-cpp-dev", "zlib1g-dev"]
NOT_NEEDED = ("perl", "dpkg_", "automake", "autoconf", "debianutils", "tar_", "m4_")  # what packages want when they are installed
PROCESSOR = "cortex-a72"
TARGET = f"cpu -triple=aarch64-linux-gnu -mcpu={PROCESSOR}"
LIST = """version: 1
target: {{kind: cpu, {target}, threads: 1}}
budget: {{trials: {trials}, min_gain: 0}}
tasks:
  - {{name: gemm, op: matmul, args: {{M: 24, N: 40, K: 32}}}}
  - {{name: rows, op: softmax, args: {{M: 16, N: 24}}}}
  - {{name: layer, op: dense, args: {{M: 8, N: 32, K: 16}}, epilogue: [bias, gelu]}}
"""
ARM = f"triple: aarch64-linux-gnu, cpu: {PROCESSOR}"


def missing(options):
    for program in ["apt-get", "dpkg", "cmake", "openssl", "setpriv", "aarch64-linux-gnu-g++", "qemu-aarch64"]:
        if not shutil.which(program):
            return f"there is no {program}"
    if not glob.glob("/usr/lib/postgresql/*/bin/initdb"):
        return "there is no PostgreSQL server"
    if os.geteuid() != 0:
        return "PostgreSQL's server is started by root as another user"
    if not os.access(options.tracewright, os.X_OK):
        return f"there is no {options.tracewright}"
    return ""


def fetch_libraries(folder):
    """Into FOLDER/root, by an apt-get that knows no other state than FOLDER/apt. False: there is no network."""
    root, apt = f"{folder}/root", f"{folder}/apt"
    if os.path.exists(f"{folder}/complete"):
        return root
    for part in ["lists/partial", "archives/partial", "cache"]:
        os.makedirs(f"{apt}/{part}", exist_ok=True)
    open(f"{apt}/status", "w").close()
    with open(f"{apt}/conf", "w") as file:
        file.write(f'APT::Architecture "arm64";\nAPT::Architectures {{"arm64";}};\nAPT::Install-Recommends "false";\n'
                   f'APT::Sandbox::User "root";\nDir::State "{apt}";\nDir::State::status "{apt}/status";\n'
                   f'Dir::Cache "{apt}/cache";\nDir::Cache::archives "{apt}/archives";\nDebug::NoLocking "true";\n')
    environment = {**os.environ, "APT_CONFIG": f"{apt}/conf"}
    for words in [["update"], ["install", "--download-only", "-y", *PACKAGES]]:
        done = subprocess.run(["apt-get", "-qq", *words], env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            say(f"apt-get {words[0]}: {done.stderr.strip()}")
            return None
    os.makedirs(root, exist_ok=True)
    for package in sorted(glob.glob(f"{apt}/archives/*.deb")):
        if not os.path.basename(package).startswith(NOT_NEEDED):
            subprocess.run(["dpkg", "-x", package, root], check=True)
    open(f"{folder}/complete", "w").close()
    return root


def build(options, root):
    folder = f"{options.folder}/build"
    source = os.path.abspath(f"{os.path.dirname(os.path.abspath(__file__))}/../..")
    subprocess.run(["cmake", "--preset", "aarch64", "-Wno-dev", "-B", folder, f"-DCMAKE_SYSROOT={root}"], cwd=source, check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder, "-j", str(options.jobs)], cwd=source, check=True, stdout=subprocess.DEVNULL)
    return folder


class Trial:
    """One server, and the programs that use it."""

    def __init__(self, options, root, programs):
        self.options, self.root, self.programs = options, root, programs
        self.folder = tempfile.mkdtemp(prefix="tw-aarch64-")
        self.qemu = [shutil.which("qemu-aarch64"), "-cpu", PROCESSOR, "-L", root]
        self.failures, self.started = [], []
        os.chmod(self.folder, 0o755)
        os.mkdir(f"{self.folder}/server")
        self.server = Server(f"{self.folder}/server", "127.0.0.1")
        self.server.start()
        self.server.sql("CREATE DATABASE tw TEMPLATE template0 ENCODING 'UTF8'", "postgres")
        self.address = self.server.url("postgres", "127.0.0.1")
        self.run("db", "init", self.address)
        self.make_keys()
        for name, lines in [("worker", ["export TRACEWRIGHT_WITHOUT_SECCOMP=1"]), ("confined_worker", [])]:
            self.write(name, "\n".join(["#!/bin/sh", *lines, "exec " + " ".join([*self.qemu, f"{programs}/tracewright-worker"]), ""]))
            os.chmod(f"{self.folder}/{name}", 0o755)

    def write(self, name, text):
        with open(f"{self.folder}/{name}", "w") as file:
            file.write(text)

    def make_keys(self):
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", "builder.key"], cwd=self.folder, check=True)
        os.chmod(f"{self.folder}/builder.key", 0o600)
        subprocess.run(["openssl", "pkey", "-in", "builder.key", "-pubout", "-out", "builder.pub"], cwd=self.folder, check=True)

    def run(self, *words):
        return subprocess.run([self.options.tracewright, *words], cwd=self.folder, capture_output=True, text=True)

    def start(self, name, words, environment=None):
        files = [open(f"{self.folder}/{name}.{end}", "w") for end in ["out", "err"]]
        process = subprocess.Popen(words, cwd=self.folder, stdout=files[0], stderr=files[1], env={**os.environ, **(environment or {})})
        self.started.append(process)
        return process

    def start_builder(self):
        return self.start("builder", [self.options.tracewright, "measure", "--database", self.address, "--build-for", TARGET, "--key",
                                      "builder.key", "--json"])

    def start_machine(self, worker, *more):
        return self.start(worker + "_machine", [*self.qemu, f"{self.programs}/tracewright-measure", "--database", self.address,
                                                "--built-with", "builder.pub", "--name", worker, "--json", *more],
                          {"TRACEWRIGHT_WORKER": f"{self.folder}/{worker}"})

    def stop(self, process, name):
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        text = self.read(f"{name}.out")
        self.check(text.startswith("{"), f"{name} says nothing: {self.read(name + '.err')}")
        return json.loads(text) if text.startswith("{") else {}

    def read(self, name):
        with open(f"{self.folder}/{name}") as file:
            return file.read()

    def check(self, is_good, text):
        if not is_good:
            self.failures.append(text)
            say(f"WRONG: {text}")

    def tune(self, target, trials, seconds):
        self.write("list.yaml", LIST.format(target=target, trials=trials))
        return self.run("tune", "list.yaml", "--database", self.address, "--measure-on", "fleet", "--seconds", str(seconds), "--json")

    def records(self):
        lines = self.run("db", "export", self.address).stdout.splitlines()
        return [row for row in map(json.loads, lines) if "program" in row]

    def confined(self):
        """Without leave no kernel runs where there is no seccomp."""
        machine = self.start_machine("confined_worker", "--uncalibrated")
        tuned = self.tune(ARM, 2, 40)
        report = self.stop(machine, "confined_worker_machine")
        self.check(report.get("good") == 0, f"kernels ran without seccomp: {report}")
        self.check(not self.records(), "a record of a kernel that ran without seccomp")
        say(f"without leave nothing runs: the tuner ends with {tuned.returncode}, the machine says {report}")

    def measure(self):
        machine, begin = self.start_machine("worker"), time.monotonic()
        tuned = self.tune(ARM, self.options.trials, self.options.seconds)
        took = time.monotonic() - begin
        fleet = json.loads(self.run("fleet", self.address, "--json").stdout)
        self.check(tuned.returncode == 0, f"tune ends with {tuned.returncode}: {tuned.stderr}")
        result = json.loads(tuned.stdout) if tuned.stdout else {"tasks": [], "faults": -1}
        refused = self.tune("cpu: x86-64", 2, 5)
        self.check(refused.returncode == 1 and "no machine measures for" in refused.stderr,
                   f"a target of x86-64 was not refused: {refused.returncode} {refused.stderr}")
        report = self.stop(machine, "worker_machine")
        records = self.records()
        say(f"{len(records)} records in {took:.0f} s; the machine says {report}")
        say(f"the machine announces {[one.get('targets') for one in fleet.get('machines', [])]}")
        for task in result["tasks"]:
            say(f"  {task['name']}: {task['best_us']:.1f} us in the emulator, record {task['record']}")
            self.check(task["best_us"] > 0, f"{task['name']} has no best kernel")
        self.check(report.get("calibrations", 0) > 0, "the machine was not calibrated")
        self.check(len(result["tasks"]) == 3, "not all tasks are there")
        self.check(result["faults"] == 0, f"{result['faults']} faults")
        self.check(report.get("good", 0) > 0 and report.get("faults") == 0, f"the machine says {report}")
        self.check(report.get("good", 0) + report.get("failed", 0) == len(records),
                   f"{len(records)} records, the machine says {report}")
        self.check(all("aarch64-linux-gnu" in row["target"] for row in records), "a record of another target")

    def close(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.server.kill()
        if self.failures or self.options.keep:
            say(f"see {self.folder}")
        else:
            shutil.rmtree(self.folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tracewright", default="build/release/tracewright", help="of this machine: tuner and builder")
    parser.add_argument("--folder", default="build/aarch64_machine", help="for the libraries and the programs, kept for the next time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="of the compiler")
    parser.add_argument("--trials", type=int, default=24, help="of each task")
    parser.add_argument("--seconds", type=int, default=600, help="that the tuner may take")
    parser.add_argument("--keep", action="store_true", help="keep what the programs wrote")
    options = parser.parse_args()
    options.tracewright, options.folder = os.path.abspath(options.tracewright), os.path.abspath(options.folder)
    if reason := missing(options):
        say(f"skipped: {reason}")
        return 77
    os.makedirs(options.folder, exist_ok=True)
    root = fetch_libraries(options.folder)
    if not root:
        say("skipped: the libraries for aarch64 cannot be fetched")
        return 77
    say("libraries fetched")
    programs = build(options, root)
    say("programs built")
    trial = Trial(options, root, programs)
    try:
        builder = trial.start_builder()
        trial.confined()
        trial.measure()
        say(f"the builder says {trial.stop(builder, 'builder')}")
    finally:
        trial.close()
    say("good" if not trial.failures else f"{len(trial.failures)} things are wrong")
    return 1 if trial.failures else 0


if __name__ == "__main__":
    sys.exit(main())
