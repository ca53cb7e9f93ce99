"""Generates lines of PyTorch ops on floats of moderate size, one rounding or a few each."""

import random
from typing import Any

DTYPES = ("float16", "bfloat16", "float32")
SHAPES = ((64,), (3, 64), (2, 3, 70), (70, 2), (3, 3))
UNARY = (
    "{0}.abs()", "-{0}", "{0}.relu()", "{0}.tanh()", "{0}.sigmoid()", "{0}.sin()", "{0}.cos()",
    "{0}.clamp(-1.5, 1.25)", "{0} * 0.5", "{0} + 0.25", "({0} * 0.25).exp()",
    "({0}.abs() + 1).log()",
    "({0}.abs() + 1).sqrt()", "({0}.abs() + 1).reciprocal()", "({0}.abs() + 1).rsqrt()",
    "torch.nn.functional.gelu({0})", "torch.nn.functional.silu({0})", "{0}.floor()", "{0}.round()",
    "{0}.softmax(-1)", "{0}.log_softmax(-1)", "{0}.mean(-1, keepdim=True)", "{0}.amax(0)",
    "{0}.sum(-1).clamp(-4, 4)", "{0}.argmax(-1).clamp(0, 1).to({0}.dtype)", "{0}.clone()",
    "torch.nn.functional.layer_norm({0}, {0}.shape[-1:])", "{0}.cumsum(-1).clamp(-4, 4)",
    "{0}.to(torch.float32).to({0}.dtype)", "{0}.var(-1, unbiased=False).clamp(0, 4)",
)  # fmt: skip
BINARY = (
    "({0} + {1}).clamp(-4, 4)", "{0} - {1} * 0.5", "({0} * {1}).clamp(-4, 4)",
    "torch.maximum({0}, {1})", "torch.where({0} > {1}, {0}, {1})", "{0}.masked_fill({1} < 0, 0.5)",
    "({0} / ({1}.abs() + 1))", "torch.lerp({0}, {1}, 0.25)", "torch.cat([{0}, {1}], -1)",
    "torch.addcmul({0}, {1}, {0}, value=0.25).clamp(-4, 4)", "torch.atan2({0}, {1}.abs() + 1)",
    "({0}.reshape(-1, {0}.shape[-1]) @ {1}.reshape(-1, {1}.shape[-1]).t() * 0.01).clamp(-4, 4)",
)  # fmt: skip
VIEWS = (
    "{0}.transpose(0, -1)", "{0}[..., 1:]", "{0}[..., ::2]", "{0}.unsqueeze(0)", "{0}[0]",
    "{0}.flatten()", "{0}.expand(2, *{0}.shape)", "{0}.narrow(-1, 0, 2)", "{0}.contiguous()",
)  # fmt: skip
IN_PLACE = (
    "{0}.mul_(0.5)", "{0}.add_({1}).clamp_(-4, 4)", "{0}.copy_({1})", "{0}.clamp_(-2, 2)",
    "{0}.zero_()", "{0}[..., ::2] = {0}[..., :1]", "{0}[0] = 0.5", "{0}.tanh_()", "{0}.neg_()",
    "{0}.masked_fill_({1} > 1, -1)", "{0}.select(-1, 1).sub_(0.25)", "{0}.sigmoid_()",
)  # fmt: skip


def float_lines(chance: random.Random) -> dict[str, Any]:
    """Return a dtype, the shapes of two inputs, and lines that PyTorch may reject on any device.

    Lines mostly use the inputs, whose shapes are few, so that their kernels have been compiled.
    """
    shape = list(chance.choice(SHAPES))
    names = ["x0", "x0", "x1", "x1"]
    lines = []
    for index in range(chance.randint(2, 6)):
        forms = chance.choices((UNARY, BINARY, VIEWS, IN_PLACE), weights=(4, 3, 2, 2))[0]
        text = chance.choice(forms).format(chance.choice(names), chance.choice(names[:4]))
        if forms is IN_PLACE:
            lines.append(text)
            continue
        lines.append(f"v{index} = {text}")
        names.append(f"v{index}")
    return {"dtype": chance.choice(DTYPES), "shapes": [shape, shape], "lines": lines}
