"""Runs on an emulated CPU: inside_avx2.py ARTIFACT TEXTS.json OUT.npz. The largest sums; a real artifact's vectors, alone and together."""

from __future__ import annotations

import json
import sys

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from hotfoot.model import Model


def worst_error(largest: int) -> int:
    """How far the int8 product is from the exact integers when every pair of terms is as large as it can be."""
    rows, columns = 512, 64
    weight = np.full((rows, columns), largest, np.int8)
    weight[:, columns // 2 :] *= -1
    constants = {"w": weight, "one": np.float32(1), "s": np.ones(columns, np.float32), "za": np.uint8(128), "zw": np.int8(0)}
    made = helper.make_graph(
        [helper.make_node("MatMulIntegerToFloat", ["x", "w", "one", "s", "za", "zw"], ["y"], domain="com.microsoft")],
        "worst",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, ["rows", rows])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", columns])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(made, opset_imports=opsets, ir_version=9)
    x = np.stack([np.full(rows, 255), np.zeros(rows)]).astype(np.uint8)
    session = ort.InferenceSession(onnx.ModelProto.SerializeToString(model), providers=["CPUExecutionProvider"])
    found: NDArray[np.float32] = session.run(None, {"x": x})[0]
    exact = (x.astype(np.int64) - 128) @ weight.astype(np.int64)
    return int(np.abs(found - exact).max())


def main(artifact: str, texts: str, out: str) -> None:
    asked = tuple(json.loads(texts))
    model = Model.open(artifact, threads=1, foreign=True)
    together = np.stack(model.outputs(asked)[1])
    alone = np.stack([model.outputs((text,))[1][0] for text in asked])
    errors = np.array([worst_error(largest) for largest in (64, 127)])
    np.savez(out, together=together, alone=alone, errors=errors)


if __name__ == "__main__":
    main(*sys.argv[1:])
