"""What a model's own files say: labels, pooling, prompts, limits. Read once here, so that the runtime finds plain facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotfoot.contract.errors import UnsupportedError
from hotfoot.task import Task
from hotfoot_build import model_files, vector_head
from hotfoot_build.passes.pool_in_graph import POOLINGS
from hotfoot_build.vector_head import Step

# their position table begins after the padding index, so that many of its rows are no positions
OFFSET_POSITIONS = (
    "camembert",
    "data2vec-text",
    "ibert",
    "longformer",
    "luke",
    "mpnet",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
)
# settings of `generate` that shape a greedy answer too, and what they are when they do not
UNKNOWN_SETTINGS = {
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1.0,
    "exponential_decay_length_penalty": None,
    "guidance_scale": 1.0,
    "sequence_bias": None,
}
NO_LIMIT = 1_000_000  # tokenizer files write 1e30 where the author set none


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, empty where the file is missing. Raises ArtifactError for anything else."""
    return model_files.read_json(path) if path.is_file() else {}


def labels(config: Mapping[str, Any]) -> tuple[str, ...]:
    """id2label in numeric order: its keys are strings, and a file's order may be that of a dictionary.

    Raises UnsupportedError for ids that are missing, doubled or no numbers.
    """
    names = config.get("id2label") or {f"{i}": f"LABEL_{i}" for i in range(int(config.get("num_labels", 2)))}
    try:
        by_id = {int(key): str(value) for key, value in names.items()}
    except ValueError:
        raise UnsupportedError(f"id2label in config.json has keys that are no numbers: {', '.join(names)}") from None
    missing = sorted(set(range(len(names))) - set(by_id))
    if missing:
        raise UnsupportedError(f"id2label in config.json has {len(names)} labels, but none for {', '.join(map(str, missing))}")
    return tuple(by_id[i] for i in range(len(by_id)))


def is_sentence_transformer(model: Path) -> bool:
    """True for a folder with sentence-transformers modules."""
    return (model / "modules.json").is_file()


def embedding(model: Path, asked: str | None) -> dict[str, Any]:
    """Pooling, normalisation and prompts: by the sentence-transformers modules, else as `asked`, mean by default.

    Raises UnsupportedError for a module or pooling that hotfoot would have to leave out.
    """
    if not is_sentence_transformer(model):
        return {"pooling": asked or "mean", "normalize": (asked or "mean") != "none", "prompts": {}, "default_prompt": None}
    modules = model_files.modules(model)
    steps = vector_head.read(model, modules)
    pooling = _pooling(read_json(model / modules[1][0] / "config.json"))
    if asked == "none":
        return {"pooling": "none", "normalize": False, "prompts": {}, "default_prompt": None}
    if asked and asked != pooling:
        raise UnsupportedError(f"--pooling {asked} goes against the model's own modules, which say {pooling}.")
    card = read_json(model / "config_sentence_transformers.json")
    prompts, default = card.get("prompts") or {}, card.get("default_prompt_name")
    if default is not None and default not in prompts:
        raise UnsupportedError(f"the model's default prompt is {default!r}, but its prompts are {', '.join(prompts) or 'none'}.")
    unit = bool(steps) and steps[-1].kind == "normalize"
    return {"pooling": pooling, "normalize": unit, "prompts": prompts, "default_prompt": default, **_default_dimensions(card)}


def _default_dimensions(card: Mapping[str, Any]) -> dict[str, int]:
    """How many numbers of a vector the model gives where it is asked for no other, of a model made to be cut (Matryoshka)."""
    asked = card.get("truncate_dim")
    if asked is None:
        return {}
    if not isinstance(asked, int) or isinstance(asked, bool) or asked < 1:
        raise UnsupportedError(f"truncate_dim in config_sentence_transformers.json is {asked!r}, which is no number of dimensions.")
    return {"default_dimensions": asked}


def head(model: Path, embedding_facts: Mapping[str, Any] | None) -> tuple[Step, ...]:
    """What happens to the pooled vector before it is brought to unit length, if that is its end: dense modules, in the model's order."""
    if (embedding_facts or {}).get("pooling", "none") == "none" or not is_sentence_transformer(model):
        return ()
    steps = vector_head.read(model, model_files.modules(model))
    return steps[:-1] if steps and steps[-1].kind == "normalize" else steps


def _pooling(config: Mapping[str, Any]) -> str:
    spelled = {"cls_token": "cls", "mean_tokens": "mean", "max_tokens": "max", "lasttoken": "last"}
    on = [key.removeprefix("pooling_mode_") for key, value in config.items() if key.startswith("pooling_mode_") and value]
    if "pooling_mode" in config:
        on = [str(config["pooling_mode"])]
    if len(on) != 1 or spelled.get(on[0], on[0]) not in POOLINGS:
        raise UnsupportedError(f"the model pools by {', '.join(on) or 'nothing'}; hotfoot can do one of {', '.join(POOLINGS)}.")
    if config.get("include_prompt") is False:
        raise UnsupportedError("the model leaves its prompt out of the pooling (include_prompt: false), which hotfoot cannot do yet.")
    return spelled.get(on[0], on[0])


