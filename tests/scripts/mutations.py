#!/usr/bin/env python3
"""mutations.py SEED COUNT: flips of one comparison, connective, sign or constant, drawn from the passes and primitives of the tree at HEAD.

Prints blocks as planted_faults.sh reads them:

    tests/scripts/mutations.py 1 40 > build/mutations.txt
    TW_CASES=1500 nice tests/scripts/planted_faults.sh --faults build/mutations.txt

Flips that change nothing that can be observed are in equivalent_mutants.txt, each with its reason; they are left out, and counted in the
first line. Only lines that a file has once are flipped, because the script finds them by their text; texts of messages are not flipped.
"""
import pathlib
import random
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = {
    "dsl/passes": "lower_test passes_test lower_gpu_test lower_property_test lower_operators_test property_test",
    "dsl/primitives": "golden_test property_test",
}
FLIPS = {" < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " == ": " != ", " != ": " == ", " && ": " || ",
         " || ": " && ", " + ": " - ", " - ": " + "}
# An integer that is an operand, an argument or a result.
CONSTANT = re.compile(r"(?:(?<=[-+*%/<>=] )|(?<=[(,] )|(?<=\()|(?<=return ))\d+(?=[;,) ])")
SKIPPED = re.compile(r'^\s*(//|#|PRIMITIVE|REGISTER|"|static_assert|namespace|using|TW_CHECK)|reject\(')


def without_texts(line):
    """The line with texts and comments blanked out, so that columns stay."""
    blank = lambda match: " " * len(match.group(0))
    return re.sub(r'"(?:[^"\\]|\\.)*"|//.*', blank, line)


def flips_of(line):
    if SKIPPED.search(line):
        return
    bare = without_texts(line)
    for old, new in FLIPS.items():
        for at in re.finditer(re.escape(old), bare):
            yield f"`{old.strip()}` becomes `{new.strip()}`", line[: at.start()] + new + line[at.end():]
    for at in CONSTANT.finditer(bare):
        number = int(at.group(0)) + 1
        yield f"{at.group(0)} becomes {number}", line[: at.start()] + str(number) + line[at.end():]


def all_flips():
    for folder, tests in TESTS.items():
        for path in sorted((ROOT / folder).glob("*.cc")):
            lines = path.read_text().split("\n")
            for number, line in enumerate(lines, 1):
                # Found by its text: with its neighbours' ends it would be another line's, too.
                if sum(line.strip() in other for other in lines) != 1:
                    continue
                for what, changed in flips_of(line):
                    name = str(path.relative_to(ROOT))
                    yield [f"{name}:{number} {what}", name, line.strip(), changed.strip(), tests]


def equivalents():
    known = set()
    for line in (ROOT / "tests/scripts/equivalent_mutants.txt").read_text().split("\n"):
        if line and not line.startswith("#"):
            file, old, new, _reason = line.split(" | ")
            known.add((file, old, new))
    return known


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    flips, known = list(all_flips()), equivalents()
    drawn = random.Random(seed).sample(flips, min(count, len(flips)))
    kept = [flip for flip in drawn if tuple(flip[1:4]) not in known]
    print(f"# seed {seed}: {len(drawn)} of {len(flips)} flips, {len(drawn) - len(kept)} of them known to change nothing")
    for flip in kept:
        print("\n" + "\n".join(flip))


main()
