#!/usr/bin/env python3
"""mutations.py [--seed N --count N] [--tests NAME,...] [--jobs N]: flip one comparison, connective, sign or constant in a pass or primitive at a
time; do the tests notice?

All flips are compiled into one copy of the tree (build/mutants), each behind a switch that the environment turns on:

    a < b     becomes     (tw_flip(17) ? (a <= b) : (a < b))

so that a flip costs the time of its tests only. First every test executable runs unchanged, which says how long it takes and which flips it reaches;
then each flip (of all, or of COUNT drawn from SEED) is turned on in the tests that reach it, quick ones first, until one fails, dies or takes
four times as long. Flips that change nothing that can be observed are in equivalent_mutants.txt, each with its reason; they are left
out and counted. Texts of messages and TW_CHECKs are not flipped. The flipped files check the bounds of containers, as the preset `asan` does. No
part of the normal run.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPY = ROOT / "build/mutants"
FOLDERS = ["dsl/passes", "dsl/primitives"]
# Of those that notice flips, the quick ones. The others run whole spaces or tunes, which takes minutes for each flip.
TESTS = """passes_test pass_golden_test golden_test set_dtype_test partition_limits_test lower_test lower_gpu_test lower_operators_test dependence_oracle_test tensorize_test corpus_test
    region_test features_test draft_model_test gpu_draft_test llvm_operators_test warp_mma_test property_test reference_targets_test""".split()
FLIPS = {" < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " == ": " != ", " != ": " == ", " && ": " || ",
         " || ": " && ", " + ": " - ", " - ": " + "}
# An integer that is an operand, an argument or a result.
CONSTANT = re.compile(r"(?:(?<=[-+*%/<>=] )|(?<=[(,] )|(?<=\()|(?<=return ))\d+(?=[;,) ])")
SKIPPED = re.compile(r'^\s*(//|#|PRIMITIVE|REGISTER|"|static_assert|namespace|using|TW_CHECK)|reject\(')
Flip = collections.namedtuple("Flip", "number file line what start end old new first last")  # first, last: the expression around it

SWITCH = r"""
#pragma once
#define _GLIBCXX_ASSERTIONS 1
#include <cstdio>
#include <cstdlib>
inline const int tw_flipped = std::getenv("TW_FLIP") ? std::atoi(std::getenv("TW_FLIP")) : -1;
struct TwReached {
  bool at[100000] = {};
  ~TwReached() {
    const char* name = std::getenv("TW_REACHED");
    std::FILE* file = name ? std::fopen(name, "a") : nullptr;
    if (!file) return;
    for (int i = 0; i < 100000; ++i) if (at[i]) std::fprintf(file, "%d\n", i);
    std::fclose(file);
  }
};
inline TwReached tw_reached;
inline bool tw_flip(int number) { tw_reached.at[number] = true; return number == tw_flipped; }
"""


def blanked(text):
    """The text with strings, characters and comments blanked out, so that places stay."""
    blank = lambda match: (" " if match.group(0)[0] == "/" else "_") * len(match.group(0))
    return re.sub(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'|//[^\n]*', blank, text)


def expression_around(bare, start, end):
    """The largest expression of operators that bind tighter than `?` around a place."""
    closing = {")": "(", "]": "[", "}": "{"}
    depth, first = 0, start
    while first > 0:
        c, before = bare[first - 1], bare[first - 2]
        if c in ")]}":
            depth += 1
        elif c in "([{":
            if depth == 0:
                break
            depth -= 1
        elif depth == 0 and (c in ",;?" or c == ":" and before != ":" and bare[first] != ":" or
                             c == "=" and before not in "=<>!" and bare[first] != "="):
            break
        elif depth == 0 and re.search(r"\b(return|case|else|throw)$", bare[max(0, first - 7):first]):
            break
        first -= 1
    depth, last = 0, end
    while last < len(bare):
        c = bare[last]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            if depth == 0:
                break
            depth -= 1
        elif depth == 0 and (c in ",;?" or c == ":" and bare[last + 1] != ":" and bare[last - 1] != ":"):
            break
        last += 1
    while bare[first].isspace():
        first += 1
    while bare[last - 1].isspace():
        last -= 1
    return first, last


def flips_of_line(line):
    """(start, end, old, new) of each flip in a line."""
    if SKIPPED.search(line):
        return
    bare = blanked(line)
    for old, new in FLIPS.items():
        for at in re.finditer(re.escape(old), bare):
            yield at.start(), at.end(), old, new
    for at in CONSTANT.finditer(bare):
        yield at.start(), at.end(), at.group(0), str(int(at.group(0)) + 1)


def all_flips():
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.cc"))]
    for index, path in enumerate(paths):
        text, offset, number = path.read_text(), 0, 1000 * index
        bare = blanked(text)
        for line_number, line in enumerate(text.split("\n"), 1):
            for start, end, old, new in flips_of_line(line):
                is_constant = old[0] != " "
                here = (offset + start, offset + end)
                first, last = here if is_constant else expression_around(bare, *here)
                number += 1
                what = f"{old} becomes {new}" if is_constant else f"`{old.strip()}` becomes `{new.strip()}`"
                yield Flip(number, str(path.relative_to(ROOT)), line_number, what, *here, old, new, first, last)
            offset += len(line) + 1


def lines_of(flip):
    """The line and the line flipped, as equivalent_mutants.txt has them."""
    text = (ROOT / flip.file).read_text()
    changed = text[:flip.start] + flip.new + text[flip.end:]
    return tuple(t.split("\n")[flip.line - 1].strip() for t in (text, changed))


def equivalents():
    known = set()
    for line in (ROOT / "tests/scripts/equivalent_mutants.txt").read_text().split("\n"):
        if line and not line.startswith("#"):
            file, old, new, _reason = line.split(" | ")
            known.add((file, old, new))
    return known


def is_template_argument(flip):
    """Whether a flip is in a constant that has to be one."""
    name = re.search(r"constexpr [\w:]+ (\w+) =", lines_of(flip)[0])
    return bool(name) and re.search(rf"<[^<>;]*\b{name.group(1)}>", (ROOT / flip.file).read_text()) is not None


def switched(text, flips):
    """The text with a switch for each flip, and which flip each line holds alone."""
    regions = collections.defaultdict(list)
    for flip in flips:
        regions[flip.first, flip.last].append(flip)

    def write(first, last, skip):
        out, at = "", first
        inner = sorted((r for r in regions if first <= r[0] and r[1] <= last and r != skip), key=lambda r: (r[0], -r[1]))
        for begin, end in inner:
            if begin < at:
                continue
            out += text[at:begin] + "("
            for flip in regions[begin, end]:
                alone = text[begin:flip.start] + flip.new + text[flip.end:end]
                out += f"tw_flip({flip.number}) ?\n\x01{flip.number}\x02({alone})\n\x01\x02: "
            out += "(" + write(begin, end, (begin, end)) + "))"
            at = end
        return out + text[at:last]

    lines, owner, current = [], {}, None
    for number, line in enumerate(write(0, len(text), None).split("\n"), 2):
        for mark in re.findall("\x01(\\d*)\x02", line):
            current = int(mark) if mark else None
        if current:
            owner[number] = current
        # A constant that can be switched is none.
        line = re.sub(r"^(\s*)(?:static )?constexpr (?=.*tw_flip)", r"\1const ", re.sub("\x01\\d*\x02", "", line))
        lines.append(line)
    return '#include "tw_switch.h"\n' + "\n".join(lines), owner


def write_if_changed(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != text:
        path.write_bytes(text)


def unnoticed_in(log):
    """(file, line, line flipped) of an earlier output."""
    lines = pathlib.Path(log).read_text().split("\n")
    return {(line.split(":")[0], lines[i + 1].strip(), lines[i + 2].strip()) for i, line in enumerate(lines) if ": NOT NOTICED" in line}


def copy_tree(flipped):
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True,
                            text=True, check=True).stdout
    names = {n for n in listed.split("\0") if n and (ROOT / n).is_file()}
    for name in names:
        if name not in flipped:
            write_if_changed(COPY / name, (ROOT / name).read_bytes())
            os.chmod(COPY / name, (ROOT / name).stat().st_mode)
    for folder in FOLDERS + ["tests"]:
        for path in (COPY / folder).rglob("*"):
            if path.is_file() and str(path.relative_to(COPY)) not in names:
                path.unlink()
    write_if_changed(COPY / "tw_switch.h", SWITCH.encode())


def build(tests):
    command = ["cmake", "--build", "build/release", "-j", os.environ.get("JOBS", "2"), "--target", *tests, "--", "-k", "0"]
    done = subprocess.run(command, cwd=COPY, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def build_copy(flips, tests):
    """Builds the copy; returns the flips that do not compile, or not behind a switch."""
    copy_tree({f.file for f in flips})
    subprocess.run(["cmake", "--preset", "release", "-DTRACEWRIGHT_TORCH=OFF", "-DTRACEWRIGHT_BENCH=OFF", "-DCMAKE_CXX_FLAGS=-w -Wno-narrowing",
                    "-Wno-dev"], cwd=COPY, check=True, stdout=subprocess.DEVNULL)
    cache = COPY / "build/not_switched"
    text_of = lambda f: "\t".join([f.file, *lines_of(f)])
    known = set(cache.read_text().split("\n")) if cache.exists() else set()
    left_out = {f.number for f in flips if text_of(f) in known or is_template_argument(f)}
    while True:
        owners = {}
        for file in sorted({f.file for f in flips}):
            text, owners[file] = switched((ROOT / file).read_text(), [f for f in flips if f.file == file and f.number not in left_out])
            write_if_changed(COPY / file, text.encode())
        status, log = build(tests)
        if status == 0:
            break
        bad = set()
        for file, line in re.findall(r"(dsl/[a-z]+/\w+\.cc):(\d+):\d+: (?:fatal )?error", log):
            if int(line) in owners.get(file, {}):
                bad.add(owners[file][int(line)])
            elif file in owners:
                around = (COPY / file).read_text().split("\n")[max(0, int(line) - 3):int(line) + 3]
                bad |= {int(n) for n in re.findall(r"tw_flip\((\d+)\)", "\n".join(around))}
        if not bad - left_out:
            sys.exit(log[-4000:])
        print(f"# {len(bad)} flips cannot be switched", flush=True)
        left_out |= bad
        cache.write_text("\n".join(sorted(known | {text_of(f) for f in flips if f.number in left_out})))
    return left_out


def run_test(test, environment, limit, only="*"):
    """(processor seconds, status, output)"""
    def limits():
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))

    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(["nice", COPY / "build/release/tests" / test, "--gtest_brief=1", "--gtest_fail_fast",
                                    "--gtest_filter=" + only], cwd=COPY,
                                   env={**os.environ, "TW_CASES": "1500", **environment}, stdout=output, stderr=subprocess.STDOUT,
                                   preexec_fn=limits)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = status
        output.seek(0)
        return used.ru_utime + used.ru_stime, os.waitstatus_to_exitcode(status), output.read().decode(errors="replace")


def baseline(tests):
    """{test: (seconds, flips that it reaches)} of those that pass."""
    runs = {}
    for test in tests:
        with tempfile.NamedTemporaryFile() as reached:
            seconds, status, output = run_test(test, {"TW_REACHED": reached.name}, 600)
            numbers = {int(n) for n in pathlib.Path(reached.name).read_text().split()}
        print(f"# {test}: {seconds:.1f} s, reaches {len(numbers)} flips{'' if status == 0 else ', LEFT OUT: fails unchanged'}", flush=True)
        if status == 0:
            runs[test] = seconds, numbers
        else:
            print(output[-1500:])
    return runs


def noticed_by(flip, runs, locks):
    """What notices a flip that is compiled in, or None."""
    reaching = sorted((seconds, test) for test, (seconds, numbers) in runs.items() if flip.number in numbers)
    if not reaching:
        return None, "no test runs this line"
    # First the golden files of that pass or primitive.
    own = f"*/{pathlib.Path(flip.file).stem}*"
    runs_of_it = [(seconds, test, own) for seconds, test in reaching if "golden" in test] + [(*r, "*") for r in reaching]
    for seconds, test, only in runs_of_it:
        with locks[test]:
            _, status, output = run_test(test, {"TW_FLIP": str(flip.number)}, int(4 * seconds) + 2, only)
        if status != 0:
            names = sorted(set(re.findall(r"^\[  FAILED  \] ([\w/]*\.\w*)", output, re.M)))
            return names[0] if names else f"{test} ended with {status}", ""
    return None, "not noticed by " + ", ".join(test for _, test in reaching)


def compiles_alone(flip):
    """Whether a flip that cannot be switched compiles when it is made in the text."""
    text = (ROOT / flip.file).read_text()
    text = text[:flip.start] + flip.new + text[flip.end:]
    command = ["g++", "-std=c++20", "-fsyntax-only", "-w", "-I", str(COPY), "-I", str(COPY / "build/release/generated"), "-x", "c++", "-"]
    return subprocess.run(command, input=text, text=True, capture_output=True, cwd=COPY).returncode == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10**9)
    parser.add_argument("--tests", default="")
    parser.add_argument("--only", default="", help="flips whose file:line begins with this")
    parser.add_argument("--again", help="only what an earlier output calls not noticed")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    tests = options.tests.split(",") if options.tests else TESTS
    flips, known = list(all_flips()), equivalents()
    not_switched = build_copy(flips, tests)
    runs = baseline(tests)
    locks = {test: threading.Lock() for test in tests}
    drawn = random.Random(options.seed).sample(flips, min(options.count, len(flips)))
    drawn = sorted(f for f in drawn if f"{f.file}:{f.line}".startswith(options.only))
    if options.again:
        left = unnoticed_in(options.again)
        drawn = [f for f in drawn if (f.file, *lines_of(f)) in left]
    kept = [f for f in drawn if (f.file, *lines_of(f)) not in known]
    alone = [f for f in kept if f.number in not_switched]
    kept = [f for f in kept if f.number not in not_switched]
    by_hand = [f for f in alone if compiles_alone(f)]
    print(f"# {len(drawn)} of {len(flips)} flips: {len(drawn) - len(kept) - len(alone)} known to change nothing, {len(alone) - len(by_hand)} do "
          f"not compile, {len(by_hand)} cannot be switched", flush=True)
    for flip in by_hand:
        print(f"{flip.file}:{flip.line} {flip.what}: CANNOT BE SWITCHED", flush=True)
    noticed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for flip, (who, why) in zip(kept, pool.map(lambda f: noticed_by(f, runs, locks), kept)):
            noticed += who is not None
            print(f"{flip.file}:{flip.line} {flip.what}: " + (who or f"NOT NOTICED ({why})"), flush=True)
            if who is None:
                print(f"    {lines_of(flip)[0]}\n    {lines_of(flip)[1]}", flush=True)
    print(f"{noticed} of {len(kept)} flips noticed")


main()
