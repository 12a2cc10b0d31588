"""Gradients averaged one by one (E11) are reported with their numbers, instead of D01."""

from __future__ import annotations

from tests.doctor.rules.judged import assert_first
from tests.doctor.scenes.base import play
from tests.doctor.scenes.near import one_by_one as scenes


def test_calls_and_their_size_are_told() -> None:
    expected = ("warning", "likely", "484 calls of all_reduce in each step, of 413 elements", "_flatten_dense_tensors(grads)")
    finding = assert_first(scenes.one_by_one, 60, "E11", expected)
    assert finding.title == "Gradients are averaged one by one: 484 calls of all_reduce in each step"
    assert any("67% of a step (200.0 ms)" in fact.text for fact in finding.evidence)
    assert not any(item.id == "D01" for item in play(scenes.one_by_one, 60)[-1])


def test_with_a_gpu_the_host_may_only_wait_for_it() -> None:
    assert [(item.id, item.confidence) for item in play(scenes.on_gpus, 60)[-1]] == [("E11", "possible")]
