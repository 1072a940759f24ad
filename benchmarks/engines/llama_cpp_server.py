"""llama.cpp's own server, in the environment that has `xllamacpp` (its C++ server, compiled, without a program).

Samplers that llama.cpp turns on by itself (top-k 40, min-p 0.05, …) are off, so that a request means what it says.
Everything that rounds by choice is off as well: keys and values are float32, flash attention is not used.
"""

import argparse
import threading

import xllamacpp as native

KINDS = native.common_speculative_type


def parameters(args: argparse.Namespace) -> native.CommonParams:
    """What llama-server would be started with."""
    given = native.CommonParams()
    given.model.path, given.port, given.model_alias = args.model, args.port, [args.name]
    given.n_parallel, given.n_ctx = args.slots, 1024 * args.slots
    given.endpoint_metrics, given.verbosity = True, 1
    given.flash_attn_type = native.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    given.cache_type_k = given.cache_type_v = native.ggml_type.GGML_TYPE_F32
    given.sampling.top_k, given.sampling.top_p, given.sampling.min_p = 0, 1.0, 0.0
    given.sampling.penalty_repeat = 1.0
    drafts = given.speculative
    for threads in (given.cpuparams, given.cpuparams_batch, drafts.draft.cpuparams, drafts.draft.cpuparams_batch):
        threads.n_threads = args.threads
    if args.draft:
        drafts.types = [KINDS.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        drafts.draft.mparams.path = args.draft
        drafts.draft.n_max, drafts.draft.n_min, drafts.draft.p_min = args.tokens, 1, 0.0
        drafts.draft.probabilistic = args.probabilistic
        drafts.draft.cache_type_k = drafts.draft.cache_type_v = native.ggml_type.GGML_TYPE_F32
    elif args.lookup:
        drafts.types = [KINDS.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
        drafts.ngram_simple.size_n, drafts.ngram_simple.size_m = 2, args.tokens
    return given


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--draft", help="GGUF of a draft model")
    parser.add_argument("--probabilistic", action="store_true", help="judge drafts by their probabilities")
    parser.add_argument("--lookup", action="store_true")
    parser.add_argument("--tokens", type=int, default=4, help="in a draft, at most")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--slots", type=int, default=4)
    args = parser.parse_args()
    server = native.Server(parameters(args))
    print(f"llama.cpp serves at {server.listening_address}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
