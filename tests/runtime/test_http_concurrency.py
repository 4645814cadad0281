"""An answer does not depend on what else is asked at the same time."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.serving import TASKS, client, sample, shaped

WORDS = ("good", "bad", "fine", "maria", "gonzalez", "springfield", "lives", "in", "east", "north", "up", "hello", "🦊", "x1")


def requests_of(task: str, count: int) -> list[dict[str, object]]:
    """Mixed lengths, batches, truncation on and off, and one in ten wrong."""
    rng = random.Random(7)  # noqa: S311 - nothing secret
    found: list[dict[str, object]] = []
    for index in range(count):
        texts = [" ".join(rng.choices(WORDS, k=rng.choice((1, 3, 12, 60)))) for _ in range(rng.choice((1, 2, 7)))]
        inputs = shaped(task, texts)
        if isinstance(inputs, list) and rng.random() < 0.3:
            inputs = inputs[0]
        cut, stride = rng.random() < 0.7, rng.choice((0, 9, 60))
        body: dict[str, object] = {
            "inputs": inputs,
            "parameters": {"doc_stride": stride} if task == "question-answering" else {"truncation": cut},
        }
        found.append({"inputs": [5]} if index % 10 == 9 else body)
    return found


@pytest.mark.parametrize("task", TASKS)
def test_sixteen_threads_get_the_answers_of_one(task: str) -> None:
    http = client(task)
    bodies = requests_of(task, 120)
    alone = [http.post("/", json=body) for body in bodies]
    assert {a.status_code for a in alone} == {200, 422}
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda body: http.post("/", json=body), bodies))
    assert [a.content for a in together] == [a.content for a in alone]
    assert [a.status_code for a in together] == [a.status_code for a in alone]


@pytest.mark.parametrize("task", TASKS)
def test_order_and_neighbours_do_not_matter(task: str) -> None:
    if task == "sentence-similarity":
        assert client(task).post("/", json={"inputs": sample(task)}).json()[1] == 1.0
        return
    http = client(task)
    rng = random.Random(3)  # noqa: S311 - nothing secret
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(1, 12))) for _ in range(64)]
    cut = {} if task == "question-answering" else {"truncation": True}
    whole = http.post("/", json={"inputs": shaped(task, texts), "parameters": cut}).json()
    single = [http.post("/", json={"inputs": shaped(task, [text]), "parameters": cut}).json()[0] for text in texts]
    if task == "text-ranking":
        whole = [{**found, "index": 0} for found in sorted(whole, key=lambda found: int(found["index"]))]
    assert whole == single
