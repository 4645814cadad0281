"""Texts that are known at build time, such as the hypotheses of zero-shot labels or a query asked again and again: encoded here, once.

Their encodings lie beside tokenizer.json, so the tokenizer's layer carries them and the runtime's memory begins with them. The file is
part of the tokenizer's hash: it is written only where there are such texts, or models that share a tokenizer would no longer share its
layer. For that reason a task's sample, which only warms up, is not among them.

It has no words as such, but the ids of their tokens: whoever has the tokenizer, which lies beside it, can read the texts from them. So
what nobody should read must not be among the known texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from hotfoot import encodings
from hotfoot.contract.errors import InputError
from hotfoot.encodings import FILE
from hotfoot.reading import Reader

MOST_TEXTS = 1000
MOST_CHARACTERS = 2**17  # of all together: some 1 MB of JSON, which every cold start reads


def read(path: Path | None) -> tuple[str, ...]:
    """The file's lines, each once. Raises InputError for one that cannot be read, or has too many."""
    if path is None:
        return ()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}.", where="--known") from None
    found = tuple(dict.fromkeys(line for line in lines if line.strip()))
    characters = sum(map(len, found))
    if not found:
        raise InputError(f"{path} has no text.", hint="Give a text a line.", where="--known")
    if len(found) > MOST_TEXTS or characters > MOST_CHARACTERS:
        raise InputError(
            f"{path} has {len(found)} texts of {characters} characters; {MOST_TEXTS} and {MOST_CHARACTERS} are the most.", where="--known"
        )
    return found


def write(tokenizer: Tokenizer, texts: Sequence[str], folder: Path) -> None:
    """Write the texts' encodings into the tokenizer's folder, each with special tokens and, for pairs, without. Nothing for no texts."""
    if not texts:
        return
    reader = Reader(tokenizer, None)
    made = {
        encodings.key_of(text, special=special): encodings.kept_of(encoded)
        for special in (True, False)
        for text, encoded in zip(texts, reader.read(texts, special=special), strict=True)
    }
    (folder / FILE).write_text(encodings.dumps(made), encoding="utf-8")
