"""The texts that a build is proven on: the user's own, or those that come with hotfoot."""

from __future__ import annotations

import json
from pathlib import Path

from hotfoot.contract.errors import InputError

DATA = Path(__file__).parent / "data"

# what tokenizers trip over; compared id by id, outside the quality measures
TOKENIZER_TEXTS = (
    "café cafe\u0301 naïve Ångström",
    "👨\u200d👩\u200d👧 in Paris 😀😀",
    "全学年にわたって小学校の国語の教科書",
    "½ ﬃ ヿ Société……… x² № ™",
    "a" * 100,
    "a" * 101,
    "  two  spaces\tand\ttabs\nand lines\r\n ",
    "[CLS] [SEP] [MASK] <s> </s> <mask> <pad>",
    "don't can't we'll O'Neil's co-operate e-mail@example.com https://example.com/a?b=c#d",
    "1,234.56 5.975,74 12/05/1980 +44 (0)20 7946 0958",
    "\u200bzero\u200bwidth\ufeff and\u00a0no-break\u2028separators",
    "مرحبا بالعالم שלום עולם Привет мир สวัสดี",
    ".",
)


def texts(samples: Path | None) -> tuple[str, ...]:
    """A text a line, or `{"text": …}` a line in a .jsonl file; without a file, hotfoot's own, some 1,200. Raises InputError."""
    if samples is not None:
        return _read(samples)
    lines = [line for name in ("general.txt", "people.txt") for line in (DATA / name).read_text(encoding="utf-8").splitlines()]
    return (*lines, *_long(lines))


def _long(lines: list[str]) -> list[str]:
    """Forty passages of 4 to 43 lines: some 50 to over 600 tokens, so that long inputs and the limit itself are tried."""
    passages, start = [], 0
    for count in range(4, 44):
        passages.append(" ".join(lines[start : start + count]))
        start = (start + count) % (len(lines) - 50)
    return passages


def _read(path: Path) -> tuple[str, ...]:
    if not path.is_file():
        raise InputError(f"there is no file {path}", where="--samples")
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        found.append(_text_of(line, number) if path.suffix == ".jsonl" else line)
    if len(found) < 2:
        raise InputError(f"{path} has {len(found)} text(s); at least two are needed to measure anything", where="--samples")
    return tuple(found)


def _text_of(line: str, number: int) -> str:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise InputError(f"line {number} is not JSON: {error}", where="--samples") from None
    text = value.get("text") if isinstance(value, dict) else value
    if not isinstance(text, str) or not text:
        raise InputError(f'line {number} is neither a text nor an object with a "text"', where="--samples")
    return text
