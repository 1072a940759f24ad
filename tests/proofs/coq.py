"""Runs Coq on the compiled proofs, and writes Python's values as Coq terms. `make proofs` compiles them."""

import json
import re
import subprocess
from fractions import Fraction
from pathlib import Path

PROOFS = Path(__file__).parents[2] / "proofs"


def files():
    """All Coq files."""
    return sorted(PROOFS.rglob("*.v"))


def theorems():
    """What each file calls a theorem; a lemma is a step on the way to one."""
    found = {file.stem: re.findall(r"^Theorem (\w+)", file.read_text(), re.M) for file in files()}
    return {module: names for module, names in found.items() if names}


def run(folder, text):
    """What coqc prints for a file with this text."""
    file = folder / "query.v"
    file.write_text(text)
    done = subprocess.run(
        ["coqc", "-Q", str(PROOFS), "Specproof", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def computed(folder, preamble, terms):
    """The values of terms made of `exact` rationals, tokens, pairs and lists; pairs come as lists."""
    commands = "".join(f"Eval vm_compute in {term}.\n" for term in terms)
    printed = run(folder, f"{preamble}\nSet Printing Width 1000000.\nSet Printing Depth 1000000.\n{commands}")
    values = [_read(value) for value in re.findall(r"^\s*= (.*)\n\s*: ", printed, re.M)]
    assert len(values) == len(terms)
    return values


def _read(printed):
    plain = re.sub(r"%\w+", "", printed).replace(";", ",")
    marked = re.sub(r"Exact \(?(-?\d+)\)? (\d+)", r'"\1/\2"', plain)
    return _fractions(json.loads(marked.replace("(", "[").replace(")", "]")))


def _fractions(value):
    if isinstance(value, list):
        return [_fractions(entry) for entry in value]
    return Fraction(value) if isinstance(value, str) else value


# Coq writes 1/10 now as 1 # 10, now as 0.1; this it writes in one way.
EXACT = """
Inductive shown_number := Exact (numerator : Z) (denominator : BinNums.positive).
Definition exact (value : Qc) := let q := this value in Exact (Qnum q) (Qden q).
"""


def number(value):
    value = Fraction(value)
    return f"(Q2Qc (({value.numerator}) # {value.denominator}))"


def listing(values, one=str):
    return f"[{'; '.join(one(value) for value in values)}]"


def row(masses):
    return f"(listed {listing(masses, number)})"


def model(rows):
    """A model from its rows at the texts that count."""
    table = listing(rows.items(), lambda item: f"({listing(item[0])}%nat, {listing(item[1], number)})")
    return f"(table {table})"


def tree(shape, tokens, node=-1):
    """The draft below a node, as first children and younger siblings."""
    term = "leaf"
    for child in reversed(shape.children(node)):
        term = f"(node {tokens[child]} {tree(shape, tokens, child)} {term})"
    return term


def shape_of(shape, node=-1):
    """The same without tokens."""
    term = "nothing"
    for child in reversed(shape.children(node)):
        term = f"(child {shape_of(shape, child)} {term})"
    return term


def backwards(shape, node=-1):
    """Rows in the order in which Coq's walk through a tree leaves them: children first."""
    for child in shape.children(node):
        yield from backwards(shape, child)
    yield node + 1
