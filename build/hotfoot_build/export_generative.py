"""Decoders as graphs with a cache. Runs in the export environment, called by export.py.

    decoder   input_ids, attention_mask, position_ids, past.* -> logits, present.*

Keys and values are (batch, heads, tokens, head size). The attention mask spans past and new tokens; rows end in padding. It traces with
torch itself: transformers' own masks, which optimum's exporter patches, hide a window of attention from whoever reads the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hotfoot.contract.errors import UnsupportedError

ATTENTION = "hotfoot"  # the name that transformers knows our attention by
NO_MATTER = ("cache_position", "head_mask", "is_causal", "output_attentions", "position_ids", "use_cache")  # of attention's arguments


def write_decoder(model: Any, path: Path, opset: int) -> None:
    """Trace a model that is a decoder alone.

    Raises UnsupportedError for one whose attention does not go through transformers' interface, or has more to it than a window.
    """
    import torch

    shapes = _cache_shapes(model)
    attention = _Attention()
    usual = model.config._attn_implementation  # noqa: SLF001 - transformers has no other name for it
    attention.install(model)
    past_tokens, tokens = 4, 3
    ids = torch.ones(2, tokens, dtype=torch.long)
    mask = torch.ones(2, past_tokens + tokens, dtype=torch.long)
    positions = torch.arange(past_tokens, past_tokens + tokens).repeat(2, 1)
    past = [torch.zeros(2, heads, past_tokens, size) for heads, size in shapes]
    names = cache_names("past", len(shapes))
    axes = {
        "input_ids": {0: "batch", 1: "sequence"},
        "attention_mask": {0: "batch", 1: "total"},
        "position_ids": {0: "batch", 1: "sequence"},
        **{name: {0: "batch", 2: "past"} for name in names},
    }
    inputs = (ids, mask, positions, *past)
    trace(_decoder(model, attention), inputs, axes, ["logits", *cache_names("present", len(shapes))], path, opset)
    model.set_attn_implementation(usual)
    if attention.calls != len(shapes) // 2:
        name = type(model).__name__
        raise UnsupportedError(
            f"{attention.calls} of the {len(shapes) // 2} layers of {name} ask transformers for their attention; hotfoot needs all to."
        )


def _cache_shapes(model: Any) -> list[tuple[int, int]]:
    """(heads, head size) of every key and value, layer by layer, as a run of the model makes them."""
    import torch
    from transformers import DynamicCache

    cache = DynamicCache()
    with torch.no_grad():
        model(input_ids=torch.ones(1, 2, dtype=torch.long), past_key_values=cache, use_cache=True)
    return [(t.shape[1], t.shape[3]) for layer in cache.layers for t in (layer.keys, layer.values)]


def cache_names(kind: str, tensors: int) -> list[str]:
    """Names in the graph's own order: `past.0.key`, `past.0.value`, `past.1.key` and so on."""
    return [f"{kind}.{i}.{part}" for i in range(tensors // 2) for part in ("key", "value")]


class _Attention:
    """Attention as plain products, in one form for every architecture: what the passes look for."""

    def __init__(self) -> None:
        self.calls = 0
        self.bias: Callable[[int | None], Any] = lambda _: None

    def install(self, model: Any) -> None:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        ALL_ATTENTION_FUNCTIONS.register(ATTENTION, self)
        model.set_attn_implementation(ATTENTION)

    def __call__(self, module: Any, query: Any, key: Any, value: Any, _mask: Any, **said: Any) -> tuple[Any, None]:
        """Query (batch, heads, new tokens, size), key and value (batch, fewer heads, all tokens, size) -> (batch, new, heads, size)."""
        import torch

        self.calls += 1
        scale, window = said.pop("scaling", None), said.pop("sliding_window", None)
        said.pop("dropout", None)
        if strange := sorted(name for name, given in said.items() if given is not None and name not in NO_MATTER):
            raise UnsupportedError(f"the attention of {type(module).__name__} has {', '.join(strange)}, which hotfoot cannot export.")
        batch, tokens = query.shape[0], query.shape[2]
        heads, read, size = int(query.shape[1]), int(key.shape[1]), int(query.shape[3])  # numbers of the model's, not of the input's
        bias = self.bias(window)
        if read != heads:  # several query heads read one key head
            query = query.reshape(batch, read, heads // read, tokens, size)
            key, value, bias = key.unsqueeze(2), value.unsqueeze(2), bias.unsqueeze(1)
        scores = torch.matmul(query, key.transpose(-1, -2)) * (size**-0.5 if scale is None else scale) + bias
        return torch.matmul(torch.softmax(scores, -1), value).reshape(batch, heads, tokens, size).transpose(1, 2), None


def causal(past: Any, tokens: Any, total: Any, mask: Any, window: int | None) -> Any:
    """(batch or 1, 1, tokens, total): 0 where a token may look, the least float elsewhere."""
    import torch

    own, every = torch.arange(past, past + tokens)[:, None], torch.arange(total)[None]
    seen = every <= own
    if window is not None:
        seen = seen & (own - every < window)
    seen = seen[None, None]
    if mask is not None:
        seen = seen & (mask[:, None, None, :] > 0)
    return torch.where(seen, 0.0, torch.finfo(torch.float32).min)


def growing(past: Sequence[Any]) -> Any:
    """A cache that begins with `past` (keys and values in turn) and collects what it grew to in `.present`."""
    import torch
    from transformers import DynamicCache

    class Growing(DynamicCache):  # type: ignore[misc]  # transformers has no types
        def __init__(self) -> None:
            super().__init__()
            self.present: dict[int, tuple[Any, Any]] = {}

        def update(self, key_states: Any, value_states: Any, layer_idx: int, _kwargs: Any = None) -> tuple[Any, Any]:
            grown = (key_states, value_states)
            if past:
                before = past[2 * layer_idx : 2 * layer_idx + 2]
                grown = (torch.cat((before[0], key_states), 2), torch.cat((before[1], value_states), 2))
            self.present[layer_idx] = grown
            return grown

        def get_seq_length(self, _layer_idx: int = 0) -> Any:
            return past[0].shape[2] if past else 0

        def flat(self) -> list[Any]:
            return [tensor for index in sorted(self.present) for tensor in self.present[index]]

    return Growing()


def _decoder(model: Any, attention: _Attention) -> Any:
    import torch

    class Decoder(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Any, mask: Any, positions: Any, *past: Any) -> tuple[Any, ...]:
            cache, before = growing(past), past[0].shape[2]
            made: dict[int | None, Any] = {}

            def bias(window: int | None) -> Any:
                if window not in made:
                    made[window] = causal(before, ids.shape[1], mask.shape[1], mask, window)
                return made[window]

            attention.bias = bias
            logits = self.model(
                input_ids=ids,
                attention_mask=torch.zeros(1, 1, 1, 1),  # of four dimensions: taken as it is, and not used
                position_ids=positions,
                past_key_values=cache,
                cache_position=torch.arange(before, before + ids.shape[1]),
                use_cache=True,
            ).logits
            return (logits, *cache.flat())

    return Decoder()


def trace(module: Any, inputs: tuple[Any, ...], axes: Mapping[str, Any], outputs: list[str], path: Path, opset: int) -> None:
    """Write a module's graph. axes: of each input by its name, in order, what its sizes that vary are called."""
    import torch

    module.eval()
    grown = {o: {0: "batch", 1: "sequence"} if o == "logits" else {0: "batch", 2: "source" if "cross" in o else "total"} for o in outputs}
    try:
        with torch.no_grad():
            torch.onnx.export(
                module,
                inputs,
                path,
                input_names=[*axes],
                output_names=outputs,
                dynamic_axes={**axes, **grown},
                opset_version=opset,
                dynamo=False,
            )
    except (RuntimeError, TypeError, ValueError, AttributeError) as error:
        name = type(module.model).__name__
        raise UnsupportedError(f"torch cannot trace {name} with a cache: {str(error).strip().splitlines()[0]}") from error
