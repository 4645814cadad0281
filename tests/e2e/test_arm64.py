"""Lambda on Graviton without one: the arm64 bundle, all its layers, AWS's arm64 programs, on an emulated Neoverse N1, the oldest there."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hotfoot.model import Model
from hotfoot.task import Encoded
from hotfoot.tasks._vectors import cosine
from hotfoot_build import calibrate, parity
from hotfoot_build.package.bundle import bundle
from support import arm_box, events, inside_arm, integer_products, real
from support.lambda_box import LambdaBox, Machine

pytestmark = [pytest.mark.slow, pytest.mark.root]
TEXTS = (
    "A man is playing a guitar on stage.",
    "Rain.",
    "Café Zoë, 東京 and a naïve 🦊 — " * 3,
    "The stock market fell sharply on Monday, and nobody whom we asked could say why it did. " * 2,
    "Someone plays music in front of people.",
    "Shares lost much of their value at the start of the week.",
)
NOISE = "Error in cpuinfo: failed to parse the list of possible processors"  # what ONNX Runtime's library says without /sys
DOTPROD, SVE = 1 << 20, 1 << 22  # of Linux's AT_HWCAP
I8MM, BF16 = 1 << 13, 1 << 14  # of AT_HWCAP2


@dataclass(frozen=True)
class Here:
    """What this machine makes of the same artifact: its tokens, and a vector a text."""

    model: Model
    encoded: tuple[Encoded, ...]
    vectors: list[NDArray[np.float32]]


@pytest.fixture(scope="module")
def graviton() -> Machine:
    """The emulated machine; fails, and never skips, where this one cannot emulate it."""
    found = arm_box.faults()
    if found:
        pytest.fail("this machine cannot run the arm64 box:\n" + "\n".join(f"  {f}" for f in found), pytrace=False)
    return arm_box.graviton()


@pytest.fixture(scope="module")
def artifact() -> Path:
    return real.artifact("embed", "int8", "lambda-arm64").path


@pytest.fixture(scope="module")
def bundled(artifact: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("arm64") / "bundle"
    bundle(artifact, out, progress=print)
    return out


@pytest.fixture(scope="module")
def here(artifact: Path) -> Here:
    with parity.for_this_host(artifact) as opened:
        model = Model.open(opened, foreign=True)
        encoded, vectors = model.outputs(TEXTS)
    return Here(model, encoded, vectors)


@pytest.fixture(scope="module")
def without_sys(graviton: Machine, bundled: Path) -> Iterator[LambdaBox]:
    """The bundle's own handler in the box that is as Lambda is: no /sys."""
    with opened(bundled, graviton) as box:
        yield box


def opened(directory: Path, machine: Machine, **given: Any) -> LambdaBox:
    """A box that remembers nothing, with time for an emulated CPU."""
    return LambdaBox(directory, machine=machine, timeout_s=120, env={"HOTFOOT_CACHE_MB": "0"}, **given)


def ask(box: LambdaBox, path: str, texts: Sequence[str]) -> Any:
    """The JSON that the API's route answers."""
    answer = box.invoke(events.request("apigateway_v2", path, {"inputs": list(texts)}))
    assert answer["statusCode"] == 200, answer
    assert events.headers_of(answer)["content-type"] == "application/json"
    return json.loads(answer["body"])


def embed(box: LambdaBox, texts: Sequence[str]) -> NDArray[np.float32]:
    vectors: NDArray[np.float32] = np.array(ask(box, "/embed", texts), np.float32)
    return vectors


@pytest.fixture(scope="module")
def alone(without_sys: LambdaBox) -> NDArray[np.float32]:
    """Each text's vector from a request of its own."""
    return np.concatenate([embed(without_sys, [text]) for text in TEXTS])


def test_tokens_are_those_of_x86(without_sys: LambdaBox, here: Here) -> None:
    found = ask(without_sys, "/tokenize", TEXTS)
    assert [[token["id"] for token in row] for row in found] == [e.ids.tolist() for e in here.encoded]


