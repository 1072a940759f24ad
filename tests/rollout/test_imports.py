"""What loads what: rollouts in one process never load Ray, and building the command loads no torch."""

import json
import subprocess
import sys

from .test_run import command


def test_a_run_in_one_process_imports_no_ray(model_folder, tmp_path):
    prompts = tmp_path / "p.jsonl"
    prompts.write_text(json.dumps("a b") + "\n")
    arguments = command(model_folder, prompts, tmp_path / "out")
    code = f"import sys; from specproof.cli.main import main; code = main({arguments!r}); "
    code += "sys.exit(code or 'ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
