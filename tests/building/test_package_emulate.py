from __future__ import annotations

from pathlib import Path

import pytest

from hotfoot.contract.bundle import BUNDLE, Bundle, LayerDir
from hotfoot.contract.codec import dumps
from hotfoot.contract.errors import HotfootError, UnsupportedError
from hotfoot.targets import machine_arch
from hotfoot_build.package.emulate import Emulator, InvocationError, answer_of, init_durations
from hotfoot_build.package.opt import merge_layers


def test_layers_merge_as_in_lambda(tmp_path: Path) -> None:
    for name in ("one/python/a.py", "one/both.txt", "two/hotfoot/model/m", "three/hotfoot/tokenizers/h/t", "three/both.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    opt = tmp_path / "opt"
    opt.mkdir()
    merge_layers([tmp_path / "one", tmp_path / "two", tmp_path / "three"], opt)
    assert (opt / "python" / "a.py").read_text() == "one/python/a.py"
    assert (opt / "hotfoot" / "model" / "m").is_file()
    assert (opt / "hotfoot" / "tokenizers" / "h" / "t").is_file()
    assert (opt / "both.txt").read_text() == "three/both.txt"


def test_answers() -> None:
    assert answer_of(200, '{"statusCode": 200}') == {"statusCode": 200}
    assert answer_of(200, "null") is None


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, '{"errorMessage": "no", "errorType": "ValueError", "stackTrace": ["  File 1"]}', "ValueError"),
        (200, "Task timed out after 3.00 seconds", "Sandbox.Timedout"),
        (502, '{"errorType":"Runtime.ExitError","errorMessage":"exit status 3"}', "Runtime.ExitError"),
        (200, "", "Runtime.InvalidAnswer"),
        (500, "{}", "Runtime.InvalidAnswer"),
    ],
)
def test_failures_are_told_from_answers_though_the_status_is_200(status: int, body: str, kind: str) -> None:
    with pytest.raises(InvocationError) as failed:
        answer_of(status, body)
    assert failed.value.error_type == kind


def test_init_durations_come_from_the_trace_and_not_from_the_report() -> None:
    log = "[INFO] (rapid) INIT REPORT(durationMs: 45.239000)\nREPORT RequestId: x\tInit Duration: 0.15 ms\n INIT REPORT(durationMs: 24.9)\n"
    assert init_durations(log) == (45.239, 24.9)


def index(directory: Path, arch: str, python: str) -> Path:
    directory.mkdir(parents=True)
    code = LayerDir(kind="code", path="code", hash="0", unzipped_bytes=0, zipped_bytes=0)
    made = Bundle("t", python, arch, "h.handler", "m", "0", bytecode=False, layers=(), code=code)
    (directory / BUNDLE).write_text(dumps(made))
    return directory


def test_another_machines_bundle_and_an_absent_python_are_refused(tmp_path: Path) -> None:
    other = "arm64" if machine_arch() == "x86_64" else "x86_64"
    with pytest.raises(UnsupportedError, match=f"is for {other}"):
        Emulator(index(tmp_path / "a", other, "3.13"))
    with pytest.raises(UnsupportedError, match=r"no Python 3\.99"):
        Emulator(index(tmp_path / "b", machine_arch(), "3.99"))


def test_an_emulator_that_was_not_started_says_so(tmp_path: Path) -> None:
    from hotfoot_build.package.interpreters import running_minor

    with pytest.raises(HotfootError, match="not running"):
        Emulator(index(tmp_path / "a", machine_arch(), running_minor())).invoke({})
