"""What the backend took of each graph, and what it did not."""
import logging
from dataclasses import dataclass, field

log = logging.getLogger("tracewright.torch")


@dataclass(frozen=True)
class Refusal:
    """`operator` as PyTorch names it, or "graph" where all of it was refused."""
    operator: str
    reason: str

    def __str__(self):
        return f"{self.operator}: {self.reason}"


@dataclass
class GraphReport:
    """One graph for one set of shapes. `taken` of `nodes` operators run compiled, in `parts` libraries."""
    name: str
    shapes: tuple
    nodes: int = 0
    taken: int = 0
    parts: int = 0
    refusals: list = field(default_factory=list)

    def refuse(self, operator, reason):
        refusal = Refusal(operator, reason)
        if refusal not in self.refusals:
            self.refusals.append(refusal)
            if refusal not in _said:
                _said.add(refusal)
                log.warning("%s: left to PyTorch: %s", self.name, refusal)

    def __str__(self):
        lines = [f"{self.name} for {', '.join(map(str, self.shapes))}: {self.taken} of {self.nodes} operators, "
                 f"{self.parts} libraries"]
        return "\n".join(lines + [f"  left to PyTorch: {refusal}" for refusal in self.refusals])


_reports = []
_said = set()  # what was logged: other graphs and shapes have the same operators


def report():
    """A GraphReport for each graph and set of shapes that the backend was given so far."""
    return list(_reports)


def forget():
    """Empties the report; what is refused from now on is logged again."""
    _reports.clear()
    _said.clear()


def new_report(name, shapes):
    _reports.append(GraphReport(name, shapes))
    return _reports[-1]
