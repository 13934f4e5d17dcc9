#!/usr/bin/env python3
"""Draws the curves of an experiment: for each task the best GFLOP/s after each trial, the median over the seeds and
their range.

  bench/experiments/plot.py out/models.curves.csv [...]     writes out/models.svg

Needs matplotlib.
"""
import collections
import csv
import pathlib
import sys

try:
    import matplotlib
except ModuleNotFoundError:
    sys.exit(f"{sys.executable} has no matplotlib: install it, or name another Python before this file")

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "tracewright"  # the same data give the same file
matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
import matplotlib.pyplot as plt  # noqa: E402


def read_curves(path):
    """{task: {arm: {seed: [best after each trial]}}}, in the order of the file."""
    curves = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(list)))
    try:
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                curves[row["task"]][row["arm"]][row["seed"]].append(float(row["gflops"]))
    except OSError as error:
        sys.exit(f"cannot read {path}: {error.strerror}")
    except (KeyError, TypeError, ValueError):
        sys.exit(f"{path} is no file of curves that tracewright-experiments wrote")
    if not curves:
        sys.exit(f"{path} has no curves")
    return curves


def at_each_trial(seeds):
    """(least, median, most) over the seeds, as long as the shortest of them."""
    columns = list(zip(*seeds.values()))
    ordered = [sorted(column) for column in columns]
    return [[column[place(len(column))] for column in ordered]
            for place in (lambda n: 0, lambda n: n // 2, lambda n: n - 1)]


def corners(*lines):
    """The trials around which one of the lines changes: all that a drawing needs."""
    count = len(lines[0])
    changed = [trial for trial in range(2, count + 1) if any(line[trial - 1] != line[trial - 2] for line in lines)]
    return sorted({1, count, *changed, *(trial - 1 for trial in changed)})


def draw(path):
    curves = read_curves(path)
    figure, axes = plt.subplots(1, len(curves), figsize=(5 * len(curves), 3.6), squeeze=False)
    for axis, (task, arms) in zip(axes[0], curves.items()):
        for number, (arm, seeds) in enumerate(arms.items()):
            least, median, most = at_each_trial(seeds)
            trials = corners(least, median, most)
            at = [[line[trial - 1] for trial in trials] for line in (least, median, most)]
            style = "-" if number < 10 else "--"  # there are ten colours
            axis.plot(trials, at[1], label=arm, color=f"C{number}", linestyle=style, linewidth=1.4)
            axis.fill_between(trials, at[0], at[2], color=f"C{number}", alpha=0.12, linewidth=0)
        axis.set_title(task)
        axis.set_xlabel("trials")
        axis.set_ylim(bottom=0)
    axes[0][0].set_ylabel("GFLOP/s, best so far")
    axes[0][-1].legend(fontsize=8, loc="lower right")
    figure.tight_layout()
    out = pathlib.Path(path.removesuffix(".curves.csv") + ".svg")
    figure.savefig(out, metadata={"Date": None})
    print(out)


if __name__ == "__main__":
    wrong = [name for name in sys.argv[1:] if not name.endswith(".curves.csv")]
    if len(sys.argv) < 2 or wrong:
        sys.exit(__doc__)
    for name in sys.argv[1:]:
        draw(name)
