"""Tiny random models of each kind, as Hugging Face folders. Runs in the export environment: make_tiny.py OUT."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from sentence_transformers.base.modules.dense import Dense
from sentencepiece import SentencePieceTrainer
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    BertConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    CamembertConfig,
    CamembertForTokenClassification,
    DebertaV2Config,
    DebertaV2ForSequenceClassification,
    DebertaV2ForTokenClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    ElectraConfig,
    ElectraForTokenClassification,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    MPNetConfig,
    MPNetModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaForQuestionAnswering,
    RobertaForSequenceClassification,
    XLMRobertaConfig,
    XLMRobertaModel,
)

SMALL: dict[str, Any] = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
CORPUS = [
    "the quick brown fox jumps over the lazy dog near paris in 1980",
    "Maria Gonzalez lives at 42 Elm Street, Springfield; call 555-1234!",
    "naïve café société über ångström 10% of $5,975.74",
] * 20


def wordpiece() -> Tokenizer:
    """Lower-casing WordPiece whose file carries padding and truncation to 128, as a real one does."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=300, special_tokens=special))
    frame = [("[CLS]", tokenizer.token_to_id("[CLS]")), ("[SEP]", tokenizer.token_to_id("[SEP]"))]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=frame
    )
    tokenizer.enable_padding(length=128, pad_token="[PAD]", pad_id=0)
    tokenizer.enable_truncation(128)
    return tokenizer


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=500, special_tokens=special, initial_alphabet=alphabet))
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    return tokenizer


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.UnigramTrainer(vocab_size=200, special_tokens=special, unk_token="<unk>")
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


