"""`ctc_loss`, forward and backward, eager and in compiled graphs."""

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import make_tensor

pytestmark = pytest.mark.usefixtures("no_fallbacks")

PADDED = torch.tensor([[1, 1, 2, 2, 1], [3, 3, 3, -1, -1], [4, 5, 5, 6, -1]])
CONCATENATED = PADDED[PADDED > 0]
INPUTS, TARGETS = torch.tensor([12, 9, 11]), torch.tensor([5, 3, 4])
CASES = {
    "mean": (PADDED, INPUTS, TARGETS, {}),
    "sum": (PADDED, INPUTS, TARGETS, {"reduction": "sum"}),
    "none": (PADDED, INPUTS, TARGETS, {"reduction": "none"}),
    "tuples": (PADDED, (12, 9, 11), (5, 3, 4), {}),
    "concatenated": (CONCATENATED, INPUTS, TARGETS, {}),
    "concatenated, tuples": (CONCATENATED, (12, 9, 11), (5, 3, 4), {}),
    "another blank": (PADDED, INPUTS, TARGETS, {"blank": 9}),
    "int32": (PADDED.int(), INPUTS.int(), TARGETS.int(), {}),
    "impossible": (PADDED, torch.tensor([4, 9, 11]), TARGETS, {"reduction": "none"}),
    "impossible, zeroed": (PADDED, torch.tensor([4, 9, 11]), TARGETS, {"zero_infinity": True}),
    "empty": (PADDED, INPUTS, torch.tensor([0, 3, 0]), {}),
    "no targets": (PADDED, INPUTS, torch.tensor([0, 0, 0]), {}),
    "no inputs": (
        PADDED,
        torch.tensor([0, 9, 0]),
        torch.tensor([0, 3, 2]),
        {"reduction": "none", "zero_infinity": True},
    ),
}


def loss(logits, targets, input_lengths, target_lengths, options):
    log_probs = F.log_softmax(2 * logits, -1)
    return 3 * F.ctc_loss(log_probs, targets, input_lengths, target_lengths, **options)


def assert_same_as_on_the_cpu(run, logits, targets, *lengths_and_options):
    host = logits.clone().requires_grad_()
    card = logits.to("spyre").requires_grad_()
    expected = loss(host, targets, *lengths_and_options)
    actual = run(card, targets.to("spyre"), *lengths_and_options)
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4, equal_nan=True)
    expected.sum().backward()
    actual.sum().backward()
    torch.testing.assert_close(card.grad.cpu(), host.grad, rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("case", CASES)
def test_losses_and_gradients_match_the_cpu(case):
    assert_same_as_on_the_cpu(loss, make_tensor(12, 3, 10, dtype=torch.float32), *CASES[case])


@pytest.mark.one_case_in(4)
@pytest.mark.parametrize("case", CASES)
def test_a_training_graph_with_the_loss_is_compiled(case, caplog):
    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True)
    assert_same_as_on_the_cpu(compiled, make_tensor(12, 3, 10, dtype=torch.float32), *CASES[case])
    assert "op by op" not in caplog.text


def test_one_sequence_without_a_batch():
    logits, lengths = make_tensor(12, 10, dtype=torch.float32), torch.tensor([12, 5])
    assert_same_as_on_the_cpu(loss, logits, PADDED[0], *lengths, {"reduction": "none"})


def test_lengths_on_the_card():
    logits = make_tensor(12, 3, 10, dtype=torch.float32)
    card = loss(*(value.to("spyre") for value in (logits, PADDED, INPUTS, TARGETS)), {})
    torch.testing.assert_close(card.cpu(), loss(logits, PADDED, INPUTS, TARGETS, {}))


def test_the_steps_of_long_sequences_have_the_same_plans(monkeypatch):
    from torch_spyre._inductor import eager_op

    planned = []
    plan_eager_op = eager_op.plan_eager_op

    def plan(overload, args, kwargs):
        planned.append(overload)
        return plan_eager_op(overload, args, kwargs)

    monkeypatch.setattr(eager_op, "plan_eager_op", plan)
    logits, targets = make_tensor(90, 2, 12, dtype=torch.float32), torch.ones(2, 7).long()
    assert_same_as_on_the_cpu(loss, logits, targets, (90, 77), (7, 5), {})
    assert len(planned) < 80


REJECTED = {
    "blank": ((PADDED, INPUTS, TARGETS), {"blank": 10}),
    "steps": ((PADDED, torch.tensor([13, 9, 11]), TARGETS), {}),
    "columns": ((PADDED, INPUTS, torch.tensor([6, 3, 4])), {}),
    "elements": ((CONCATENATED, INPUTS, torch.tensor([6, 3, 4])), {}),
    "input lengths": ((PADDED, INPUTS[:2], TARGETS), {}),
    "target lengths": ((PADDED, INPUTS, TARGETS[:2]), {}),
    "negative": ((PADDED, torch.tensor([-1, 9, 11]), TARGETS), {}),
}


@pytest.mark.parametrize("case", REJECTED)
def test_rejected_arguments_have_the_message_of_the_cpu(case):
    (targets, *lengths), options = REJECTED[case]
    logits = make_tensor(12, 3, 10, dtype=torch.float32)
    with pytest.raises(RuntimeError) as expected:
        F.ctc_loss(logits, targets, *lengths, **options)
    with pytest.raises(RuntimeError) as actual:
        F.ctc_loss(logits.to("spyre"), targets.to("spyre"), *lengths, **options)
    assert str(actual.value) == str(expected.value)
