"""The folder tree is the architecture: imports flow one way, files stay small, imports stay cheap."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "specproof"
FILES = sorted(SOURCE.rglob("*.py"))
# Each part may import only from parts of a lower level; parts of one level do not know each other.
LEVEL = {
    "errors": 0,
    "tree": 1,
    "params": 1,
    "types": 2,
    "noise": 3,
    "sampling": 3,
    "stopping": 3,
    "rules": 4,
    "backends": 4,
    "drafters": 5,
    "engine": 6,
    "testing": 7,
    "audit": 7,
    "train": 7,
    "bench": 7,
    "rollout": 7,
    "hf": 7,
    "server": 7,
    "cli": 8,
    "pytest_plugin": 8,
}
# The kits for third parties and the audits use each other's pieces; the server's page shows audits,
# and a bench checks the texts whose speed it tells. Rollouts for TRL know the fields of transformers'
# GenerationConfig, and a drafter that learns on rollouts is trained as any other.
SAME_LEVEL = {("testing", "audit"), ("audit", "testing"), ("server", "audit"), ("bench", "audit")}
SAME_LEVEL |= {("rollout", "hf"), ("rollout", "train")}


def part(path):
    relative = path.relative_to(SOURCE)
    return relative.parts[0].removesuffix(".py")


def imported_parts(path):
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            if name.startswith("specproof."):
                yield name.split(".")[1]


@pytest.mark.parametrize("path", [f for f in FILES if f.parent != SOURCE or f.name != "__init__.py"], ids=str)
def test_imports_flow_one_way(path):
    own = part(path)
    for other in imported_parts(path):
        allowed = other == own or LEVEL[other] < LEVEL[own] or (own, other) in SAME_LEVEL
        assert allowed, f"{path.name} ({own}) imports {other}"


@pytest.mark.parametrize("path", FILES, ids=str)
def test_files_functions_and_parameter_lists_are_small(path):
    text = path.read_text()
    assert text.count("\n") < 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 60, f"{node.name} is long"
            arguments = node.args.posonlyargs + node.args.args
            assert len([a for a in arguments if a.arg not in ("self", "cls")]) <= 6, (
                f"{node.name} takes many arguments"
            )


@pytest.mark.parametrize(
    "command",
    [
        "import specproof",
        "import specproof.rules, specproof.drafters, specproof.backends",
        "from specproof.cli.main import build_parser; build_parser().format_help()",
        "import specproof.pytest_plugin; assert 'numpy' not in sys.modules",
    ],
)
def test_import_and_help_load_no_torch(command):
    code = f"import sys; {command}; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
