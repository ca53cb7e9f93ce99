"""Plans of eager ops are cached until they are evicted."""

import torch
from cpu_reference import assert_close, make_tensor

from torch_spyre._inductor import eager_op
from torch_spyre.ops import plans


def test_evicted_plan_is_compiled_again(monkeypatch, no_fallbacks):
    compiled = []
    plan_eager_op = eager_op.plan_eager_op
    monkeypatch.setattr(
        eager_op,
        "plan_eager_op",
        lambda overload, *args: compiled.append(overload) or plan_eager_op(overload, *args),
    )
    x = make_tensor(3, 70)
    on_card = x.to("spyre")

    def calls():
        compiled.clear()
        # A matmul, a conversion, and scalars with one generic plan.
        assert_close(on_card * on_card, x * x)
        assert_close(on_card.to(torch.int32), x.to(torch.int32))
        for number in range(6):
            assert_close(on_card + number, x + number)
        return len(compiled)

    first = calls()
    assert first > 0 and calls() == 0
    plans.clear_all_plans()
    assert calls() == first
