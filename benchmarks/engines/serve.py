"""The default model behind another engine's OpenAI-style server, with speculation or without.

    python benchmarks/engines/serve.py ENGINE [--speculation off|lookup|draft|sampled] [--port 8100]

Runs with specproof's own Python, in an environment that `create.py` made for ENGINE (llama_cpp, llama_cpp_python,
openvino or vllm); stop it with Ctrl-C. Then, for instance, with the models that this makes below the place:

    M=build/engines/models
    specproof audit endpoint http://127.0.0.1:8100/v1 --model $M/bfloat16 --draft-model $M/draft-28

All are given the same weights (`weights.py`): llama.cpp and OpenVINO as GGUF, vLLM as a folder that it runs in
float32. An audit scores texts by the same ones: `--model default`, `$M/float16`, `$M/bfloat16`. OpenVINO's server
has both pipelines and takes `--on '{"speculation": true}'` of the audit.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import weights

NAME, TOKENS, HERE = "smollm2-135m-instruct", 4, Path(__file__).parent


def llama_cpp(place: Path, port: int, speculation: str) -> list[str]:
    """llama.cpp's own server, out of the package xllamacpp; "sampled" judges drafts by their probabilities."""
    given = ["--model", str(weights.gguf(place)), "--name", NAME, "--port", str(port), "--tokens", str(TOKENS)]
    if speculation in ("draft", "sampled"):
        given += ["--draft", str(weights.gguf(place, weights.DRAFT_LAYERS))]
    given += ["--probabilistic"] if speculation == "sampled" else []
    given += ["--lookup"] if speculation == "lookup" else []
    return [str(HERE / "llama_cpp_server.py"), *given]


def llama_cpp_python(place: Path, port: int, speculation: str) -> list[str]:
    """The server of the package llama-cpp-python, on llama.cpp; log-probabilities, prompts as texts only."""
    if speculation not in ("off", "lookup"):
        sys.exit("llama_cpp_python has no --speculation but off and lookup")
    given = ["--model", str(weights.gguf(place)), "--model_alias", NAME, "--port", str(port)]
    given += ["--n_ctx", "512", "--n_threads", "1", "--logits_all", "true"]
    drafts = ["--draft_model", "prompt-lookup-decoding", "--draft_model_num_pred_tokens", str(TOKENS)]
    return ["-m", "llama_cpp.server", *given, *(drafts if speculation == "lookup" else [])]


def openvino(place: Path, port: int, speculation: str) -> list[str]:
    """OpenVINO GenAI, which has a draft model or not as each request says."""
    if speculation != "draft":
        sys.exit("openvino has no --speculation but draft; a request switches it off")
    target, draft = (weights.gguf(place, layers, "f16") for layers in (None, weights.DRAFT_LAYERS))
    weights.folder(place, "float16")  # the same weights for an audit to score by
    given = ["--model", str(target), "--draft", str(draft), "--name", NAME]
    return [str(HERE / "openvino_server.py"), *given, "--port", str(port), "--tokens", str(TOKENS)]


def vllm(place: Path, port: int, speculation: str) -> list[str]:
    """The server of vLLM. `vllm serve` itself asks for a package of that name, which the CPU build is not."""
    given = ["--model", str(weights.folder(place)), "--served-model-name", NAME, "--dtype", "float32"]
    given += [
        "--enforce-eager",
        "--max-model-len",
        "512",
        "--max-num-seqs",
        "4",
        "--max-num-batched-tokens",
        "512",
    ]
    drafts: dict[str, object] = {"num_speculative_tokens": TOKENS}
    if speculation == "lookup":
        drafts |= {"method": "ngram", "prompt_lookup_max": 4, "prompt_lookup_min": 1}
    elif speculation == "draft":
        drafts |= {"method": "draft_model", "model": str(weights.draft_folder(place))}
    given += [] if speculation == "off" else ["--speculative-config", json.dumps(drafts)]
    return ["-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", str(port), *given]


SERVERS: dict[str, Callable[[Path, int, str], list[str]]] = {
    "llama_cpp": llama_cpp,
    "llama_cpp_python": llama_cpp_python,
    "openvino": openvino,
    "vllm": vllm,
}
VARIABLES = {
    **{"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"},
    # A busy machine: threads are not bound to a core that others may hold; starting and the first step take long.
    **{"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_ENGINE_READY_TIMEOUT_S": "3600"},
    "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "3600",
}


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=sorted(SERVERS))
    parser.add_argument("--speculation", choices=["off", "lookup", "draft", "sampled"], default="off")
    parser.add_argument("--port", type=int, default=8100)
    parser.add_argument("--place", type=Path, default=Path("build/engines"), help="default build/engines")
    args = parser.parse_args()
    python = args.place / args.engine / "bin" / "python"
    if not python.exists():
        sys.exit(f"no environment at {python.parent}: python benchmarks/engines/create.py {args.engine}")
    command = [str(python), *SERVERS[args.engine](args.place, args.port, args.speculation)]
    server = subprocess.Popen(command, env=os.environ | VARIABLES)
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    try:
        sys.exit(server.wait())
    except KeyboardInterrupt:
        server.terminate()
        sys.exit(server.wait())


if __name__ == "__main__":
    main()
