"""The tokenizer's files as they ship: no padding or truncation state, named by their content."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from hotfoot.contract.errors import ArtifactError
from hotfoot.contract.manifest import TokenizerSpec, combine, describe
from hotfoot_build import known as known_texts
from hotfoot_build.calibrate import TOKENIZER_TEXTS
from hotfoot_build.facts import read_json

SPECIAL = "special_tokens.json"


def write(source: Path, model: Path, out: Path, sides: Mapping[str, str], pad_id: int | None, known: Sequence[str] = ()) -> TokenizerSpec:
    """Write `tokenizer.json` and the special tokens' ids into `out`, and the encodings of texts that are known already.

    The file may carry padding to a fixed length, which would make every input that long. Raises ArtifactError for a file that
    the shipping tokenizers library cannot read.
    """
    try:
        tokenizer = Tokenizer.from_file(str(source))
    except Exception as error:
        raise ArtifactError(f"{source.name} cannot be read: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    out.mkdir(parents=True)
    tokenizer.save(str(out / "tokenizer.json"), pretty=False)
    special = _special_ids(tokenizer, model)
    (out / SPECIAL).write_text(json.dumps(special, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    known_texts.write(tokenizer, known, out)
    pad = pad_id if pad_id is not None else special.get("pad_token", 0)
    files = describe(out, out.iterdir())
    return TokenizerSpec(
        hash=combine(files),
        files=files,
        pad_id=pad,
        pad_type_id=0,
        pad_side="left" if sides.get("padding_side") == "left" else "right",
        truncation_side="left" if sides.get("truncation_side") == "left" else "right",
    )


def _special_ids(tokenizer: Tokenizer, model: Path) -> dict[str, int]:
    config: dict[str, Any] = {**read_json(model / "special_tokens_map.json"), **read_json(model / "tokenizer_config.json")}
    found = {}
    for name, value in config.items():
        token = value.get("content") if isinstance(value, dict) else value
        token_id = tokenizer.token_to_id(token) if name.endswith("_token") and isinstance(token, str) else None
        if token_id is not None:
            found[name] = token_id
    return found


def one_segment(tokenizer: Path) -> bool:
    """Whether every token of a text that comes alone has type 0. Some templates say otherwise (XLNet's classification token)."""
    made = Tokenizer.from_file(str(tokenizer))
    return not any(type_id for text in TOKENIZER_TEXTS for type_id in made.encode(text).type_ids)
