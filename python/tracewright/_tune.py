"""Tuning: `tracewright tune`, and its table."""
import json
import os
import tempfile
from dataclasses import dataclass, fields
from pathlib import Path

from . import _command
from ._command import Error


@dataclass(frozen=True)
class TaskResult:
    """A row of the table. Times are microseconds of one call, 0 where there is none; `ended` says why, `problem` what
    went wrong. `baseline_us` is the untuned program, `zero_trial_us` the kernel that is taken without trials."""
    name: str
    best_us: float
    gflops: float
    baseline_us: float
    zero_trial_us: float
    trials: int
    failed: int
    ended: str
    problem: str


@dataclass(frozen=True)
class TuneResult:
    """What a run has found. `json` is all that `tracewright tune --json` printed."""
    tasks: list
    database: str
    measured: int
    seconds: float
    json: dict

    def __str__(self):
        lines = [f"{'best us':>10} {'GFLOP/s':>8} {'before us':>10} {'trials':>6}  task"]
        lines += [f"{task.best_us:10.1f} {task.gflops:8.1f} {task.zero_trial_us or task.baseline_us:10.1f} "
                  f"{task.trials:6}  {task.name}{': ' + task.problem if task.problem else ''}" for task in self.tasks]
        return "\n".join(lines)


def tune(model_or_task_list, *, seconds=None, trials=None, threads=None, target=None, database=None, shapes=None,
         rewrites=None, precision=None, show=False):
    """Searches fast kernels for the tasks of a model (a path that ends in .onnx, bytes, an onnx.ModelProto) or of a task
    list (a path to YAML). Returns a TuneResult; everything measured is in the database, for `compile(database=...)`.

    seconds: limit of this run. trials: for each task, those of earlier runs included. threads: that one inference
    uses, as in `compile`, since kernels are found by it. target: a device, or a processor as "cpu -threads=2"; None = this
    processor. database: default is tuning.db, or what the list says. shapes: of inputs that the model leaves open.
    rewrites: files of rewritings and operators, as in `compile`; of a list beside its own. precision: of its kernels, as in
    `compile`. show: print progress to standard error.

    Ctrl-C ends the search after the kernel at hand and raises KeyboardInterrupt. Raises Error where the command fails.
    """
    is_list = isinstance(model_or_task_list, (str, os.PathLike)) and not os.fspath(model_or_task_list).endswith(".onnx")
    for name, given in _command.extents_of(shapes).items():
        if len(given) > 1:
            raise Error(f"`{name}`: tune takes one shape of an input; tune for each, with the same database")
    if is_list and (threads or target or shapes or precision):
        raise Error("threads, target, shapes and precision of a task list stand in the list: "
                    "target: {kind: cpu, threads: 1}")
    if threads and target:
        raise Error('threads are a part of the target: target="cpu -threads=2"')
    words = ["--seconds", str(seconds)] if seconds else []
    words += ["--trials", str(trials)] if trials else []
    words += _command.rewrite_flags(rewrites)
    if is_list:
        return _run(os.fspath(model_or_task_list), words, database, show)
    with _command.model_file(model_or_task_list) as path, tempfile.TemporaryDirectory(prefix="tracewright-") as folder:
        file = Path(folder) / "model.yaml"
        file.write_text(_list_of(path, threads, target, shapes, precision))
        return _run(str(file), words, database or "tuning.db", show)


def _list_of(path, threads, target, shapes, precision):
    """A task list of the model alone. JSON is YAML."""
    target = target or {"kind": "cpu", **({"threads": threads} if threads else {})}
    task = {"name": "model", "model": os.path.abspath(path),
            **({"shapes": {name: given[0] for name, given in _command.extents_of(shapes).items()}} if shapes else {}),
            **({"precision": precision} if precision else {})}
    return json.dumps({"version": 1, "target": target, "tasks": [task]})


def _run(path, words, database, show):
    words = ["tune", path, *words, *(["--database", os.fspath(database)] if database else [])]
    found = _command.run_json(words, show, allowed=(0, 1))  # 1: a task without a kernel, which its row says
    names = [field.name for field in fields(TaskResult)]
    return TuneResult([TaskResult(**{name: task[name] for name in names}) for task in found["tasks"]],
                      os.fspath(database) if database else "", found["measured"], found["seconds"], found)
