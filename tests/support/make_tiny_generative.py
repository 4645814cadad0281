"""Tiny random models that make text, as Hugging Face folders, and what transformers says of them.

Runs in the export environment with tests/ on the path: make_tiny_generative.py OUT usual|further. Beside each model lies
`expected.npz`: prompts, the tokens that `generate` adds to each greedily, and of a long text the logits at every token.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, processors
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GemmaConfig,
    GemmaForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    MBartConfig,
    MBartForConditionalGeneration,
    MistralConfig,
    MistralForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    PegasusConfig,
    PegasusForConditionalGeneration,
    Phi3Config,
    Phi3ForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    UMT5Config,
    UMT5ForConditionalGeneration,
)

from support.make_tiny import CORPUS, byte_level, unigram

ROWS = 4200  # of every embedding: as many as a pass must find before it takes a table, more than the tokenizers make
NEW = 24
LIMIT = 128
SMALL: dict[str, Any] = {
    "vocab_size": ROWS,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": LIMIT,
}
# the second holds the token that ends an answer, which in GPT-2 is the one that pads, too
PROMPTS = ("the", "quick</s> brown fox", "Maria Gonzalez lives at 42", CORPUS[1], " ".join(CORPUS[:3])[:100])
Marks = dict[str, int | list[list[int]]]


def varied(model: Any, spread: float, words: int) -> Any:
    """Weights wide enough that what comes next depends on what was there; a random model else repeats one token.

    Rows of a vocabulary past the tokenizer's `words` are zeros, as in a table that was padded to a round number.
    """
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0, spread / parameter.shape[-1] ** 0.5)
                if len(parameter) == ROWS:
                    parameter[words:] = 0
            elif parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


def tokenizers() -> dict[str, Tokenizer]:
    """Byte-level without special tokens, with one before a text, with one on both sides; pieces with one after a text."""
    plain, pieces = byte_level(), unigram()
    made = {name: Tokenizer.from_str(plain.to_str()) for name in ("plain", "begun", "framed")}
    for tokenizer in made.values():
        tokenizer.decoder = decoders.ByteLevel()
    ids = [("<s>", 0), ("</s>", 2)]
    made["plain"].post_processor = processors.ByteLevel(trim_offsets=False)
    made["begun"].post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=ids[:1])
    made["framed"].post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ids)
    pieces.decoder = decoders.Metaspace()
    pieces.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=ids[1:])
    made["pieces"] = pieces
    return made


def save(model: Any, tokenizer: Tokenizer, out: Path) -> None:
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    special |= {"pad_token": "</s>" if model.config.model_type == "gpt2" else "<pad>"}
    model.save_pretrained(out)
    names = ["input_ids", "attention_mask"]
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_input_names=names, model_max_length=LIMIT, **special).save_pretrained(out)
    prefix = (model.config.task_specific_params or {}).get("summarization", {}).get("prefix", "")
    ids = [tokenizer.encode(prefix + prompt).ids for prompt in PROMPTS]
    with torch.no_grad():
        made = [greedy(model, row)[0 if model.config.is_encoder_decoder else len(row) :] for row in ids]
        whole = torch.tensor([([*ids[-1], *ids[-2], *ids[-3]] * 9)[:100]])
        extra = {"decoder_input_ids": whole[:, :90]} if model.config.is_encoder_decoder else {}
        logits = model(input_ids=whole, **extra).logits[0]
    named = {f"prompt.{i}": row for i, row in enumerate(ids)} | {f"made.{i}": row for i, row in enumerate(made)}
    arrays = {"ids": whole[0].numpy(), "logits": logits.numpy(), **{k: np.asarray(v) for k, v in named.items()}}
    np.savez(out / "expected.npz", allow_pickle=False, **arrays)


def greedy(model: Any, row: list[int]) -> list[int]:
    """What `generate` gives, with the settings of the model's own: in general, and for summaries as the pipeline has them."""
    special = (model.config.task_specific_params or {}).get("summarization", {})
    model.generation_config.update(**{name: value for name, value in special.items() if name != "prefix"})
    asked = {"max_new_tokens": NEW, "do_sample": False, "num_beams": 1, "attention_mask": torch.ones(1, len(row), dtype=torch.long)}
    found: list[int] = model.generate(torch.tensor([row]), **asked)[0].tolist()
    return found


def decoders_only(out: Path, made: dict[str, Tokenizer]) -> None:
    marks = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": None}
    llama = LlamaConfig(**SMALL, **marks, tie_word_embeddings=True)
    save(varied(LlamaForCausalLM(llama), 1.6, made["begun"].get_vocab_size()), made["begun"], out / "llama")
    mistral = MistralConfig(**SMALL, **marks, sliding_window=8)
    save(varied(MistralForCausalLM(mistral), 1.6, made["begun"].get_vocab_size()), made["begun"], out / "mistral")
    gpt2 = GPT2Config(vocab_size=ROWS, n_positions=LIMIT, n_embd=64, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=2)
    save(varied(GPT2LMHeadModel(gpt2), 1.6, made["plain"].get_vocab_size()), made["plain"], out / "gpt2")


