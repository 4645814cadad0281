"""Encoder-decoders as two graphs. Runs in the export environment, called by export.py.

    encoder   input_ids, attention_mask -> cross.* (keys and values of every cross-attention, computed once a text)
    decoder   input_ids, encoder_attention_mask, past.*, cross.* -> logits, present.*

Keys and values are (batch, heads, tokens, head size).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hotfoot.contract.errors import UnsupportedError
from hotfoot_build.export_generative import cache_names, causal, growing, trace

Projection = tuple[Any, int, int]  # a linear layer, heads and head size of what it makes


def write_pair(model: Any, out: Path, opset: int) -> None:
    """Trace an encoder-decoder as encoder.onnx and decoder.onnx in `out`.

    Raises UnsupportedError for one whose cross-attentions are not made of plain products with the encoder's output.
    """
    import torch

    shapes, made = _self_shapes(model), _projections(model)
    ids, mask = torch.ones(2, 5, dtype=torch.long), torch.ones(2, 5, dtype=torch.long)
    axes: dict[str, dict[int, str]] = {name: {0: "batch", 1: "source"} for name in ("input_ids", "attention_mask")}
    cross = cache_names("cross", len(shapes))
    trace(_encoder(model, made), (ids, mask), axes, cross, out / "encoder.onnx", opset)
    past = [torch.zeros(2, heads, 4, size) for heads, size in shapes]
    axes = {
        "input_ids": {0: "batch", 1: "sequence"},
        "encoder_attention_mask": {0: "batch", 1: "source"},
        **{name: {0: "batch", 2: "past"} for name in cache_names("past", len(shapes))},
        **{name: {0: "batch", 2: "source"} for name in cross},
    }
    given = [torch.zeros(2, heads, 5, size) for _, heads, size in made]
    inputs = (torch.ones(2, 3, dtype=torch.long), mask, *past, *given)
    outputs = ["logits", *cache_names("present", len(shapes))]
    trace(_paired_decoder(model, len(shapes)), inputs, axes, outputs, out / "decoder.onnx", opset)


def _self_shapes(model: Any) -> list[tuple[int, int]]:
    """(heads, head size) of every key and value of the decoder's own attention."""
    import torch

    ids = torch.ones(1, 2, dtype=torch.long)
    with torch.no_grad():
        cache = model(input_ids=ids, decoder_input_ids=ids, use_cache=True).past_key_values.self_attention_cache
    return [(t.shape[1], t.shape[3]) for layer in cache.layers for t in (layer.keys, layer.values)]


def _encoder(model: Any, made: Sequence[Projection]) -> Any:
    """The encoder, and of the decoder the products that make keys and values of the encoder's output."""
    import torch

    class Encoder(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Any, mask: Any) -> tuple[Any, ...]:
            hidden = self.model.get_encoder()(input_ids=ids, attention_mask=mask)[0]
            return tuple(_heads(project(hidden), heads, size) for project, heads, size in made)

    return Encoder()


def _heads(hidden: Any, heads: int, size: int) -> Any:
    """(batch, tokens, heads · size) as (batch, heads, tokens, size)."""
    return hidden.view(hidden.shape[0], -1, heads, size).transpose(1, 2)


def _projections(model: Any) -> list[Projection]:
    """The linear layers that make the cross-attentions' keys and values, in turn, with heads and head size; found by watching a step."""
    import torch

    ids, seen = torch.ones(1, 2, dtype=torch.long), []
    with torch.no_grad():
        hidden = model.get_encoder()(input_ids=ids)

        def watch(module: Any, inputs: tuple[Any, ...], _output: Any) -> None:
            if inputs and inputs[0] is hidden[0]:
                seen.append(module)

        hooks = [m.register_forward_hook(watch) for m in model.get_decoder().modules() if isinstance(m, torch.nn.Linear)]
        said = model(encoder_outputs=hidden, decoder_input_ids=ids[:, :1], use_cache=True)
        for hook in hooks:
            hook.remove()
        cross = [t for layer in said.past_key_values.cross_attention_cache.layers for t in (layer.keys, layer.values)]
        if len(seen) == len(cross) and all(
            torch.equal(_heads(module(hidden[0]), *t.shape[1::2]), t) for module, t in zip(seen, cross, strict=True)
        ):
            return [(module, t.shape[1], t.shape[3]) for module, t in zip(seen, cross, strict=True)]
    raise UnsupportedError(f"the cross-attention of {type(model).__name__} is not made of plain products with the encoder's output.")


def _paired_decoder(model: Any, tensors: int) -> Any:
    import torch
    from transformers import DynamicCache, EncoderDecoderCache
    from transformers.modeling_outputs import BaseModelOutput

    class Decoder(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Any, encoder_mask: Any, *given: Any) -> tuple[Any, ...]:
            past, cross = given[:tensors], given[tensors:]
            cache, before, tokens = growing(past), past[0].shape[2], ids.shape[1]
            both = EncoderDecoderCache(cache, DynamicCache())
            pairs = zip(cross[::2], cross[1::2], strict=True)
            both.cross_attention_cache.layers[:] = [SimpleNamespace(keys=key, values=value) for key, value in pairs]
            both.is_updated = dict.fromkeys(range(tensors // 2), True)
            hidden = torch.zeros(1, 1, self.model.config.hidden_size).expand(*encoder_mask.shape, -1)  # of which only the shape is read
            logits = self.model(
                encoder_outputs=BaseModelOutput(hidden),
                attention_mask=encoder_mask,
                decoder_input_ids=ids,
                decoder_attention_mask=causal(before, tokens, before + tokens, None, None),
                past_key_values=both,
                cache_position=torch.arange(before, before + tokens),
                use_cache=True,
            ).logits
            return (logits, *cache.flat())

    return Decoder()
