"""The loss of a step whose gradients come from several backwards, as one batch would have had it. On real graphs of torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.tracking.auto.losses.reduction import UNREAD, Reduced, _read, divided_by, is_divided_by, read, read_mean, step_loss
from gputop.tracking.auto.losses.site import ALIKE_STEPS, Site
from gputop.tracking.auto.losses.sites import Sites
from gputop.tracking.auto.losses.user_code import UserCode
from gputop.tracking.auto.losses.values import value_of
from gputop.tracking.auto.training import several_losses
from tests.fuzzing import examples
from tests.packages import imports

if TYPE_CHECKING:
    import torch
import_torch = imports("torch")
Loss = Callable[[Any, Any, int, int], Any]
"""(prediction, target, number of micro-batches, items of the whole step) -> the loss that backward runs on."""


def mean(prediction: Any, target: Any) -> Any:
    return torch.nn.functional.mse_loss(prediction, target)


def total(prediction: Any, target: Any) -> Any:
    return torch.nn.functional.mse_loss(prediction, target, reduction="sum")


def vector(first: Any, second: Any) -> Any:
    """Two terms of a loss side by side, the first one weighted."""
    found = torch.zeros(2)
    found[0] = first
    found[1] = second
    found[0] *= 3
    return found


# The step's loss must be what each way gives for the whole batch at once.
EVEN: dict[str, tuple[Loss, Loss]] = {
    "means": (lambda p, t, k, n: mean(p, t), lambda p, t, k, n: mean(p, t)),
    "means, divided": (lambda p, t, k, n: mean(p, t) / k, lambda p, t, k, n: mean(p, t)),
    "means, multiplied": (lambda p, t, k, n: mean(p, t) * (1 / k), lambda p, t, k, n: mean(p, t)),
    "terms": (
        lambda p, t, k, n: (mean(p, t) + 0.1 * p.abs().mean()) / k,
        lambda p, t, k, n: mean(p, t) + 0.1 * p.abs().mean(),
    ),
    "half of a mean": (lambda p, t, k, n: 0.5 * mean(p, t), lambda p, t, k, n: 0.5 * mean(p, t)),
    "sums by own rows": (
        lambda p, t, k, n: ((p - t) ** 2).sum() / len(p),
        lambda p, t, k, n: ((p - t) ** 2).sum() / len(p),
    ),
    "sums by own elements, divided": (
        lambda p, t, k, n: total(p, t) / p.numel() / k,
        lambda p, t, k, n: mean(p, t),
    ),
    "stacked terms": (
        lambda p, t, k, n: torch.stack([mean(p, t), 0.5 * p.abs().mean()]).sum(),
        lambda p, t, k, n: mean(p, t) + 0.5 * p.abs().mean(),
    ),
    "terms in a vector, times the rows": (
        lambda p, t, k, n: (vector(mean(p, t), p.abs().mean()) * 8).sum(),
        lambda p, t, k, n: 8 * (3 * mean(p, t) + p.abs().mean()),
    ),
    "rows times terms in a vector": (
        lambda p, t, k, n: (torch.tensor(8) * vector(mean(p, t), p.abs().mean())).sum(),
        lambda p, t, k, n: 8 * (3 * mean(p, t) + p.abs().mean()),
    ),
    "KL by own rows": (
        lambda p, t, k, n: torch.nn.functional.kl_div(p.log_softmax(1), t.softmax(1), reduction="batchmean"),
        lambda p, t, k, n: torch.nn.functional.kl_div(p.log_softmax(1), t.softmax(1), reduction="batchmean"),
    ),
}
ANY_SIZE: dict[str, tuple[Loss, Loss]] = {
    "sums by the step's elements": (lambda p, t, k, n: total(p, t) / (n * p.shape[1]), lambda p, t, k, n: mean(p, t)),
    "sums by the step's rows": (lambda p, t, k, n: ((p - t) ** 2).sum() / n, lambda p, t, k, n: ((p - t) ** 2).sum() / len(p)),
    "sums by a tensor": (lambda p, t, k, n: total(p, t) / torch.tensor(n * p.shape[1]), lambda p, t, k, n: mean(p, t)),
    "means by their share": (lambda p, t, k, n: mean(p, t) * (len(p) / n), lambda p, t, k, n: mean(p, t)),
    "means times their elements": (lambda p, t, k, n: mean(p, t) * torch.tensor(p.numel()), lambda p, t, k, n: mean(p, t)),
    "elements times means": (lambda p, t, k, n: torch.tensor(p.numel()) * mean(p, t), lambda p, t, k, n: mean(p, t)),
    "share times means": (lambda p, t, k, n: torch.tensor(len(p) / n) * mean(p, t), lambda p, t, k, n: mean(p, t)),
    "sums": (lambda p, t, k, n: total(p, t), lambda p, t, k, n: total(p, t)),
    "sums, negated": (lambda p, t, k, n: -total(p, t), lambda p, t, k, n: -total(p, t)),
}


def amounts_to(losses: Sequence[Any], factor: float = 1.0, last: object = None, unread: int = 0) -> tuple[float, float]:
    parts = [UNREAD if index < unread else read(loss) for index, loss in enumerate(losses)]
    return step_loss(sum(loss.item() for loss in losses), parts, factor, last)


def batches(sizes: Sequence[int], columns: int = 3) -> list[tuple[Any, Any]]:
    """(prediction, target) of each micro-batch."""
    torch.manual_seed(sum(sizes))
    found = [(torch.randn(size, columns, requires_grad=True), torch.randn(size, columns)) for size in sizes]
    # A prediction is never a leaf.
    return [(prediction * 1, target) for prediction, target in found]


def assert_as_one_batch(way: tuple[Loss, Loss], sizes: Sequence[int], unread: int = 0, columns: int = 3) -> None:
    of_one, of_all = way
    found = batches(sizes, columns)
    losses = [of_one(prediction, target, len(sizes), sum(sizes)) for prediction, target in found]
    whole = of_all(*(torch.cat(column) for column in zip(*found, strict=True)), 1, sum(sizes))
    assert amounts_to(losses, unread=unread)[0] == pytest.approx(whole.item(), rel=1e-4)


@pytest.mark.parametrize("count", [2, 4, 5])
@pytest.mark.parametrize("way", EVEN)
def test_a_step_of_equal_micro_batches(way: str, count: int) -> None:
    if (way, count) == ("half of a mean", 2):
        pytest.skip("half of a mean cannot be told from a mean that is divided by two backwards")
    assert_as_one_batch(EVEN[way], [8] * count)


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from(sorted(ANY_SIZE)), st.lists(st.integers(1, 9), min_size=2, max_size=6))
def test_a_step_of_micro_batches_of_any_size(way: str, sizes: list[int]) -> None:
    # More columns than micro-batches: the elements of one are never as many as the rows of all.
    assert_as_one_batch(ANY_SIZE[way], sizes, columns=7)


@pytest.mark.parametrize("way", ["means, divided", "sums by own rows"])
def test_the_first_loss_of_a_line_that_did_not_accumulate_before_is_not_read(way: str) -> None:
    assert_as_one_batch(EVEN[way], [8] * 4, unread=1)


@pytest.mark.parametrize("way", [*EVEN, *ANY_SIZE])
def test_what_is_read_quickly_is_what_the_whole_graph_says(way: str) -> None:
    (prediction, target) = batches([8])[0]
    for loss in (
        {**EVEN, **ANY_SIZE}[way][0](prediction, target, 3, 24),
        {**EVEN, **ANY_SIZE}[way][1](prediction, target, 1, 8),
    ):
        slowly = _read(loss.grad_fn, loss.output_nr)
        assert read(loss)._replace(by=None) == slowly._replace(by=None)
        quickly = read_mean(loss)
        assert quickly is None or quickly == slowly._replace(by=None)
        assert quickly is read_mean(loss), "the same object, or the loss of a step would be worked out anew each time"
        assert quickly is not None or (way, slowly.kind) not in {("means", "mean"), ("means, divided", "mean")}


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.lists(st.sampled_from([1, 2, 3, 0.5]), min_size=1, max_size=4), min_size=1, max_size=12), st.booleans())
def test_the_loss_of_a_step_is_the_same_whether_a_line_has_seen_its_form_before_or_not(
    steps: list[list[float]], mixed: bool
) -> None:
    """Each step divides its means by other numbers, or by the same ones as an earlier step."""
    sites, factor, last = Sites(UserCode()), 1.0, None
    site = Site(None)
    site.accumulates = True
    for divisors in [*steps, *steps]:
        losses = [mean(*batch) / divisor for batch, divisor in zip(batches([4] * len(divisors)), divisors, strict=True)]
        if mixed and len(losses) > 2:
            losses[1] = losses[1].sum()
        parts = [_read(loss.grad_fn, loss.output_nr) for loss in losses]
        for loss in losses:
            sites.add(site, loss.item(), UNREAD, loss, in_closure=False)
        total = 0.0
        for loss in losses:
            total += loss.item()
        expected, factor = step_loss(total, parts, factor, last)
        last = divided_by(parts) if len(parts) > 1 else last
        assert sites.take() == [(site, expected)]


ALIKE = [[2, 2]] * (ALIKE_STEPS + 2)
"""The divisors of each loss, step by step: the first two steps show what the losses of a step amount to."""


@pytest.mark.parametrize(
    ("before", "step", "reads"),
    [
        (ALIKE[:-1], [2, 2], 2),
        (ALIKE, [2, 2], 0),
        ([*ALIKE, [2]], [2, 2], 0),
        (ALIKE, [2], 0),
        (ALIKE, [3, 3, 3], 3),
        (ALIKE, [4, 2, 4], 3),
        ([[2, 4], *ALIKE], [2, 2], 2),
        ([*ALIKE, [4, 2]], [2, 2], 2),
    ],
    ids=["too few", "alike", "after a short step", "short", "another number", "another first one", "differed", "differ now"],
)
def test_of_losses_that_are_always_reduced_alike_no_graph_is_read(
    monkeypatch: pytest.MonkeyPatch, before: list[list[int]], step: list[int], reads: int
) -> None:
    read_now: list[Any] = []
    monkeypatch.setattr(several_losses, "read_mean", lambda loss: read_now.append(loss) or read_mean(loss))
    sites, site, factor, last = Sites(UserCode()), Site(None), 1.0, None
    site.accumulates = True
    monkeypatch.setattr(sites, "known_here", lambda caller: site)
    several = several_losses.Several(torch, sites, [site])
    found = batches([4] * 4)
    for divisors in [*before, step]:
        read_now.clear()
        losses = [mean(*batch) / divisor for batch, divisor in zip(found, divisors, strict=False)]
        assert all(several.takes(loss, None) for loss in losses)
        parts = [read(loss) for loss in losses]
        expected, factor = step_loss(sum(loss.item() for loss in losses), parts, factor, last)
        last = divided_by(parts) if len(parts) > 1 else last
        assert several.take([site]) == (expected,)
    assert len(read_now) == reads


@pytest.mark.parametrize("number", [1, 2, 3.5])
def test_by_which_number_a_mean_is_divided(number: float) -> None:
    inputs, targets = batches([4])[0]
    loss = mean(inputs, targets)
    loss = loss / number if number != 1 else loss
    assert is_divided_by(loss, read(loss).whole)
    assert not is_divided_by(loss, number + 1)
    assert not is_divided_by(loss, None)


def test_a_divisor_that_cannot_be_read_at_once_is_none() -> None:
    inputs, targets = batches([4])[0]
    loss = mean(inputs, targets)
    assert not is_divided_by(loss / torch.tensor(2.0, requires_grad=True), 2.0), "a learned one"
    assert not is_divided_by(loss * 0.5, 2.0), "multiplied"
    assert not is_divided_by(loss.sum(), 1.0), "another operation"
    assert not is_divided_by(loss.detach(), 1.0), "no operation"


@pytest.mark.parametrize("known", [True, False])
def test_a_step_that_a_signal_handler_interrupts_takes_no_loss_of_a_later_one(
    monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    class TimeIsUpError(Exception):
        pass

    def interrupted(site: Site) -> Any:
        raise TimeIsUpError

    sites, site = Sites(UserCode()), Site(None)
    part = Reduced(None, 1.0, "mean")
    sites.add(site, 1.0, part, None, in_closure=False)
    with monkeypatch.context() as patched:
        patched.setattr(Site, "take", interrupted)
        with pytest.raises(TimeIsUpError):
            sites.take_known([site]) if known else sites.take()
    for value in (2.0, 4.0):
        sites.add(site, value, part, None, in_closure=False)
    assert sites.take() == [(site, 3.0)]


def test_a_mean_times_its_items_is_a_mean_whichever_comes_first() -> None:
    """One backward in a step, too: such a script divides the gradients by the items."""
    prediction, target = batches([8])[0]
    items, flag = torch.tensor(24), torch.tensor(True)
    for loss in (mean(prediction, target) * items, items * mean(prediction, target)):
        assert amounts_to([loss])[0] == pytest.approx(mean(prediction, target).item(), rel=1e-6)
    for loss in (flag * mean(prediction, target), 24 * mean(prediction, target)):
        assert amounts_to([loss])[0] == loss.item(), "a switch and a weight of the script's are no count"
    weight = torch.tensor(0.5, requires_grad=True)
    assert read(weight * mean(prediction, target)).whole == 1.0, "a weight that is trained scales nothing"


def test_a_single_loss_is_what_backward_ran_on() -> None:
    (prediction, target) = batches([8])[0]
    for loss in (
        mean(prediction, target),
        0.5 * mean(prediction, target),
        total(prediction, target) / 24,
        total(prediction, target),
    ):
        assert amounts_to([loss])[0] == loss.item()
        assert amounts_to([loss], unread=1)[0] == loss.item()


def test_a_short_last_accumulation_is_divided_by_as_much_as_the_others() -> None:
    losses = [mean(*batch) / 4 for batch in batches([8] * 4)]
    _, factor = amounts_to(losses)
    assert factor == 4.0
    value, factor = amounts_to(losses[:1], factor)
    assert (value, factor) == (pytest.approx(4 * losses[0].item()), 4.0)
    value, _ = amounts_to(losses[:3], factor)
    assert value == pytest.approx(4 / 3 * sum(loss.item() for loss in losses[:3]))


def test_a_short_last_accumulation_of_sums_is_treated_the_same() -> None:
    """As the Trainer of Transformers normalizes: by the items of the whole step, however many micro-batches it has."""
    for sizes in ([8] * 4, [8, 3], [8]):
        found = batches(sizes)
        losses = [total(*batch) / (sum(sizes) * 3) for batch in found]
        whole = mean(*(torch.cat(column) for column in zip(*found, strict=True)))
        assert amounts_to(losses)[0] == pytest.approx(whole.item(), rel=1e-4)


def test_a_loss_that_a_wrapped_model_computes() -> None:
    """As the Trainer of Transformers computes it on two ranks: by the items of all ranks, times the ranks."""
    # The real one needs a process group.
    handed_on = {
        "forward": staticmethod(lambda context, *outputs: tuple(output.clone() for output in outputs)),
        "backward": staticmethod(lambda context, *gradients: gradients),
    }
    sink = type("_DDPSink", (torch.autograd.Function,), handed_on)
    found = batches([8] * 4, columns=7)
    losses = []
    for prediction, target in found:
        _, loss = sink.apply(prediction, total(prediction, target) / torch.tensor(4 * 8 * 7 * 2))
        assert type(loss.grad_fn).__name__ == "_DDPSinkBackward"
        losses.append(loss * 2)
    whole = mean(*(torch.cat(column) for column in zip(*found, strict=True)))
    assert amounts_to(losses)[0] == pytest.approx(whole.item(), rel=1e-4)


def test_masked_tokens_that_are_counted_over_the_step() -> None:
    torch.manual_seed(1)
    logits = [torch.randn(6, 11, requires_grad=True) * 1 for _ in range(3)]
    labels = [torch.randint(0, 11, (6,)) for _ in range(3)]
    for label in labels:
        label[:2] = -100
    items = torch.tensor(sum(int((label != -100).sum()) for label in labels))
    losses = [
        torch.nn.functional.cross_entropy(logit, label, reduction="sum") / items
        for logit, label in zip(logits, labels, strict=True)
    ]
    whole = torch.nn.functional.cross_entropy(torch.cat(logits), torch.cat(labels))
    assert amounts_to(losses)[0] == pytest.approx(whole.item(), rel=1e-5)


def test_few_masked_tokens_counted_over_the_step_as_a_tensor() -> None:
    """The count is below the shape of one micro-batch: only the common tensor that divides all of them shows it."""
    count = torch.tensor(5.0)
    losses = [total(*batch) / count for batch in batches([8, 8])]
    assert amounts_to(losses)[0] == pytest.approx(sum(loss.item() for loss in losses))


def test_a_count_that_changes_from_step_to_step_but_not_within_is_of_the_step() -> None:
    first, second = ([total(*batch) / items for batch in batches([8, 8])] for items in (5, 7))
    last = divided_by([read(loss) for loss in first])
    assert amounts_to(second, last=last)[0] == pytest.approx(sum(loss.item() for loss in second))


def test_masked_means_of_the_micro_batches_are_averaged() -> None:
    losses = [total(*batch) / torch.tensor(float(valid)) for batch, valid in zip(batches([8, 8]), (5, 7), strict=True)]
    assert amounts_to(losses)[0] == pytest.approx(sum(loss.item() for loss in losses) / 2)


def test_an_unknown_graph_is_averaged_unless_it_is_divided_by_the_number_of_backwards() -> None:
    losses = [torch.logsumexp(prediction.flatten(), 0) for prediction, _ in batches([8, 8, 8])]
    assert read(losses[0]).kind == ""
    assert amounts_to(losses)[0] == pytest.approx(sum(loss.item() for loss in losses) / 3)
    assert amounts_to([loss / 3 for loss in losses])[0] == pytest.approx(sum(loss.item() for loss in losses) / 3)


def test_reading_changes_nothing_and_raises_nothing() -> None:
    leaf = torch.ones((), requires_grad=True)
    assert read(leaf) == Reduced(None, 1.0, "")
    assert read(leaf * 0).divisor is None
    assert read(leaf / float("inf")).divisor is None
    assert read(torch.stack([leaf, leaf]).sum() / leaf).by is None, "a number that is trained is kept by nobody"
    kept: list[Any] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: kept.append(tensor.shape) or tensor):
        prediction, target = batches([8])[0]
        loss = total(prediction, target) / 24
    read(loss)
    assert [shape for shape in kept if shape] == [], "no tensor that was saved for backward is asked for"
    loss.backward()
    assert read(loss) == Reduced(None, None, ""), "freed by backward"


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_flag_is_not_a_number_of_items(device: str) -> None:
    """A tensor on "meta" is as unreadable as one on a GPU."""
    loss = torch.ones(3, device=device, requires_grad=True).mean()
    for flag in (True, False):
        assert read(loss * torch.tensor(flag, device=device)).count is None
    assert read(loss * torch.tensor(7, device=device)).count is not None


def test_a_counter_on_a_gpu_may_be_used_again() -> None:
    sites = Sites(UserCode())
    counter = torch.tensor(0)
    for loss, items in ((1.0, 2), (2.0, 6)):
        counter.fill_(items)
        value = torch.tensor(loss * items)
        # As it is read on a GPU; on the CPU the count is a number.
        sites.add(sites.here(), value, Reduced(None, 1.0, "mean", count=counter), value, in_closure=False)
    counter.zero_()
    ((_, found),) = sites.take()
    assert found.item() == (1.0 * 2 + 2.0 * 6) / 8


def test_a_loss_of_a_class_of_the_scripts_is_read_as_its_class_reads_it_or_not_at_all() -> None:
    seen: list[str] = []
    from torch.utils._python_dispatch import TorchDispatchMode

    class Wrapper(torch.Tensor):
        """A number in a tensor without memory of its own."""

        held: torch.Tensor

        @staticmethod
        def __new__(cls, held: torch.Tensor) -> Wrapper:
            made = torch.Tensor._make_wrapper_subclass(cls, held.size(), dtype=held.dtype, device=held.device)
            made.held = held
            return made  # type: ignore[no-any-return]

        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function(*(item.held if isinstance(item, cls) else item for item in args), **(kwargs or {}))

    class Mute(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise NotImplementedError(str(function))

    class Counts(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    losses = [torch.tensor(2.0), torch.nn.Parameter(torch.tensor(3.0)), Wrapper(torch.tensor(4.0)), Mute(torch.tensor(5.0))]
    expected = [2.0, 3.0, 4.0, None]
    assert [value_of(torch, loss) for loss in losses] == expected
    with Counts():
        assert [value_of(torch, loss) for loss in losses] == expected
        assert seen == [], "the script's mode sees nothing of it"
        losses[0].add(1)
    assert seen == ["aten.add.Tensor"], "but what the script does"


def test_adding_up_losses_that_are_still_on_a_gpu_leaves_the_script_s_tensors_alone() -> None:
    sites = Sites(UserCode())
    losses = [torch.tensor(value, requires_grad=True) for value in (1.0, 2.0, 6.0)]
    for loss in losses:
        # Of a loss on a GPU its site keeps a view, which shares the memory of the script's tensor.
        sites.add(sites.here(), loss.detach(), UNREAD, loss, in_closure=False)
    ((_, value),) = sites.take()
    assert value.item() == 3.0
    assert [loss.item() for loss in losses] == [1.0, 2.0, 6.0]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_losses_of_16_bits_are_added_in_32(dtype: str) -> None:
    """As on an H200 with Lightning's bf16-true, where a step's loss was off by 0.4 %."""
    sites = Sites(UserCode())
    site = Site(None)
    losses = [torch.tensor(value, dtype=getattr(torch, dtype)) for value in (1.0078125, 2**-13, 2**-13)]
    for loss in losses:
        sites.add(site, loss, UNREAD, loss, in_closure=False)
    assert float(site.total) == sum(map(float, losses))
