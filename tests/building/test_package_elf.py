from __future__ import annotations

import struct
from pathlib import Path

import onnxruntime
import pytest

from hotfoot.targets import machine_arch
from hotfoot_build.package import elf

AARCH64 = 183


def made_elf(path: Path, *, machine: int = AARCH64, versions: tuple[str, ...] = ("GLIBC_2.17", "GLIBC_2.28")) -> Path:
    """An ELF file of a header, a string table, a table of needed versions, and their section headers; nothing to run in it."""
    strings, offsets = b"\0", []
    for version in versions:
        offsets.append(len(strings))
        strings += version.encode() + b"\0"
    needs = struct.pack("<HHIII", 1, len(versions), 0, 16, 0)
    for i, offset in enumerate(offsets):
        needs += struct.pack("<IHHII", 0, 0, 2, offset, 16 if i + 1 < len(offsets) else 0)
    strings_at, needs_at = 64, 64 + len(strings)
    sections = [
        struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, strings_at, len(strings), 0, 0, 1, 0),
        struct.pack("<IIQQQQIIQQ", 0, 0x6FFFFFFE, 0, 0, needs_at, len(needs), 1, 1, 4, 0),
    ]
    identity = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    header = struct.pack("<16sHHIQQQIHHHHHH", identity, 3, machine, 1, 0, 0, needs_at + len(needs), 0, 64, 0, 0, 64, len(sections), 0)
    path.write_bytes(header + strings + needs + b"".join(sections))
    return path


def test_reads_a_real_extension_module_of_this_machine() -> None:
    module = next((Path(onnxruntime.__file__).parent / "capi").glob("onnxruntime_pybind11_state*.so"))
    read = elf.read(module)
    assert read is not None
    assert read.machine == elf.MACHINES[machine_arch()]
    assert read.glibc is not None
    assert (2, 14) <= read.glibc <= (2, 28)  # what its manylinux tag promises


def test_reads_another_machines_file(tmp_path: Path) -> None:
    assert elf.read(made_elf(tmp_path / "a.so")) == elf.Elf(machine=AARCH64, glibc=(2, 28))


def test_versions_compare_as_numbers_and_other_libraries_do_not_count(tmp_path: Path) -> None:
    made = made_elf(tmp_path / "a.so", versions=("GLIBC_2.9", "GLIBC_2.34", "GLIBCXX_3.4.30", "GLIBC_PRIVATE", "CXXABI_1.3"))
    assert elf.read(made) == elf.Elf(machine=AARCH64, glibc=(2, 34))


def test_no_needs_is_no_version(tmp_path: Path) -> None:
    assert elf.read(made_elf(tmp_path / "a.so", versions=("CXXABI_1.3",))) == elf.Elf(machine=AARCH64, glibc=None)


def test_text_is_no_elf(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("plain")
    assert elf.read(tmp_path / "a") is None


def test_every_fault_is_named(tmp_path: Path) -> None:
    made_elf(tmp_path / "fits.cpython-313-aarch64-linux-gnu.so")
    made_elf(tmp_path / "machine.so", machine=62)
    made_elf(tmp_path / "glibc.so.2", versions=("GLIBC_2.38",))
    made_elf(tmp_path / "python.cpython-312-aarch64-linux-gnu.so")
    (tmp_path / "cut.so").write_bytes((tmp_path / "machine.so").read_bytes()[:80])
    (tmp_path / "class.so").write_bytes(b"\x7fELF\x01\x01" + b"\0" * 80)
    (tmp_path / "text.so").write_text("INPUT(libother.so)")
    (tmp_path / "text.py").write_text("")
    assert elf.faults(tmp_path, arch="arm64", glibc=(2, 34), python="3.13") == [
        "class.so: not 64-bit little-endian ELF",
        "cut.so: a damaged ELF file",
        "glibc.so.2: needs glibc 2.38, the target has 2.34",
        "machine.so: made for ELF machine 62, arm64 is 183",
        "python.cpython-312-aarch64-linux-gnu.so: made for Python 3.12, the target has 3.13",
        "text.so: not an ELF file",
    ]


@pytest.mark.parametrize("length", [4, 6, 30, 63])
def test_a_cut_header_is_a_value_error(tmp_path: Path, length: int) -> None:
    whole = made_elf(tmp_path / "a.so").read_bytes()
    (tmp_path / "a.so").write_bytes(whole[:length])
    with pytest.raises(ValueError, match="ELF"):
        elf.read(tmp_path / "a.so")
