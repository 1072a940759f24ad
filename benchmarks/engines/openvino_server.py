"""OpenVINO GenAI behind OpenAI's completions, in the environment that has `openvino-genai`: it has no server.

Two pipelines on the same weights, one with a draft model and one without; a request picks with
`"speculation": true` (as it is by default) or `false`. Prompts are texts or tokens; answers tell tokens as
numbers, and how many were drafted and accepted. Whatever rounds by choice is off: activations, keys and values
are float32.
"""

import argparse
import json
import shutil
import threading
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy
import openvino
import openvino_genai as native

EXACT = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0, "KV_CACHE_PRECISION": "f32"}


def converted(gguf: Path) -> Path:
    """The folder with OpenVINO's form of a GGUF file, made beside it unless it is there."""
    made = gguf.with_suffix(".openvino")
    if not (made / "openvino_model.xml").exists():
        made.mkdir(exist_ok=True)
        copied = shutil.copy(gguf, made / "model.gguf")
        native.LLMPipeline(copied, "CPU", enable_save_ov_model=True)
    return made


def _scheduler() -> Any:
    made = native.SchedulerConfig()
    made.num_kv_blocks = 256
    return made


class Engine:
    """Both pipelines; one text at a time, since a pipeline is not for several threads."""

    def __init__(self, model: Path, draft: Path, tokens: int) -> None:
        assistant = native.draft_model(str(draft), "CPU", scheduler_config=_scheduler(), **EXACT)
        self.speculative = native.LLMPipeline(
            str(model), "CPU", draft_model=assistant, scheduler_config=_scheduler(), **EXACT
        )
        self.model, self.tokens = model, tokens
        self.tokenizer = self.speculative.get_tokenizer()
        self._one = threading.Lock()

    @cached_property
    def plain(self) -> Any:
        """Without a draft model; made when it is first asked for, since it holds the weights once more."""
        return native.LLMPipeline(str(self.model), "CPU", scheduler_config=_scheduler(), **EXACT)

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """OpenAI's JSON for a request."""
        prompt, on = body["prompt"], body.get("speculation", True)
        if isinstance(prompt, str):
            inputs = self.tokenizer.encode(prompt)
        else:
            ids = numpy.array([prompt], dtype=numpy.int64)
            inputs = native.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(numpy.ones_like(ids)))
        with self._one:
            pipeline = self.speculative if on else self.plain
            made = pipeline.generate(inputs, self.config(body, on))
        ids, length = list(made.tokens[0]), inputs.input_ids.shape[1]
        finish = "length" if len(ids) >= body["max_tokens"] else "stop"
        choice = {"index": 0, "text": self.tokenizer.decode(ids), "finish_reason": finish, "token_ids": ids}
        whole = {
            "object": "text_completion",
            "choices": [choice],
            "usage": {"prompt_tokens": length, "completion_tokens": len(ids)},
        }
        counted = made.extended_perf_metrics if on else None
        drafted = counted.get_num_draft_tokens() if counted else 0
        accepted = counted.get_num_accepted_tokens() if counted else 0
        return whole | {"timings": {"predicted_n": len(ids), "draft_n": drafted, "draft_n_accepted": accepted}}

    def config(self, body: dict[str, Any], on: bool) -> Any:
        """What the request means in OpenVINO's words."""
        config = native.GenerationConfig()
        config.max_new_tokens, config.ignore_eos = body["max_tokens"], bool(body.get("ignore_eos"))
        config.set_eos_token_id(self.tokenizer.get_eos_token_id())
        config.do_sample = body.get("temperature", 1.0) > 0
        if config.do_sample:
            config.temperature, config.top_p = body.get("temperature", 1.0), body.get("top_p", 1.0)
            if body.get("top_k"):
                config.top_k = body["top_k"]
            config.min_p = body.get("min_p", 0.0)
            config.rng_seed = body.get("seed") or 0
        if on:
            config.num_assistant_tokens = self.tokens
        return config


class Handler(BaseHTTPRequestHandler):
    """/v1/models and /v1/completions."""

    protocol_version = "HTTP/1.1"
    engine: Engine
    name: str

    def do_GET(self) -> None:
        """The name of the model."""
        models = {"object": "list", "data": [{"id": self.name, "object": "model"}]}
        self._send(200, models) if self.path == "/v1/models" else self._send(404, {"error": "no such page"})

    def do_POST(self) -> None:
        """A text."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        unknown = set(body) - KNOWN
        if self.path != "/v1/completions" or unknown:
            self._send(400, {"error": f"not served: {self.path} {sorted(unknown)}"})
            return
        self._send(200, self.engine.answer(body))

    def _send(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Requests are not logged."""


KNOWN = {
    *("model", "prompt", "max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "ignore_eos"),
    *("return_token_ids", "speculation"),
}


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="GGUF file, in a folder that may be written to")
    parser.add_argument("--draft", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--tokens", type=int, default=4, help="in a draft")
    args = parser.parse_args()
    Handler.engine = Engine(converted(args.model), converted(args.draft), args.tokens)
    Handler.name = args.name
    server = ThreadingHTTPServer(("127.0.0.1", args.port), Handler)
    print(f"OpenVINO GenAI {native.get_version()} serves at http://127.0.0.1:{args.port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
