"""The bundle under Lambda's own conditions: read-only directories, another user, no network, limited memory and CPU, no /sys."""

from __future__ import annotations

import errno
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hotfoot_build.package import tree
from hotfoot_build.package.emulate import InvocationError
from support import events
from support.bundled import rigged_bundle, session_cache
from support.lambda_box import CGROUPS, LambdaBox, faults

PROBE = """
import errno, os, pathlib, pwd, socket, sys, time

PLACES = ("/var/task", "/opt", "/opt/hotfoot/model", "/var/runtime", "/var/lang", "/etc", "/usr", "/dev", "/", "/tmp")


def write(folder):
    try:
        pathlib.Path(folder, "written").write_text("x")
    except OSError as error:
        return error.errno
    return 0


def reach(address):
    try:
        socket.create_connection(address, 2).close()
    except OSError as error:
        return error.errno
    return 0


def handler(event, context):
    if event.get("sleep"):
        time.sleep(event["sleep"])
    if event.get("megabytes"):
        return len(bytearray(os.urandom(1 << 20)) * event["megabytes"])
    if event.get("burn"):
        start, used = time.monotonic(), time.process_time()
        while time.monotonic() - start < event["burn"]:
            pass
        return (time.process_time() - used) / (time.monotonic() - start)
    mounts = [line.split() for line in open("/proc/self/mountinfo")]
    return {
        "writes": {place: write(place) for place in PLACES},
        "writable_mounts": sorted(m[4] for m in mounts if "rw" in m[5].split(",")),
        "network": reach(("192.0.2.1", 443)),
        "uid": os.getuid(), "gid": os.getgid(), "groups": os.getgroups(),
        "home": os.path.expanduser("~"), "home_exists": os.path.exists(os.path.expanduser("~")),
        "cpu_files": os.path.exists("/sys/devices/system/cpu"), "shared_memory": os.path.exists("/dev/shm"),
        "environment": dict(os.environ), "path": sys.path, "cwd": os.getcwd(),
        "processes": sorted(int(p.name) for p in pathlib.Path("/proc").iterdir() if p.name.isdigit()),
        "remaining_ms": context.get_remaining_time_in_millis(), "memory": context.memory_limit_in_mb,
    }
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A real bundle of a tiny classifier; fails, and never skips, where this machine cannot run a box."""
    found = faults()
    if found:
        pytest.fail("this machine cannot run the Lambda box:\n" + "\n".join(f"  {f}" for f in found), pytrace=False)
    with session_cache(tmp_path_factory):
        yield rigged_bundle(tmp_path_factory.mktemp("exact"), "lambda-x86_64")


