"""Real tokenizers of each kind, made in memory: what differs between them is where hotfoot could trip."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from functools import cache

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from support.rigged import wordpiece

CORPUS = (
    "the man in paris plays a guitar on the stage and the crowd in the hall sings with him",
    "maria gonzalez lives in springfield and works near the river in the old town hall",
    "a gripping and beautifully acted film about the people who live and work in the city",
    "numbers such as 1980 and 5.975,74 and dates like 12 mai 1980 stand here, too.",
)


def byte_level(*, trim_offsets: bool) -> Tokenizer:
    """Byte-level BPE as RoBERTa has it. Without trim_offsets (DeBERTa) a word's offsets include the space before it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(
        sep=("</s>", 2), cls_token=("<s>", 0), trim_offsets=trim_offsets, add_prefix_space=False
    )
    return tokenizer


def unigram() -> Tokenizer:
    """Unigram over NFKC text with Metaspace, as XLM-R and CamemBERT have it."""
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces += [(word, -2.0) for word in ("▁Paris", "▁in", "▁12", "▁mai", "▁1980", "▁Lyon", "▁Née", "▁le", "▁à")]
    # the case of a number torn into four
    pieces += [("▁5.", -2.0), ("97", -2.0), ("5,7", -2.0), ("4", -9.0)]
    letters = string.ascii_letters + string.digits + string.punctuation + "éèàçÉコト国語\N{FRACTION SLASH}"
    known = {piece for piece, _ in pieces}
    pieces += [(c, -10.0) for c in ("▁", *letters) if c not in known]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return tokenizer


def only_tail() -> Tokenizer:
    """Unigram with one special token, at the end, as T5 has it."""
    tokenizer = unigram()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return tokenizer


def bare() -> Tokenizer:
    """Words by white space and no special tokens, as GPT-like models have it: a blank text has no tokens at all."""
    words = [*dict.fromkeys(" ".join(CORPUS).split())]
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "[PAD]": 1, **{w: i + 2 for i, w in enumerate(words)}}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def uncased() -> Tokenizer:
    """WordPiece that lower-cases and strips accents, as BERT uncased has it."""
    return wordpiece(["paris", "in", "cafe", "the", "man", "plays", "guitar", "##ing", "##s", "play"])


MAKERS: Mapping[str, Callable[[], Tokenizer]] = {
    "wordpiece": uncased,
    "byte-level": lambda: byte_level(trim_offsets=True),
    "byte-level-untrimmed": lambda: byte_level(trim_offsets=False),
    "unigram": unigram,
    "only-tail": only_tail,
    "bare": bare,
}


@cache
def _text_of(kind: str) -> str:
    return str(MAKERS[kind]().to_str())


def made(kind: str) -> Tokenizer:
    """A fresh tokenizer of `kind`, one of MAKERS."""
    return Tokenizer.from_str(_text_of(kind))
