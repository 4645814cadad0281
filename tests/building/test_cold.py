"""A cold start's parts: that they never overlap, that together they are the whole, and that they can be read off the picture."""

from __future__ import annotations

import ast
import sys
import threading
from dataclasses import astuple, replace
from importlib import import_module
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure as Drawing
from matplotlib.image import imread
from matplotlib.text import Text

from hotfoot.contract import codec
from hotfoot_build.cold import budget as budgets
from hotfoot_build.cold import probe, waterfall
from hotfoot_build.cold.budget import Budget, Figure
from hotfoot_build.package import treemap
from support.starting import SPENT, asked_of_probe, budget_by_hand, start_by_hand

SLEEPER = "import time\ntime.sleep({seconds})\n"
# a runtime that waits in each of its steps, and lacks one of them
RUNTIME = {
    "hotfoot/__init__.py": "",
    "hotfoot/http/__init__.py": "",
    "hotfoot/http/app.py": SLEEPER.format(seconds=0.02) + "def create_app():\n    time.sleep(0.03)\n",
    "hotfoot/model.py": """
import time
from deep import nothing

def open_tokenizer():
    time.sleep(0.04)

class Model:
    @classmethod
    def open(cls):
        time.sleep(0.05)
        open_tokenizer()
        return cls()

    def warm_up(self):
        import late
        time.sleep(0.02)
""",
    "hotfoot/main.py": """
import importlib, time
from hotfoot.http.app import create_app
importlib.import_module("hotfoot.model")
from hotfoot.model import Model
Model.open().warm_up()
create_app()

def handler(event, context):
    import later
    time.sleep(0.05)
    return {"got": event}
""",
    "deep.py": SLEEPER.format(seconds=0.06) + "import deeper, wave\nnothing = None\n",
    "deeper.py": SLEEPER.format(seconds=0.03),
    "late.py": SLEEPER.format(seconds=0.04),
    "later.py": SLEEPER.format(seconds=0.02),
}
WAITS = {
    "import deep": 0.06,
    "import deeper": 0.03,
    "import late": 0.04,
    "import later": 0.02,
    "import hotfoot": 0.02,
    "open": 0.05,
    "tokenizer": 0.04,
    "warm-up": 0.02,
    "app": 0.03,
    "answer": 0.05,
}


class Hands:
    """Both clocks, moved by hand."""

    wall = cpu = 0.0

    def move(self, wall: float, cpu: float) -> None:
        self.wall += wall
        self.cpu += cpu


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    moved = Hands()
    monkeypatch.setattr(probe, "time", SimpleNamespace(perf_counter=lambda: moved.wall, process_time=lambda: moved.cpu))
    return moved


def test_each_moment_belongs_to_the_innermost_thing(hands: Hands) -> None:
    clock = probe.Clock(0, 0)

    def inner() -> int:
        hands.move(4, 1)
        return 7

    def outer() -> int:
        hands.move(1, 0.5)
        found: int = clock.timed("inner", inner)()
        hands.move(2, 2)
        return found

    hands.move(16, 0)
    assert clock.timed("outer", outer)() == 7
    assert clock.timed("outer", inner)() == 7
    assert clock.spent == {"": [16, 0], "outer": [7, 3.5], "inner": [4, 1]}
    assert clock.turns == 6


def test_what_raises_is_left_as_well(hands: Hands) -> None:
    clock = probe.Clock(0, 0)

    def fails() -> None:
        hands.move(1, 1)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        clock.timed("failing", fails)()
    hands.move(2, 2)
    clock.enter("next")
    assert clock.spent == {"": [2, 2], "failing": [1, 1]}


def test_another_thread_is_not_charged_beside_the_first(hands: Hands) -> None:
    clock = probe.Clock(0, 0)
    work = threading.Thread(target=clock.timed("elsewhere", lambda: hands.move(1, 1)))
    work.start()
    work.join()
    clock.enter("next")
    assert clock.spent == {"": [1, 1]}


def test_a_start_is_told_apart_by_package_and_step(tmp_path: Path) -> None:
    answer, report = asked_of_probe(tmp_path, RUNTIME, "hotfoot.main.handler")
    assert answer == {"got": {"n": 1}}
    assert report["missing"] == ["hotfoot.model.opened"]
    assert report["spent"].keys() == {*WAITS, "import standard library"}
    for label, seconds in WAITS.items():
        wall, cpu = report["spent"][label]
        assert wall >= seconds, label
        assert cpu < seconds, f"{label} only slept"
    assert report["ready_s"] >= sum(WAITS.values()) - WAITS["answer"] - WAITS["import later"]
    assert 0 < report["own_s"] < 0.05
    assert sum(cpu for _, cpu in report["spent"].values()) + report["first_cpu_s"] <= report["cpu_s"]


def test_a_handler_that_cannot_be_imported_says_why(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="No module named 'absent'"):
        asked_of_probe(tmp_path, {}, "absent.handler")


def test_what_the_probe_times_is_in_the_runtime() -> None:
    for module, names in probe.STEPS.items():
        for path in names:
            owner, _, name = path.rpartition(".")
            found = import_module(module)
            assert name in vars(getattr(found, owner) if owner else found), f"{module}.{path}"
    assert {*(label for names in probe.STEPS.values() for label in names.values()), probe.ANSWER} < set(budgets.STEPS)


def test_the_probe_needs_nothing_but_the_standard_library() -> None:
    tree = ast.parse(Path(probe.__file__).read_text(encoding="utf-8"))
    named = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    named |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert named
    assert {name.partition(".")[0] for name in named} <= set(sys.stdlib_module_names)