def encoder_decoders(out: Path, made: dict[str, Tokenizer]) -> None:
    marks = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    t5 = T5Config(vocab_size=ROWS, d_model=64, d_kv=16, d_ff=96, num_layers=3, num_decoder_layers=2, num_heads=4, n_positions=LIMIT)
    t5.pad_token_id, t5.eos_token_id, t5.decoder_start_token_id = 1, 2, 1
    t5.task_specific_params = {"summarization": {"prefix": "quick: ", "min_length": 6, "no_repeat_ngram_size": 3}}
    save(varied(T5ForConditionalGeneration(t5), 1.0, made["pieces"].get_vocab_size()), made["pieces"], out / "t5")
    sizes: dict[str, Any] = {"encoder_layers": 3, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
    sizes |= {"encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "d_model": 64, "max_position_embeddings": LIMIT, "vocab_size": ROWS}
    bart = BartForConditionalGeneration(BartConfig(**sizes, **marks, decoder_start_token_id=2))
    bart.generation_config.update(forced_bos_token_id=0, forced_eos_token_id=2, min_length=10, no_repeat_ngram_size=3)
    save(varied(bart, 1.6, made["framed"].get_vocab_size()), made["framed"], out / "bart")
    # starts with the padding token, which must not come again
    marian = MarianMTModel(MarianConfig(**sizes, pad_token_id=1, eos_token_id=2, decoder_start_token_id=1))
    marian.generation_config.update(bad_words_ids=[[1]], forced_eos_token_id=2)
    sinusoids = [p.clone() for n, p in marian.named_parameters() if "embed_positions" in n]
    varied(marian, 1.6, made["pieces"].get_vocab_size())
    with torch.no_grad():
        for kept, (_, parameter) in zip(sinusoids, [(n, p) for n, p in marian.named_parameters() if "embed_positions" in n], strict=True):
            parameter.copy_(kept)
    save(marian, made["pieces"], out / "marian")


def further(out: Path, made: dict[str, Tokenizer]) -> None:
    """Other architectures: norms of heads, windows in some layers only, positions that turn half a head, offset positions ..."""
    marks = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}
    begun, framed = made["begun"], made["framed"]
    mixed = {"head_dim": 16, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}
    opt = {
        "vocab_size": ROWS,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "ffn_dim": 96,
        "num_attention_heads": 4,
        "word_embed_proj_dim": 64,
    }
    sizes: dict[str, Any] = {"encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
    sizes |= {"encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "d_model": 64, "max_position_embeddings": LIMIT, "vocab_size": ROWS}
    umt5 = {"vocab_size": ROWS, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4, "n_positions": LIMIT}
    for name, model, tokenizer in (
        ("qwen2", Qwen2ForCausalLM(Qwen2Config(**SMALL, **marks)), begun),
        ("qwen3", Qwen3ForCausalLM(Qwen3Config(**SMALL, **marks, head_dim=16)), begun),
        ("gemma", GemmaForCausalLM(GemmaConfig(**SMALL, **marks, head_dim=16)), begun),
        ("gemma3", Gemma3ForCausalLM(Gemma3TextConfig(**SMALL, **marks, **mixed)), begun),
        ("phi3", Phi3ForCausalLM(Phi3Config(**SMALL, **marks)), begun),
        ("gpt_neox", GPTNeoXForCausalLM(GPTNeoXConfig(**SMALL, **marks)), made["plain"]),
        ("opt", OPTForCausalLM(OPTConfig(**opt, **marks, max_position_embeddings=LIMIT)), begun),
        ("pegasus", PegasusForConditionalGeneration(PegasusConfig(**sizes, **marks, decoder_start_token_id=1)), made["pieces"]),
        ("mbart", MBartForConditionalGeneration(MBartConfig(**sizes, **marks, decoder_start_token_id=2)), framed),
        ("umt5", UMT5ForConditionalGeneration(UMT5Config(**umt5, **marks, decoder_start_token_id=1)), made["pieces"]),
    ):
        save(varied(model, 1.0 if name == "umt5" else 1.6, tokenizer.get_vocab_size()), tokenizer, out / name)


def main(out: Path, kinds: str) -> None:
    made = tokenizers()
    if kinds == "further":
        further(out, made)
        return
    decoders_only(out, made)
    encoder_decoders(out, made)
    for folder in out.iterdir():
        expected = np.load(folder / "expected.npz")
        different = [len(set(expected[name].tolist())) for name in expected.files if name.startswith("made")]
        print(json.dumps({"model": folder.name, "different tokens an answer": different}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