@pytest.fixture
def probe(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir(mode=0o755)
    (tmp_path / "code" / "probe.py").write_text(PROBE)
    return tmp_path / "code"


def classify(text: str) -> dict[str, Any]:
    return events.request("apigateway_v2", "/", {"inputs": text})


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.parametrize("memory_mb", [512, 1769])
def test_answers_right_from_a_cold_start(bundle: Path, memory_mb: int) -> None:
    before = tree.content_hash(bundle)
    with LambdaBox(bundle, memory_mb=memory_mb) as box:
        for text, label in (("good", "POSITIVE"), ("bad", "NEGATIVE"), ("fine", "POSITIVE")):
            answer = box.invoke(classify(text))
            assert answer["statusCode"] == 200, answer
            assert json.loads(answer["body"])[0][0]["label"] == label
        (init_ms,) = box.init_ms
        resident, charged = box.max_rss_bytes, box.cgroup.peak_bytes
        print(
            f"{memory_mb} MB: init {init_ms:.0f} ms, {resident / 1e6:.0f} MB resident, {charged / 1e6:.0f} MB charged to the control group"
        )
        # the control group is charged for a file's pages only where nobody else had read them before
        assert 0 < resident < memory_mb << 20
        assert 0 < charged <= memory_mb << 20
        assert init_ms < 10_000, "Lambda allows init ten seconds"
    assert tree.content_hash(bundle) == before, "nothing was written into the bundle"


@pytest.mark.slow
@pytest.mark.root
def test_a_bad_request_is_an_answer_and_not_a_failure(bundle: Path) -> None:
    with LambdaBox(bundle) as box:
        assert box.invoke(events.request("apigateway_v2", "/", {"inputs": 5}))["statusCode"] in {400, 422}
        assert box.invoke(classify("good"))["statusCode"] == 200


@pytest.mark.slow
@pytest.mark.root
def test_a_missing_layer_is_named_and_not_looked_for_elsewhere(bundle: Path) -> None:
    with LambdaBox(bundle, env={"HOTFOOT_ARTIFACT": "/opt/absent"}) as box, pytest.raises(InvocationError, match="/opt/absent"):
        box.invoke(classify("good"))


@pytest.mark.slow
@pytest.mark.root
def test_the_box_is_as_closed_as_lambda(bundle: Path, probe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTFOOT_TEST_LEAK", "1")
    with LambdaBox(bundle, memory_mb=1024, timeout_s=9, code=probe, handler="probe.handler") as box:
        seen = box.invoke({})
    assert seen["writes"] == {place: 0 if place == "/tmp" else errno.EROFS for place in seen["writes"]}
    assert seen["writable_mounts"] == ["/proc", "/tmp"]
    assert seen["network"] == errno.ENETUNREACH
    assert (seen["uid"], seen["gid"], seen["groups"]) == (993, 990, [])
    assert (seen["home"], seen["home_exists"]) == ("/home/sbx_user1051", False)
    assert not seen["cpu_files"]
    assert not seen["shared_memory"]
    assert "HOTFOOT_TEST_LEAK" not in seen["environment"]
    assert seen["cwd"] == "/var/task"
    assert seen["path"][:2] == ["/var/task", "/var/task"]
    assert not [p for p in seen["path"] if not p.startswith(("/var/", "/opt/"))]
    assert len(seen["processes"]) == 2, "the emulator and the function"
    assert 0 < seen["remaining_ms"] <= 9000
    assert seen["memory"] == "1024"
    assert not (probe / "written").exists()


@pytest.mark.slow
@pytest.mark.root
def test_a_function_that_runs_out_of_time_is_killed_and_starts_anew(bundle: Path, probe: Path) -> None:
    with LambdaBox(bundle, timeout_s=1, code=probe, handler="probe.handler") as box:
        assert box.invoke({})["uid"] == 993
        with pytest.raises(InvocationError, match=r"timed out after 1\.00 seconds"):
            box.invoke({"sleep": 5})
        assert box.invoke({})["uid"] == 993
        assert len(box.init_ms) == 2


@pytest.mark.slow
@pytest.mark.root
def test_memory_beyond_the_limit_ends_the_function(bundle: Path, probe: Path) -> None:
    with LambdaBox(bundle, memory_mb=256, code=probe, handler="probe.handler") as box:
        assert box.invoke({"megabytes": 100}) == 100 << 20
        with pytest.raises(InvocationError, match=r"Runtime\.ExitError.*killed"):
            box.invoke({"megabytes": 400})


@pytest.mark.slow
@pytest.mark.root
def test_cpu_is_what_the_memory_grants(bundle: Path, probe: Path) -> None:
    with LambdaBox(bundle, memory_mb=512, code=probe, handler="probe.handler") as box:
        share = box.invoke({"burn": 2})
    # below the grant only where the machine itself is busy; a slice of the last period may come on top
    assert 0.02 < share < 512 / 1769 * 1.25


@pytest.mark.slow
@pytest.mark.root
def test_nothing_is_left(bundle: Path, probe: Path) -> None:
    with LambdaBox(bundle, code=probe, handler="probe.handler") as box:
        box.invoke({})
        scratch, groups, pid = box._scratch, box.cgroup.directories, box._process.pid
        assert scratch.exists()
        assert all(g.exists() for g in groups)
    assert not scratch.exists()
    assert not any(g.exists() for g in groups)
    assert not list(CGROUPS.glob(f"*/{scratch.name}"))
    assert not Path(f"/proc/{pid}").exists()
    assert str(scratch) not in Path("/proc/self/mountinfo").read_text()
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(scratch) not in running


def test_without_root_the_reason_says_how_to_run() -> None:
    assert any("sudo -E scripts/test --all" in fault for fault in faults(euid=1000))
