"""Bags of embeddings with their gradients, and rows that are shortened when they are used."""

import math

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import (
    assert_close,
    assert_gradients_close_to_cpu,
    make_tensor,
    to_card,
    to_reference,
)

INDICES = torch.tensor([1, 0, 4, 4, 6, 2, 1, 1, 3])
# Bags of two, zero and four elements, and of the remaining ones.
OFFSETS = torch.tensor([0, 2, 2, 6])


def bags(mode, **options):
    def run(weight, *weights):
        on = weight.device
        given = dict(zip(("per_sample_weights",), weights, strict=False))
        return F.embedding_bag(
            INDICES.to(on), weight, OFFSETS.to(on), mode=mode, **options, **given
        )

    return run


CASES = {
    "sum": bags("sum"),
    "mean": bags("mean"),
    "max": bags("max"),
    "without padding": bags("mean", padding_idx=4),
    "largest without padding": bags("max", padding_idx=4),
    "with the last offset": bags("sum", include_last_offset=True),
}
HEAVY = ["mean", "largest without padding", "with the last offset"]


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize(
    "name", [pytest.param(e, marks=pytest.mark.heavy if e in HEAVY else ()) for e in CASES]
)
def test_embedding_bag_and_gradients(name, no_fallbacks):
    assert_gradients_close_to_cpu(CASES[name], make_tensor(7, 70, dtype=torch.float32), units=16)


def test_scale_grad_by_freq(no_fallbacks):
    """The CPU kernel of PyTorch uses counts of wrong rows if some rows are used often."""
    card = make_tensor(7, 70, dtype=torch.float32).to("spyre").requires_grad_()
    bags("sum", scale_grad_by_freq=True)(card).square().sum().backward()
    host = card.detach().cpu().double().requires_grad_()
    rows = F.embedding(INDICES, host, scale_grad_by_freq=True)
    parts = [rows[begin:end].sum(0) for begin, end in ((0, 2), (2, 2), (2, 6), (6, 9))]
    torch.stack(parts).square().sum().backward()
    assert_close(card.grad, host.grad, units=16)


def test_half_precision_results_are_rounded_once(no_fallbacks):
    weight = make_tensor(7, 70).to("spyre")
    assert_close(bags("sum")(weight), bags("sum")(to_reference(weight)), units=2, scale=0.25)


def test_per_sample_weights(no_fallbacks):
    weight, per_sample_weights = (
        make_tensor(7, 70, dtype=torch.float32),
        make_tensor(9, dtype=torch.float32),
    )
    assert_gradients_close_to_cpu(bags("sum"), weight, per_sample_weights, units=16)
    assert_gradients_close_to_cpu(bags("sum", padding_idx=1), weight, per_sample_weights, units=16)


def test_non_finite_rows_do_not_spread(no_fallbacks):
    weight = make_tensor(7, 70, dtype=torch.float32)
    weight[2, 3], weight[3, 5], weight[6, 3] = math.inf, math.nan, -math.inf
    for mode in ("sum", "mean"):
        actual = bags(mode)(weight.to("spyre"))
        assert_close(actual, bags(mode)(to_reference(weight)), units=16)


@pytest.mark.parametrize("norm", [2.0, 1.0])
def test_max_norm_renormalizes_the_used_rows(norm, no_fallbacks):
    weight, indices = make_tensor(7, 70, dtype=torch.float32), torch.tensor([[1, 3], [3, 6]])
    card = to_card(weight)
    actual = F.embedding(indices.to("spyre"), card, max_norm=1.0, norm_type=norm)
    expected = F.embedding(indices, weight, max_norm=1.0, norm_type=norm)
    assert_close([actual, card], [expected, weight], units=16)


def test_out_of_bounds_indices_raise():
    weight, indices = torch.zeros(7, 70).to("spyre"), torch.tensor([1, 7]).to("spyre")
    with pytest.raises((IndexError, RuntimeError)):
        F.embedding_bag(indices, weight, torch.tensor([0]).to("spyre")).cpu()