def test_vectors_are_as_near_to_the_original_s_as_those_of_x86(without_sys: LambdaBox, here: Here) -> None:
    """The integers are the same; float sums in another order move a rounding to int8 here and there, and with it that text's vector."""
    texts = (*TEXTS, *[text for text in calibrate.texts(None)[::25] if len(text) < 200][:24])
    original = Model.open(real.artifact("embed", "fp32").path).outputs(texts)[1]
    x86 = here.model.outputs(texts)[1]
    arm = [embed(without_sys, [text])[0] for text in texts]
    task, manifest = here.model.task, here.model.manifest
    wanted = parity.thresholds(task, manifest.precision, {})
    found = {name: task.parity(arm, other, manifest) for name, other in (("fp32", original), ("x86", x86))}
    for values in found.values():
        assert not {name: value for name, value in values.items() if value < wanted[name]}
    cosines = [cosine(a, b) for a, b in zip(arm, x86, strict=True)]
    unmoved = sum(value > 0.999999 for value in cosines)  # texts of which no rounding moved: the last bits alone differ
    print(f"init {without_sys.init_ms[0]:.0f} ms; of {len(texts)} texts {unmoved} unmoved, least {min(cosines):.6f}; {found}")
    assert unmoved >= len(texts) // 5
    assert min(cosines) > 0.998
    theirs = task.parity(x86, original, manifest)["cosine_mean"]
    assert abs(found["fp32"]["cosine_mean"] - theirs) < 2e-4
    assert len(without_sys.init_ms) == 1, "no request ended the function"


def test_a_text_s_vector_is_the_same_alone_and_among_others(without_sys: LambdaBox, alone: NDArray[np.float32]) -> None:
    assert np.array_equal(embed(without_sys, TEXTS), alone)
    assert np.array_equal(embed(without_sys, TEXTS[::-1])[::-1], alone)


def test_what_is_said_without_cpu_files_stays_in_the_log(without_sys: LambdaBox, alone: NDArray[np.float32]) -> None:
    assert alone.shape == (len(TEXTS), 384)  # each body was JSON and nothing else, see `ask`
    assert NOISE in without_sys.read_log()


@pytest.mark.parametrize("files", ["visible", "forbidden"])
def test_cpu_files_change_no_bit(graviton: Machine, bundled: Path, alone: NDArray[np.float32], files: str, tmp_path: Path) -> None:
    """Visible: the host's, as in a container. Forbidden: /sys is there and only root may look into it."""
    if files == "visible":
        machine = arm_box.graviton(Path("/sys/devices/system/cpu"))
    else:
        (tmp_path / "sys").mkdir(mode=0o500)
        machine = replace(graviton, mounts={**graviton.mounts, "/sys": tmp_path / "sys"})
    with opened(bundled, machine) as box:
        assert np.array_equal(embed(box, TEXTS), alone)
        assert (NOISE in box.read_log()) == (files == "forbidden")


@pytest.fixture(scope="module")
def products(here: Here, artifact: Path) -> integer_products.Products:
    return integer_products.of(artifact, here.encoded[0])


@pytest.fixture(scope="module")
def probe(
    graviton: Machine, bundled: Path, products: integer_products.Products, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LambdaBox]:
    """A box whose handler looks around; the bundle's code lies beside it."""
    code = tmp_path_factory.mktemp("probe") / "code"
    shutil.copytree(bundled / "code", code)
    shutil.copy(inside_arm.__file__, code)
    (code / "uncompiled.py").write_text('"""Has no bytecode."""\n', encoding="utf-8")
    (code / "products.onnx").write_bytes(products.model)
    np.savez(code / "rows.npz", allow_pickle=False, **products.rows)
    wanted = products.run()
    np.savez(code / "wanted.npz", allow_pickle=False, **wanted)
    with opened(bundled, graviton, code=code, handler="inside_arm.handler") as box:
        yield box


