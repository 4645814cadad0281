"""ONNX Runtime's rewrites that hold on every CPU: folded constants, merged shape arithmetic, Gelu, scaled products.

Done once here instead of at each cold start; the session then opens the graph with optimisation off. Only the rewrites below
the layout level run, which do not depend on the CPU that does them.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir
import onnxruntime as ort
from onnx_ir.passes import common

from hotfoot.contract.errors import PassError
from hotfoot_build.graph import Graph, is_large, write
from hotfoot_build.passes import Context, Counts, Pass

# Slower on CPUs than the operators that they replace (SkipLayerNormalization took 0.31 ms a call where Add and
# LayerNormalization took under 0.1; fused attention lost at 128 tokens), or in the way of quantization (EmbedLayerNorm).
DISABLED = ("AttentionFusion", "EmbedLayerNormFusion", "SkipLayerNormFusion")


@dataclass(frozen=True)
class Options:
    """Optimisers of ONNX Runtime that stay off."""

    disabled: tuple[str, ...]


def options(_context: Context) -> Options:
    """The same for every target."""
    return Options(DISABLED)


def run(graph: Graph, options: Options) -> None:
    """Let ONNX Runtime write its optimised graph and take that."""
    with tempfile.TemporaryDirectory(prefix="hotfoot-ort-") as folder:
        source, rewritten = Path(folder, "in.onnx"), Path(folder, "out.onnx")
        write(graph, source)
        session = ort.SessionOptions()
        session.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        session.optimized_model_filepath = str(rewritten)
        session.log_severity_level = 3
        if is_large(graph):
            session.add_session_config_entry("session.optimized_model_external_initializers_file_name", "out.onnx.data")
        try:
            ort.InferenceSession(str(source), session, providers=["CPUExecutionProvider"], disabled_optimizers=list(options.disabled))
        except Exception as error:
            raise PassError(f"ONNX Runtime {ort.__version__} cannot rewrite the graph: {error}") from error
        model = ir.load(rewritten)
        # into memory before the folder goes
        for value in model.graph.initializers.values():
            if value.const_value is not None:
                value.const_value = ir.tensor(value.const_value.numpy().copy(), name=value.name)
    # folding may have made a copy of a shared weight for each of its readers
    common.DeduplicateInitializersPass(size_limit=1 << 40)(model)
    graph.model = model


def check(graph: Graph, before: Counts, _options: Options) -> str | None:
    """Every exported Gelu must be found: an Erf left over would run as five operators."""
    after = graph.op_counts()
    if before.get("Erf", 0) and after.get("Erf", 0):
        return f"{after['Erf']} of {before['Erf']} Gelu activations were not recognised"
    return None


PASS = Pass(
    name="ort_rewrite",
    summary="fold constants, fuse Gelu and scaled products",
    options=options,
    applies=lambda _graph, _options: None,
    run=run,
    check=check,
)
