"""Sequences of PyTorch ops on the card, eager and compiled, compared with the CPU step by step."""

import random
from collections.abc import Iterator
from typing import Any

import torch

from fuzz.kind import Content, Kind, Rejected, Violation, shorter_lists
from fuzz.kinds.card import Canaries
from fuzz.kinds.float_ops import float_lines
from torch_spyre.testing.tolerances import difference, tolerance

# Few sizes, so that most kernels were compiled for an earlier input. The first four are also those
# of leading dims.
SIZES = (2, 3, 3, 2, 64, 70)
# Compiling a function takes longer than running eager ops that have been compiled before.
COMPILED_FRACTION = 0.05
# Sums of values up to this, of which there are at most 70 at once, accumulate in float32 in every
# dtype. Where terms cancel out, their error is not relative to the sum.
LARGEST = 4.0
ACCUMULATED_ERROR = tolerance(torch.float32) * LARGEST


class OpKind(Kind):
    """Ops on views, in place and out of place.

    Ops on small integers are exact in every dtype, and must give the bits of the CPU. Floats may
    differ by the roundings of one op: after each line, the CPU continues with the card's values.
    """

    name = "ops"
    seconds = 120.0
    megabytes = 2048
    batch = 10

    def prepare(self) -> None:
        from torch_spyre import _C
        from torch_spyre._inductor import eager_op  # noqa: F401  (slow to import)
        from torch_spyre.ops import eager

        torch.set_num_threads(1)
        eager.use_kernels(True)
        _C._set_fallback_policy("silent")

    def generate(self, chance: random.Random) -> Content:
        from integer_programs import Program

        if chance.random() < 0.5:
            return {"kind": "floats", **float_lines(chance)}
        program = Program(chance, SIZES)
        return {
            "kind": "compiled" if chance.random() < COMPILED_FRACTION else "integers",
            "dtype": str(program.dtype).removeprefix("torch."),
            "shapes": [list(shape) for shape in program.shapes],
            "lines": program.lines,
        }

    def run(self, content: Content) -> None:
        dtype = getattr(torch, content["dtype"])
        generator = torch.Generator().manual_seed(3)
        is_float = content["kind"] == "floats"
        inputs = {}
        for index, shape in enumerate(content["shapes"]):
            values = torch.randint(-4, 5, shape, generator=generator)
            scale = 0.5 if is_float else 1
            inputs[f"x{index}"] = (values * scale).to(dtype)
        if content["kind"] == "compiled":
            run_compiled(content["lines"], inputs)
        else:
            run_eagerly(content["lines"], inputs, is_exact=not is_float)

    def smaller(self, content: Content) -> Iterator[Content]:
        for lines in shorter_lists(content["lines"]):
            yield {**content, "lines": lines}


Values = dict[str, torch.Tensor]


def on_card(inputs: Values, canaries: Canaries) -> Values:
    """Copy tensors to the card, with a canary after each."""
    card = {}
    for name, tensor in inputs.items():
        card[name] = tensor.to("spyre")
        canaries.add()
    return card


def run_eagerly(lines: list[str], inputs: Values, *, is_exact: bool) -> None:
    """Run lines on both devices; compare every tensor after each line."""
    canaries = Canaries()
    card, host = on_card(inputs, canaries), dict(inputs)
    for line in lines:
        execute_on_host(line, host)
        exec(line, {"torch": torch}, card)
        compare(line, card, host, is_exact=is_exact)
        if not is_exact:
            for name, tensor in host.items():
                continue_with_values(tensor, card[name].cpu())
    canaries.check()


def execute_on_host(line: str, values: Values) -> None:
    """Execute a line; an error means that a smaller input is no program of PyTorch's."""
    try:
        exec(line, {"torch": torch}, values)
    except Exception as error:
        raise Rejected(f"the CPU rejects it: {error}") from error


def continue_with_values(tensor: torch.Tensor, values: torch.Tensor) -> None:
    """Write values into a tensor in place, so that its views see them too."""
    has_overlap = any(
        stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True)
    )
    if not has_overlap:  # an expanded tensor is a view of one that is written too
        tensor.copy_(values)


def compare(line: str, card: Values, host: Values, *, is_exact: bool) -> None:
    for name, expected in host.items():
        actual = card[name]
        if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
            raise Violation(
                f"another shape or dtype of {_form(line)}",
                f"after {line!r}, {name} is {actual.dtype} {tuple(actual.shape)}, and "
                f"{expected.dtype} {tuple(expected.shape)} on the CPU",
            )
        result = actual.cpu()
        if is_exact:
            problem = None if torch.equal(result, expected) else difference(result, expected, 0)
        else:
            problem = difference(result, expected, extra_error=ACCUMULATED_ERROR)
        if problem is not None:
            raise Violation(
                f"wrong result of {_form(line)}", f"{problem}, after {line!r}, in {name}"
            )


def _form(line: str) -> str:
    """Return the ops of a line without its operands: what equal bugs have in common."""
    call = line.partition(" = ")[2] or line
    names = "".join(char if char.isidentifier() or char == "." else " " for char in call).split()
    return "-".join(name.lstrip(".") for name in names if "." in name)[:60] or "assignment"


def run_compiled(lines: list[str], inputs: Values) -> None:
    """Run lines as one compiled function; compare its results and its mutated inputs."""
    canaries = Canaries()
    host = {name: tensor.clone() for name, tensor in inputs.items()}
    made = list(dict.fromkeys(line.partition(" = ")[0] for line in lines))
    results = [name for name in made if name.isidentifier()][-3:]
    text = [f"def function({', '.join(inputs)}):", *lines, f"return [{', '.join(results)}]"]
    scope: dict[str, Any] = {"torch": torch}
    exec("\n    ".join(text), scope)
    try:
        expected = scope["function"](*host.values())
    except Exception as error:
        raise Rejected(f"the CPU rejects it: {error}") from error
    card = on_card(inputs, canaries)
    torch.compiler.reset()
    compiled: Any = torch.compile(scope["function"])
    actual = compiled(*card.values())
    names = [*results, *inputs]
    pairs = zip(names, [*actual, *card.values()], [*expected, *host.values()], strict=True)
    for name, result, reference in pairs:
        compare("a compiled function", {name: result}, {name: reference}, is_exact=True)
    canaries.check()