def test_no_module_of_the_bundle_or_of_python_is_compiled_anew(probe: LambdaBox) -> None:
    """First, so that it hears of every import: bytecode that another CPU's Python made is Python's on arm64."""
    found = probe.invoke({"ask": "bytecode"})
    assert found["model"] == "embed"
    assert found["modules"] > 200
    assert found["compiled"] == ["/var/task/uncompiled.py"], "the control alone"


def test_the_emulated_cpu_is_a_neoverse_n1(probe: LambdaBox) -> None:
    found = probe.invoke({"ask": "machine"})
    assert found["machine"] == "aarch64" != platform.machine()
    assert found["python"].startswith("3.13.")
    first, second = found["hardware"]
    assert first & DOTPROD
    assert not first & SVE
    assert not second & (I8MM | BF16)
    assert found["features"] == ["dotprod"], "what /proc/cpuinfo says is what the CPU has"
    assert not found["cpu_files"]


def test_threads_are_the_memory_s_share_where_no_control_group_is_seen(probe: LambdaBox) -> None:
    found = probe.invoke({"ask": "threads"})
    allowed = len(os.sched_getaffinity(0))
    assert found["granted"] == "inf"
    assert found["allowed"] == allowed
    shares = {"None": allowed, "512": 1, "1769": 1, "3538": 2, "10240": 6}
    assert found["usable"] == {memory: min(share, allowed) for memory, share in shares.items()}
    assert found["read"] == 1, "the box has 1,769 MB"


def test_integers_are_exact_and_those_of_x86(probe: LambdaBox, products: integer_products.Products) -> None:
    ours = products.run()
    for name, exact in products.exact.items():
        assert np.array_equal(ours[f"{name}.integers"], exact)
        assert np.array_equal(ours[f"{name}.floats"], exact.astype(np.float32))
    assert max(np.abs(exact).max() for exact in products.exact.values()) > 127 * 127 * 128, "the worst rows are in"
    found = probe.invoke({"ask": "integers"})
    assert found["products"] == 2 * len(products.exact) == 72
    assert found["values"] == 2 * sum(exact.size for exact in products.exact.values())
    assert found["types"] == ["float32", "int32"]
    assert not any(found["different"].values()), {name: count for name, count in found["different"].items() if count}


def test_dot_products_are_found_without_cpu_files(probe: LambdaBox, graviton: Machine, bundled: Path) -> None:
    """ONNX Runtime's library for CPUs gives up there, so it has to ask Linux itself: what takes dot products takes less time."""
    qemu, option, _ = graviton.start
    with opened(bundled, replace(graviton, start=(qemu, option, "cortex-a72")), code=probe.code, handler="inside_arm.handler") as box:
        older, without = box.invoke({"ask": "machine"}), box.invoke({"ask": "seconds"})
    assert not older["hardware"][0] & DOTPROD
    taken = probe.invoke({"ask": "seconds"})
    print(f"emulated CPU seconds of all products: {taken:.3f} with dot products, {without:.3f} without")
    assert taken < without / 1.8  # measured: a third


def test_memory_stays_bounded_over_a_varied_load(graviton: Machine, bundled: Path) -> None:
    """ONNX Runtime's KleidiAI kernels keep buffers by thread and shape. A Neoverse N1 has none of those that do: held to it here."""
    words = TEXTS[3].split()
    with opened(bundled, graviton) as box:
        sizes = []
        for turn in range(3):
            for length, count in ((3, 1), (40, 1), (7, 5), (25, 2), (12, 3), (18, 4)):
                embed(box, [" ".join(words[: length + turn])] * count)
            sizes.append(box.rss_bytes)
        print(f"resident after each turn: {[size // 1_000_000 for size in sizes]} MB")
        assert 0 < sizes[0] < 400e6
        assert max(sizes) < sizes[0] + 32e6


def test_without_the_tools_the_reason_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert any("`apt-get install qemu-user-static apt dpkg" in fault for fault in arm_box.faults())