def widen(model: Any) -> Any:
    """A wider spread than the default 0.02, so that random answers differ from text to text."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2:
                parameter.mul_(5.0 if "embeddings" in name else 3.0)
    return model.eval()


def save(model: Any, tokenizer: Tokenizer, out: Path, *, limit: int | None, **saving: Any) -> None:
    special = (
        {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
        if tokenizer.token_to_id("[PAD]") is not None
        else {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}
    )
    names = ["input_ids", "token_type_ids", "attention_mask"] if "[PAD]" in special.values() else ["input_ids", "attention_mask"]
    extra = {"model_max_length": limit} if limit else {}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_input_names=names, **special, **extra)
    model.save_pretrained(out, **saving)
    fast.save_pretrained(out)


def sentence_transformer(out: Path, modules: list[str], limit: int) -> None:
    listed = [
        {"idx": i, "name": str(i), "path": f"{i}_{m}" if i else "", "type": f"sentence_transformers.models.{m}"}
        for i, m in enumerate(modules)
    ]
    (out / "modules.json").write_text(json.dumps(listed))
    (out / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": limit, "do_lower_case": False}))
    (out / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 64, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    (out / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (out / "README.md").write_text("---\nlicense: apache-2.0\n---\nA tiny random model.\n")
    (out / "LICENSE").write_text("Permission is granted.\n")


def more(out: Path, pieces: Tokenizer, bytes_: Tokenizer, uni: Tokenizer) -> None:
    """Further architectures: relative biases, rotary positions, local attention, other heads."""
    words, tags = pieces.get_vocab_size(), {"num_labels": 5}
    offset = {"max_position_embeddings": 66, "pad_token_id": 1}
    mpnet = MPNetConfig(**SMALL, **offset, vocab_size=bytes_.get_vocab_size())
    save(widen(MPNetModel(mpnet)), bytes_, out / "mpnet", limit=None)
    electra = ElectraConfig(**SMALL, **tags, vocab_size=words, embedding_size=32, max_position_embeddings=64)
    save(widen(ElectraForTokenClassification(electra)), pieces, out / "electra", limit=64)
    camembert = CamembertConfig(**SMALL, **offset, **tags, vocab_size=uni.get_vocab_size(), type_vocab_size=1)
    save(widen(CamembertForTokenClassification(camembert)), uni, out / "camembert", limit=64)
    attention = {"global_attn_every_n_layers": 2, "local_attention": 16, "reference_compile": False}
    modern = ModernBertConfig(**SMALL, **attention, vocab_size=words, max_position_embeddings=64, num_labels=3, pad_token_id=0)
    save(widen(ModernBertForSequenceClassification(modern)), pieces, out / "modernbert", limit=64)


def pairs_and_masks(out: Path, pieces: Tokenizer, bytes_: Tokenizer) -> None:
    """Heads over pairs of texts and over the vocabulary, for BERT and for RoBERTa, which has no token types."""
    pieces, bytes_ = (Tokenizer.from_str(t.to_str()) for t in (pieces, bytes_))
    pieces.decoder, bytes_.decoder = decoders.WordPiece(), decoders.ByteLevel()
    bytes_.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])  # as RoBERTa has it, the space before is the mask's
    bert = BertConfig(**SMALL, vocab_size=pieces.get_vocab_size(), max_position_embeddings=128)
    offset = {"max_position_embeddings": 130, "pad_token_id": 1, "type_vocab_size": 1, "vocab_size": bytes_.get_vocab_size()}
    roberta = RobertaConfig(**SMALL, **offset, bos_token_id=0, eos_token_id=2)
    save(widen(BertForQuestionAnswering(bert)), pieces, out / "answers", limit=128)
    save(widen(RobertaForQuestionAnswering(roberta)), bytes_, out / "answers-roberta", limit=128)
    save(widen(BertForMaskedLM(bert)), pieces, out / "masks", limit=128)
    save(widen(RobertaForMaskedLM(roberta)), bytes_, out / "masks-roberta", limit=128)
    bert.num_labels = roberta.num_labels = 1
    save(widen(BertForSequenceClassification(bert)), pieces, out / "ranks", limit=128)
    save(widen(RobertaForSequenceClassification(roberta)), bytes_, out / "ranks-roberta", limit=128)


def entailment(out: Path, pieces: Tokenizer, bytes_: Tokenizer) -> None:
    """Heads that say whether one text follows from another: entailment first of three, and second of two."""
    three, two = ["ENTAILMENT", "neutral", "contradiction"], ["not_entailment", "entailment"]
    bert = BertConfig(**SMALL, **named(three), vocab_size=pieces.get_vocab_size(), max_position_embeddings=64)
    save(decided(widen(BertForSequenceClassification(bert)), "classifier"), pieces, out / "nli", limit=64)
    offset = {"max_position_embeddings": 66, "pad_token_id": 1, "type_vocab_size": 1, "vocab_size": bytes_.get_vocab_size()}
    roberta = RobertaConfig(**SMALL, **offset, **named(two), bos_token_id=0, eos_token_id=2)
    save(decided(widen(RobertaForSequenceClassification(roberta)), "classifier.out_proj"), bytes_, out / "nli-two", limit=64)


def decided(model: Any, head: str) -> Any:
    """The same with a stronger last layer that favours no output, so that hypotheses that differ in a word have scores that differ."""
    last = model.get_submodule(head)
    with torch.no_grad():
        last.weight.mul_(30.0)
        last.bias.sub_(model(torch.randint(5, model.config.vocab_size, (32, 16))).logits.mean(0))
    return model


def classifiers(out: Path, pieces: Tokenizer) -> None:
    """A head for pairs of texts, one whose labels do not exclude each other, and one that gives numbers."""
    heads: dict[str, tuple[list[str], dict[str, Any]]] = {
        "pairs": (["other", "same"], {}),
        "many": (["toxic", "obscene", "threat", "insult"], {"problem_type": "multi_label_classification"}),
        "scale": (["valence", "arousal"], {"problem_type": "regression"}),
    }
    for name, (labels, kind) in heads.items():
        bert = BertConfig(**SMALL, **named(labels), **kind, vocab_size=pieces.get_vocab_size(), max_position_embeddings=64)
        save(widen(BertForSequenceClassification(bert)), pieces, out / name, limit=64)


def named(labels: list[str]) -> dict[str, Any]:
    return {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}


def dense_head(folder: Path) -> None:
    """The module that the folder's modules.json already names, as sentence-transformers itself saves it."""
    (folder / "2_Dense").mkdir()
    module = Dense(in_features=64, out_features=16)
    with torch.no_grad():
        module.linear.bias.copy_(torch.randn(16))
    module.save(str(folder / "2_Dense"))


