"""Scalars that vary between calls share one program, which uses the scalar of each call."""

import pytest
import torch
from cpu_reference import assert_close, make_tensor, rotate_dtypes, to_reference

from torch_spyre.errors import UnsupportedError

FORMS = {
    "mul": lambda x, y, n: x * n,
    "mul_": lambda x, y, n: x.clone().mul_(n),
    "add": lambda x, y, n: x + n,
    "sub": lambda x, y, n: x - n,
    "div_": lambda x, y, n: x.clone().div_(n),
    "add alpha": lambda x, y, n: torch.add(x, y, alpha=n),
    "add_ alpha": lambda x, y, n: x.clone().add_(y, alpha=n),
    "sub_ alpha": lambda x, y, n: x.clone().sub_(y, alpha=n),
    "addcmul": lambda x, y, n: torch.addcmul(x, y, y, value=n),
    "addcmul_": lambda x, y, n: x.clone().addcmul_(y, y, value=n),
    "addcdiv": lambda x, y, n: torch.addcdiv(x, y, y + 4, value=n),
    "addcdiv_": lambda x, y, n: x.clone().addcdiv_(y, y + 4, value=n),
}
FLOATS = (torch.float16, torch.bfloat16, torch.float32)
NUMBERS = [0.5 + 0.25 * n for n in range(9)] + [3, -1e-3, 64.0, -7]


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize(
    ("form", "dtype"), rotate_dtypes(FORMS, FLOATS, always=torch.float32), ids=str
)
def test_generic_plan_uses_the_scalar_of_each_call(form, dtype, no_fallbacks):
    function = FORMS[form]
    for shape in [(3, 70), ()]:
        x, y = (make_tensor(*shape, dtype=dtype).to("spyre") for _ in range(2))
        for number in NUMBERS:
            actual, expected = (
                function(x, y, number),
                function(to_reference(x), to_reference(y), number),
            )
            assert actual.dtype == dtype
            assert_close(actual, expected, units=4, scale=max(1.0, abs(number)))


def test_optimizer_steps_reuse_one_plan(no_fallbacks, monkeypatch):
    from torch_spyre._inductor import eager_op

    planned = []
    original = eager_op.plan_eager_op
    monkeypatch.setattr(
        eager_op, "plan_eager_op", lambda *given: planned.append(given[0]) or original(*given)
    )
    x = torch.nn.Parameter(torch.ones(3, 70, device="spyre"))
    optimizer = torch.optim.AdamW([x], lr=0.01)
    for step in range(12):
        x.grad = torch.ones_like(x)
        before = len(planned)
        optimizer.param_groups[0]["lr"] = 0.01 / (step + 1)
        optimizer.step()
        assert step < 6 or len(planned) == before, planned[before:]


def test_scalars_that_affect_type_promotion_stay_constants(no_fallbacks):
    flags, integers = torch.ones(7, dtype=torch.bool), torch.arange(7)
    for x in (flags, integers, torch.ones((), dtype=torch.float16)):
        for number in (0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5):
            actual = x.to("spyre") * number
            assert actual.dtype == (x * number).dtype
            assert_close(actual, x.double() * number)


def test_small_scalars_are_not_rounded_to_zero(no_fallbacks):
    x = torch.zeros(7, 3, dtype=torch.bfloat16, device="spyre")
    for number in (1e-8, 2e-8, 3e-8, 4e-8, 5e-8, 6e-8, 7e-8):
        assert ((x + number).float().cpu().double() / number - 1).abs().max() <= 2.0**-9


def test_scalars_stay_constants_without_a_generic_plan(no_fallbacks, monkeypatch):
    from torch_spyre._inductor import eager_op

    original = eager_op.plan_eager_op

    def only_numbers(overload, args, kwargs):
        if any(isinstance(arg, torch.Tensor) and arg.device.type == "cpu" for arg in args):
            raise UnsupportedError("tensors")
        return original(overload, args, kwargs)

    monkeypatch.setattr(eager_op, "plan_eager_op", only_numbers)
    x = make_tensor(3, 71, dtype=torch.float32).to("spyre")
    for number in (0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5):
        assert_close(x * number, to_reference(x) * number)
        assert_close(torch.add(x, x, alpha=number), to_reference(x) * (1 + number), units=8)