def max_tokens(model: Path, config: Mapping[str, Any], asked: int | None) -> int:
    """The longest input, special tokens included: the least of what the model, its tokenizer and sentence-transformers allow.

    Raises UnsupportedError when nothing names a limit, or `asked` is above it.
    """
    known = [_positions(config), read_json(model / "tokenizer_config.json").get("model_max_length")]
    known.append(_sentence_limit(model) if is_sentence_transformer(model) else None)
    limits = [int(limit) for limit in known if isinstance(limit, (int, float)) and 0 < limit < NO_LIMIT]
    if asked is not None and (not limits or asked <= min(limits)):
        return asked
    if not limits:
        raise UnsupportedError("neither config.json nor the tokenizer names the longest input.", hint="Say it with --max-tokens.")
    if asked is not None:
        raise UnsupportedError(f"--max-tokens {asked} is above the model's own limit of {min(limits)}.")
    return min(limits)


def _sentence_limit(model: Path) -> Any:
    """max_seq_length of the first of sentence-transformers' files, which it looks for in this order."""
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"):
        config = read_json(model / f"sentence_{kind}_config.json")
        if config.get("do_lower_case"):
            raise UnsupportedError("the model lower-cases texts before its tokenizer sees them (do_lower_case), which is not supported.")
        if config:
            return config.get("max_seq_length")
    return None


def _positions(config: Mapping[str, Any]) -> int | None:
    table = config.get("max_position_embeddings") or config.get("n_positions")
    if not isinstance(table, int):
        return None
    offset = int(config.get("pad_token_id", 1)) + 1 if config.get("model_type") in OFFSET_POSITIONS else 0
    return table - offset


def generation(model: Path, config: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Settings for `generate`, as transformers finds them: generation_config.json, else config.json, and over both those for the task.

    target_positions: how many tokens an encoder-decoder's decoder has positions for, where that is bounded. Raises UnsupportedError
    for a setting that would shape a greedy answer and that hotfoot does not have.
    """
    written = read_json(model / "generation_config.json")
    tokens = {name: value for name, value in config.items() if name.endswith("_token_id")}
    found = {**tokens, **(written or config), **((config.get("task_specific_params") or {}).get(task) or {})}
    for name, neutral in UNKNOWN_SETTINGS.items():
        if found.get(name) not in (None, neutral):
            raise UnsupportedError(f"the model's settings for `generate` have {name} {found[name]}, which hotfoot cannot honour.")
    return {**found, "target_positions": _positions(config)}


def window(config: Mapping[str, Any], limit: int) -> int | None:
    """How many tokens back a decoder's attention reaches by its config.json, None where that is not less than the limit."""
    said = config.get("sliding_window") if config.get("use_sliding_window", True) else None
    return said if isinstance(said, int) and said < limit else None


@dataclass(frozen=True)
class Chosen:
    """What the user says of labels that are not the model's own: those to choose from, and the model's that means entailment."""

    labels: tuple[str, ...] = ()
    entailment: str | None = None


@dataclass(frozen=True)
class ModelFacts:
    """What the model's files say of it. `embedding` is None for tasks that do not pool, labels are empty for those that have none.

    generation: the settings for `generate`, None for tasks that make no text. head: what the model's own modules do with the pooled
    vector. window: how many tokens back the attention of one that makes text reaches, None for all of them.
    """

    config: Mapping[str, Any]
    labels: tuple[str, ...]
    embedding: Mapping[str, Any] | None
    max_tokens: int
    generation: Mapping[str, Any] | None = None
    head: tuple[Step, ...] = ()
    window: int | None = None
    chosen: Chosen = Chosen()


def read(model: Path, task: Task, pooling: str | None, asked_tokens: int | None, chosen: Chosen = Chosen()) -> ModelFacts:
    """Read the facts that `task` needs. Raises UnsupportedError for what hotfoot could not honour."""
    config = read_json(model / "config.json")
    if pooling is not None and not task.export.pools:
        raise UnsupportedError(f"--pooling {pooling} has no meaning for {task.name}, which reads every token.")
    if chosen != Chosen() and task.corpus != "hypotheses":
        raise UnsupportedError(f"--labels and --entailment have no meaning for {task.name}, whose labels are the model's own.")
    pooled = embedding(model, pooling) if task.export.pools else None
    limit = max_tokens(model, config, asked_tokens)
    return ModelFacts(
        config=config,
        labels=labels(config) if task.export.labels and not task.export.pools else (),
        embedding=pooled,
        max_tokens=limit,
        head=head(model, pooled),
        generation=generation(model, config, task.name) if task.generate is not None else None,
        window=window(config, limit) if task.generate is not None else None,
        chosen=chosen,
    )
