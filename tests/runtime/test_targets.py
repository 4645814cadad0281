from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from hotfoot import targets
from hotfoot.contract.errors import UnsupportedError

# what /proc/cpuinfo says on each machine, shortened
CASCADE_LAKE = """processor\t: 0
vendor_id\t: GenuineIntel
flags\t\t: fpu sse4_2 avx f16c avx2 bmi2 avx512f avx512bw avx512vl avx512_vnni md_clear
vmx flags\t: vnmi preemption_timer
processor\t: 1
flags\t\t: fpu sse4_2 avx f16c avx2 bmi2 avx512f avx512bw avx512vl avx512_vnni md_clear
"""
SAPPHIRE_RAPIDS = "flags\t\t: fpu avx avx2 avx_vnni avx512_bf16 avx512f avx512_vnni amx_bf16 amx_int8\n"
ZEN_2 = "vendor_id\t: AuthenticAMD\nflags\t\t: fpu sse4_2 avx f16c avx2 bmi2 sha_ni\n"
ANCIENT = "flags\t\t: fpu sse sse2 ssse3 sse4_1 sse4_2 avx\n"
GRAVITON_2 = """processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU implementer\t: 0x41
CPU part\t: 0xd0c
"""
GRAVITON_3 = """processor\t: 0
Features\t: fp asimd aes atomics asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs paca pacg dcpodp svei8mm svebf16 i8mm bf16 dgh rng
CPU part\t: 0xd40
"""
GRAVITON_1 = "Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid\n"

MACHINES = {
    "cascade lake": ("x86_64", CASCADE_LAKE, {"avx2", "vnni"}, "cpu-container-x86_64"),
    "sapphire rapids": ("x86_64", SAPPHIRE_RAPIDS, {"avx2", "vnni", "bf16"}, "cpu-container-x86_64"),
    "zen 2": ("AMD64", ZEN_2, {"avx2"}, "cpu-container-x86_64-avx2"),
    "graviton 2": ("aarch64", GRAVITON_2, {"dotprod"}, "cpu-container-arm64-dotprod"),
    "graviton 3": ("arm64", GRAVITON_3, {"dotprod", "i8mm", "bf16"}, "cpu-container-arm64"),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_features_are_read_from_cpuinfo(tmp_path: Path, machine: str) -> None:
    _, text, features, _ = MACHINES[machine]
    (tmp_path / "cpuinfo").write_text(text)
    assert targets.cpu_features(tmp_path / "cpuinfo") == features


def test_a_mention_elsewhere_is_no_feature(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("model name\t: avx2 vnni dotprod\nbugs\t: avx512_vnni\nflags\t\t: fpu\n")
    assert targets.cpu_features(tmp_path / "cpuinfo") == frozenset()


def test_without_cpuinfo_only_apple_silicon_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert targets.cpu_features(tmp_path / "none") == {"dotprod"}
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert targets.cpu_features(tmp_path / "none of these") == frozenset()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Pretend to be that machine; gives the target that fits it."""
    name, text, expected = request.param
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(platform, "machine", lambda: name)
    features = targets.cpu_features(tmp_path / "cpuinfo")
    monkeypatch.setattr(targets, "cpu_features", lambda: features)
    return str(expected)


@pytest.mark.parametrize("machine", [(m, text, expected) for m, text, _, expected in MACHINES.values()], indirect=True, ids=list(MACHINES))
def test_local_is_the_target_that_uses_most_of_the_cpu(machine: str) -> None:
    assert targets.load("local").name == targets.local().name == machine


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (("x86_64", ANCIENT, ""), r"no target fits this machine \(x86_64, no known CPU feature\)"),
        (("aarch64", GRAVITON_1, ""), r"no target fits this machine \(arm64, no known CPU feature\)"),
        (("riscv64", "", ""), "no target for the architecture 'riscv64'; there are targets for x86_64 and arm64"),
    ],
    indirect=["machine"],
)
def test_a_machine_that_no_target_fits(machine: str, said: str) -> None:
    assert not machine
    with pytest.raises(UnsupportedError, match=said):
        targets.local()


@pytest.mark.parametrize("name", targets.names())
def test_every_target_is_sound(name: str) -> None:
    target = targets.load(name)
    assert target.name == name
    assert target.summary
    assert target.arch in name
    assert target.platform.startswith({"x86_64": "x86_64", "arm64": "aarch64"}[target.arch])
    known = {"x86_64": {"avx2", "vnni", "bf16"}, "arm64": {"dotprod", "i8mm", "bf16"}}[target.arch]
    assert set(target.isa) <= known
    # the full range needs an instruction that sums in 32 bits
    wide = {"vnni", "dotprod"} & set(target.isa)
    assert 1 <= target.int8_range <= 127
    assert wide or target.int8_range < 127
    assert target.glibc >= (2, 28)
    assert all(isinstance(v, str) for v in target.session.config.values())
    assert "fp32" in target.recipes
    assert (target.limits.package_bytes is not None) == (target.system == "lambda")


def test_the_folder_is_the_list() -> None:
    folder = Path(targets.__file__).parent
    assert len(targets.names()) == len(list(folder.glob("*.py"))) - 1
    assert {"lambda-arm64", "lambda-x86_64", "cpu-container-arm64", "cpu-container-x86_64"} <= set(targets.names())


@pytest.mark.parametrize("name", ["lambda", "lambda_arm64", "lambda-x86-64", "", "../targets", "__init__"])
def test_an_unknown_target_lists_them(name: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        targets.load(name)
    assert str(caught.value) == f"no target {name!r}. There are: {', '.join(['local', *targets.names()])}."


def test_this_machine_has_a_target() -> None:
    assert targets.local().arch == targets.machine_arch()
    assert re.match(r"cpu-container-", targets.local().name)