def test_the_parts_are_the_whole() -> None:
    start = start_by_hand()
    assert astuple(start.parts[budgets.CLIENT]) == pytest.approx((0.028, 0.020))
    assert astuple(start.parts[budgets.OTHER]) == pytest.approx((0.0065, 0.0045))
    assert sum(part.wall_s for part in start.parts.values()) == pytest.approx(start.wall_s)
    assert sum(part.cpu_s for part in start.parts.values()) == pytest.approx(start.cpu_s)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_a_figure_is_between_its_ends(numbers: list[float]) -> None:
    found = budgets.figure(numbers)
    assert found.low == min(numbers) <= found.median <= max(numbers) == found.high


def test_rows_stand_in_the_order_of_a_start_with_the_dearest_import_first() -> None:
    found = budgets.rows([start_by_hand(1), start_by_hand(3), start_by_hand(2)])
    imports = [label for label in SPENT if label.startswith(probe.IMPORT)]
    steps = ["open", "session", "tokenizer", "warm-up", "app", "answer", "other"]
    assert [row.label for row in found] == ["client", *imports, *steps]
    assert astuple(found[1].wall_s) == pytest.approx((0.120, 0.060, 0.180))
    assert found[1].cpu_s.median == pytest.approx(0.180)


def test_small_imports_share_a_row_and_a_single_one_has_its_own() -> None:
    found = {row.name: row for row in budgets.rows([start_by_hand()], small=0.02)}
    assert "import sniffio" not in found
    assert found["import 2 smaller packages"].wall_s.median == pytest.approx(0.0015)
    assert sum(row.wall_s.median for row in found.values()) == pytest.approx(0.250)
    alone = {row.name for row in budgets.rows([start_by_hand()], small=0.003)}
    assert {"import sniffio", "import org"} < alone


def test_what_one_start_did_not_have_took_it_nothing() -> None:
    without = start_by_hand(spent={label: pair for label, pair in SPENT.items() if label != "import sniffio"})
    found = {row.label: row for row in budgets.rows([start_by_hand(), without])}
    assert astuple(found["import sniffio"].wall_s) == pytest.approx((0.0005, 0, 0.001))


def test_estimates_are_of_sizes_that_the_start_fits_in() -> None:
    assert budgets.estimates(budget_by_hand(1)) == {512: pytest.approx(0.29 * 1769 / 512), 1024: pytest.approx(0.29 * 1769 / 1024)}
    assert list(budgets.estimates(budget_by_hand(5))) == [1024]
    assert budgets.estimates(budget_by_hand(10)) == {}


def test_a_start_that_waited_says_so() -> None:
    calm = budget_by_hand(1)
    assert budgets.waited(calm) is None
    assert budgets.waited(replace(calm, wall_s=Figure(0.58, 0.5, 0.6))) == pytest.approx(2)


def test_the_report_is_read_as_it_is_written() -> None:
    found = budget_by_hand(1, 2)
    assert codec.loads(Budget, codec.dumps(found), "cold.json") == found


def texts_of(drawing: Drawing) -> list[Text]:
    return [text for text in drawing.findobj(Text) if isinstance(text, Text) and text.get_text().strip() and text.get_visible()]


@pytest.mark.parametrize("times", [(1, 1.1, 1.3), (9.4, 20.0), (0.1,)])
def test_nothing_in_the_picture_lies_on_another_or_outside(times: tuple[float, ...]) -> None:
    drawing = waterfall.picture(budget_by_hand(*times))
    drawing.draw_without_rendering()
    boxes = {text: text.get_window_extent() for text in texts_of(drawing)}
    said = {text.get_text() for text in boxes}
    assert {"interpreter and AWS's client", "import numpy", "import 2 smaller packages", "together", "wall, ms", "CPU, ms"} <= said
    whole = drawing.bbox
    for text, box in boxes.items():
        assert whole.x0 <= box.x0 < box.x1 <= whole.x1, text
        assert whole.y0 <= box.y0 < box.y1 <= whole.y1, text
    overlapping = [(a.get_text(), b.get_text()) for a, b in combinations(boxes, 2) if boxes[a].overlaps(boxes[b])]
    assert overlapping == []


def test_a_name_too_long_for_its_column_is_cut() -> None:
    long = "import a_package_of_the_users_own_with_a_long_name"
    found = budget_by_hand(1)
    slow = replace(found, starts=(start_by_hand(spent={**SPENT, long: (0.02, 0.02)}),))
    drawing = waterfall.picture(slow)
    drawing.draw_without_rendering()
    (name,) = [text for text in texts_of(drawing) if text.get_text().endswith("…")]
    assert name.get_text().startswith("import a_package_of")
    (axes,) = drawing.axes
    assert name.get_window_extent().x1 < axes.bbox.x0


def test_bars_begin_where_the_one_before_ends() -> None:
    (axes,) = waterfall.picture(budget_by_hand(1)).axes
    wall = [bar for bar in axes.patches if bar.get_height() == pytest.approx(waterfall.WALL)]  # type: ignore[attr-defined]
    spans = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in wall]  # type: ignore[attr-defined]
    *parts, whole = spans
    assert parts[0][0] == 0
    assert [start for start, _ in parts[1:]] == pytest.approx([end for _, end in parts[:-1]])
    assert whole == pytest.approx((0, 250))
    assert parts[-1][1] == pytest.approx(250)


def test_the_picture_is_written_in_the_ledgers_colours(tmp_path: Path) -> None:
    waterfall.draw(budget_by_hand(1, 2), tmp_path / "cold.png")
    pixels = np.rint(255 * imread(tmp_path / "cold.png")[..., :3]).astype(int)
    for part in ("runtime", "tokenizer", "model", "code"):  # what fetches weights is a package among others there
        colour = treemap.COLOURS[part]
        assert (pixels == tuple(bytes.fromhex(colour[1:]))).all(axis=-1).sum() > 100
