from __future__ import annotations

from pathlib import Path

import pytest

from hotfoot_build.package import prune, tree

KEPT = (
    "numpy/__init__.py",
    "numpy/_core/_multiarray_umath.cpython-313-x86_64-linux-gnu.so",
    "numpy/_core/include/numpy/random/LICENSE.txt",
    "numpy/_core/multiarray.py",
    "numpy/random/LICENSE.md",
    "numpy.libs/libscipy_openblas64_-1b7162d6.so",
    "numpy-2.5.5.dist-info/METADATA",
    "numpy-2.5.5.dist-info/licenses/LICENSE.txt",
    "onnxruntime/LICENSE",
    "onnxruntime/ThirdPartyNotices.txt",
    "onnxruntime/capi/libonnxruntime_providers_shared.so",
    "onnxruntime/capi/onnxruntime_pybind11_state.cpython-313-x86_64-linux-gnu.so",
    "starlette/testclient.py",
)
REMOVED = (
    "bin/f2py",
    "numpy/__init__.pyi",
    "numpy/__pycache__/version.cpython-311.pyc",
    "numpy/_core/_rational_tests.cpython-313-x86_64-linux-gnu.so",
    "numpy/_core/_simd.cpython-313-x86_64-linux-gnu.so",
    "numpy/_core/include/numpy/arrayobject.h",
    "numpy/_core/lib/libnpymath.a",
    "numpy/_core/tests/test_multiarray.py",
    "numpy/f2py/src/fortranobject.c",
    "numpy/py.typed",
    "numpy-2.5.5.dist-info/RECORD",
    "onnxruntime/capi/libonnxruntime.so.1.32.0",
    "onnxruntime/datasets/sigmoid.onnx",
    "onnxruntime/quantization/calibrate.py",
    "onnxruntime/transformers/models/bert.py",
    "tokenizers-0.23.3.dist-info/sboms/tokenizers.cyclonedx.json",
)


def test_removes_what_no_function_opens_and_keeps_engine_blas_and_licences(tmp_path: Path) -> None:
    for name in KEPT + REMOVED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"12345")
    saved = prune.prune(tmp_path)
    assert {p.relative_to(tmp_path).as_posix() for p in tree.files(tmp_path)} == set(KEPT)
    assert sum(saved.values()) == 5 * len(REMOVED)
    assert saved["onnxruntime C library"] == 5
    assert not [p for p in tmp_path.rglob("*") if p.is_dir() and not any(p.iterdir())]


def test_a_rule_that_finds_nothing_says_zero(tmp_path: Path) -> None:
    assert prune.prune(tmp_path, (prune.Rule("none", ("*.none",), "for the test"),)) == {"none": 0}


@pytest.mark.parametrize("rule", prune.RULES, ids=lambda rule: rule.name)
def test_each_rule_gives_its_reason(rule: prune.Rule) -> None:
    assert len(rule.reason) > 20
    assert rule.patterns