def deberta(out: Path, uni: Tokenizer) -> None:
    """Attention by content and by buckets of distance, for texts longer than the buckets tell apart; one with a convolution as well."""
    positions = {"relative_attention": True, "position_buckets": 8, "position_biased_input": False, "pos_att_type": ["p2c", "c2p"]}
    shared = {"share_att_key": True, "norm_rel_ebd": "layer_norm", "type_vocab_size": 0, "max_position_embeddings": 64}
    config = DebertaV2Config(**SMALL, **positions, **shared, vocab_size=uni.get_vocab_size(), pad_token_id=1, num_labels=3)
    save(widen(DebertaV2ForSequenceClassification(config)), uni, out / "deberta", limit=64)
    config.conv_kernel_size, config.conv_act = 3, "gelu"
    save(widen(DebertaV2ForTokenClassification(config)), uni, out / "deberta-tags", limit=64)


def main(out: Path) -> None:
    torch.manual_seed(0)
    pieces, bytes_, uni = wordpiece(), byte_level(), unigram()
    bert = {**SMALL, "vocab_size": pieces.get_vocab_size(), "max_position_embeddings": 128}
    save(widen(BertModel(BertConfig(**bert))), pieces, out / "embed", limit=128)
    sentence_transformer(out / "embed", ["Transformer", "Pooling", "Normalize"], limit=96)
    shutil.copytree(out / "embed", out / "dense")
    listed = json.loads((out / "dense" / "modules.json").read_text())
    dense = {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    listed[2:] = [dense, {**listed[2], "idx": 3, "name": "3"}]
    (out / "dense" / "modules.json").write_text(json.dumps(listed))

    tags = dict(enumerate(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]))
    tagger = widen(BertForTokenClassification(BertConfig(**bert, id2label=tags, label2id={v: k for k, v in tags.items()})))
    save(tagger, pieces, out / "tags", limit=None)
    save(tagger, pieces, out / "pickled", limit=128, safe_serialization=False)

    # position ids begin after the padding index, and nothing names the limit of 64
    names = {i: f"class {i}" for i in range(12)}
    roberta = RobertaConfig(**SMALL, vocab_size=bytes_.get_vocab_size(), max_position_embeddings=66, type_vocab_size=1, pad_token_id=1)
    roberta.id2label, roberta.label2id = names, {v: k for k, v in names.items()}
    save(widen(RobertaForSequenceClassification(roberta)), bytes_, out / "classes", limit=None)
    config = json.loads((out / "classes" / "config.json").read_text())
    config["id2label"] = {k: config["id2label"][k] for k in sorted(config["id2label"])}  # "0", "1", "10", "11", "2" ...
    (out / "classes" / "config.json").write_text(json.dumps(config))

    one = DistilBertConfig(
        vocab_size=pieces.get_vocab_size(), dim=64, n_layers=2, n_heads=2, hidden_dim=128, max_position_embeddings=64, num_labels=1
    )
    save(widen(DistilBertForSequenceClassification(one)), pieces, out / "score", limit=64)

    xlm = XLMRobertaConfig(**SMALL, vocab_size=uni.get_vocab_size(), max_position_embeddings=130, type_vocab_size=1, pad_token_id=1)
    save(widen(XLMRobertaModel(xlm)), uni, out / "plain", limit=128)

    # the same weights in every layer, as ALBERT has them
    albert = AlbertConfig(**SMALL, vocab_size=pieces.get_vocab_size(), embedding_size=32, max_position_embeddings=64, num_labels=2)
    albert.num_hidden_layers = 6
    save(widen(AlbertForSequenceClassification(albert)), pieces, out / "shared", limit=64)

    more(out, pieces, bytes_, uni)

    # nothing but a SentencePiece model: tokenizer.json has to be made of it
    folder = out / "pieces"
    folder.mkdir()
    SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_prefix=str(folder / "sentencepiece.bpe"), vocab_size=70, model_type="unigram", minloglevel=2
    )
    (folder / "sentencepiece.bpe.vocab").unlink()
    fairseq = XLMRobertaConfig(**SMALL, vocab_size=72, max_position_embeddings=66, type_vocab_size=1, pad_token_id=1)
    widen(XLMRobertaModel(fairseq)).save_pretrained(folder)
    settings = {"tokenizer_class": "XLMRobertaTokenizer", "model_max_length": 64}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))

    pairs_and_masks(out, pieces, bytes_)
    dense_head(out / "dense")
    deberta(out, uni)
    entailment(out, pieces, bytes_)
    classifiers(out, pieces)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
