"""Random programs of PyTorch ops on small integers, with views and mutations.

Every op is exact on these values in every dtype.
"""

import torch
from hypothesis import strategies as st

TYPES = [torch.float16, torch.float32, torch.bfloat16, torch.int32, torch.int64]
SIZES = [1, 2, 3, 5, 16, 32, 64, 65, 70]
MOST = 4000


class Program:
    """Generate lines of Python, one op at a time; run each line to know its result."""

    def __init__(self, chance, sizes=SIZES):
        self.chance = chance
        self.dtype = self.chance.choice(TYPES)
        rank = self.chance.randint(1, 3)
        shape = tuple(
            self.chance.choice(sizes if d == rank - 1 else sizes[:4]) for d in range(rank)
        )
        self.shapes = [shape, shape, shape[-1:]]
        self.values = dict(zip(("x0", "x1", "x2"), self.inputs(), strict=True))
        self.lines: list[str] = []
        for _ in range(self.chance.randint(2, 7)):
            self.grow()

    def inputs(self):
        generator = torch.Generator().manual_seed(3)
        return [
            torch.randint(-4, 5, shape, generator=generator).to(self.dtype) for shape in self.shapes
        ]

    def grow(self):
        name = self.chance.choice(list(self.values))
        value = self.values[name]
        kinds = [
            self._one,
            self._two,
            self._view,
            self._move,
            self._reduce,
            self._write,
            self._write,
        ]
        text = self.chance.choice(kinds)(name, value)
        if text is None:
            return
        made = f"v{len(self.lines)}"
        line = text if " = " in text or "_(" in text else f"{made} = {text}"
        try:
            exec(line, {"torch": torch}, self.values)
        except (RuntimeError, IndexError):
            return  # not a program of PyTorch's
        actual = self.values.get(made)
        if actual is not None and actual.numel() > MOST:
            del self.values[made]
            return
        self.lines.append(line)

    def _dim(self, value):
        return self.chance.randint(-value.dim(), value.dim() - 1) if value.dim() else None

    def _partner(self, value):
        fitting = []
        for name, other in self.values.items():
            try:
                if torch.broadcast_shapes(value.shape, other.shape) == value.shape:
                    fitting.append(name)
            except RuntimeError:
                continue
        return self.chance.choice(fitting)

    def _one(self, name, value):
        forms = [
            "{}.abs()",
            "-{}",
            "{}.clamp(-3, 3)",
            "{}.sign()",
            "{} + 1",
            "({} * 2).clamp(-8, 8)",
        ]
        return self.chance.choice(forms).format(name)

    def _two(self, name, value):
        other = self._partner(value)
        forms = [
            "({} + {}).clamp(-8, 8)",
            "({} * {}).clamp(-8, 8)",
            "torch.maximum({}, {})",
            "torch.where({0} > {1}, {0}, 1)",
            "{0}.masked_fill({1} < 0, 2)",
            "({} - {}).clamp(-8, 8)",
            "({0} == {1}).to({0}.dtype)",
        ]
        return self.chance.choice(forms).format(name, other)

    def _view(self, name, value):
        dim = self._dim(value)
        if dim is None:
            return f"{name}.expand(2, 3)"
        size = value.shape[dim]
        start, step = self.chance.randint(0, size - 1), self.chance.randint(1, 3)
        other = self._dim(value)
        forms = [
            f"{name}.transpose({dim}, {other})",
            f"{name}.narrow({dim}, {start}, {size - start})",
            f"{name}.select({dim}, {start})",
            f"{name}.unsqueeze({dim})",
            f"{name}.flatten()",
            f"{name}[..., {start % value.shape[-1]}::{step}]",
            f"{name}.unsqueeze(0).expand(2, {', '.join(['-1'] * value.dim())})",
        ]
        return self.chance.choice(forms)

    def _move(self, name, value):
        dim = self._dim(value)
        if dim is None:
            return None
        size = value.shape[dim]
        places = [self.chance.randint(0, size - 1) for _ in range(self.chance.randint(1, 4))]
        index = f"torch.tensor({places}, device={name}.device)"
        amount = self.chance.randint(-3, 3)
        forms = [
            f"torch.cat([{name}, {name}.abs()], {dim})",
            f"torch.stack([{name}, {name} + 1], {dim})",
            f"{name}.index_select({dim}, {index})",
            f"{name}.roll({amount}, {dim})",
            f"{name}.flip({dim})",
            f"torch.nn.functional.pad({name}, ({abs(amount)}, 1), value=2)",
            f"{name}.repeat_interleave(2, {dim})",
            f"{name}.contiguous()",
            f"{name}.clone()",
            f"{name}.sort({dim}).values",
            f"{name}.tril({amount})",
            f"{name}.to(torch.float32).to({name}.dtype)",
            f"{name}.index_add({dim}, {index}, {name}.narrow({dim}, 0, 1)"
            f".repeat_interleave({len(places)}, {dim})).clamp(-8, 8)",
        ]
        return self.chance.choice(forms)

    def _reduce(self, name, value):
        dim = self._dim(value)
        if dim is None:
            return None
        keep = self.chance.choice([False, True])
        forms = [
            f"{name}.sum({dim}, keepdim={keep}).clamp(-8, 8).to({name}.dtype)",
            f"{name}.amax({dim}, keepdim={keep})",
            f"{name}.argmax({dim}, keepdim={keep}).clamp(0, 1).to({name}.dtype)",
            f"{name}.cumsum({dim}).clamp(-8, 8).to({name}.dtype)",
            f"{name}.cummax({dim}).values",
            f"({name} > 0).any({dim}, keepdim={keep}).to({name}.dtype)",
        ]
        return self.chance.choice(forms)

    def _write(self, name, value):
        """Generate a write to a value or a view of it. PyTorch rejects overlapping elements."""
        steps = zip(value.stride(), value.shape, strict=True)
        if any(step == 0 and size > 1 for step, size in steps):
            # PyTorch warns of some writes to expanded tensors; compiled, it accumulates others.
            return None
        other = self._partner(value)
        forms = [
            f"{name}.copy_({other})",
            f"{name}.add_({other}).clamp_(-8, 8)",
            f"{name}.mul_(-1)",
            f"{name}.clamp_(-3, 3)",
            f"{name}.zero_()",
            f"{name}.masked_fill_({other} > 1, -1)",
            f"{name}.fill_(2)",
        ]
        dim = self._dim(value)
        if dim is not None:
            place = self.chance.randint(0, value.shape[dim] - 1)
            index = f"torch.tensor([{place}], device={name}.device)"
            forms += [
                f"{name}.select({dim}, {place}).add_(1).clamp_(-8, 8)",
                f"{name}.index_fill_({dim}, {index}, 3)",
                f"{name}[..., ::2] = 1",
                f"{name}.narrow({dim}, {place}, 1).copy_({name}.narrow({dim}, 0, 1).clone())",
                f"{name}.index_copy_({dim}, {index}, -{name}.narrow({dim}, 0, 1))",
            ]
        return self.chance.choice(forms)

    def function(self):
        made = [line.partition(" = ")[0] for line in self.lines if line.startswith("v")]
        results = [name for name in made if name.isidentifier()][-3:]
        lines = [
            "def function(x0, x1, x2):",
            *self.lines,
            f"return ({''.join(r + ', ' for r in results)})",
        ]
        scope = {"torch": torch}
        exec("\n    ".join(lines), scope)
        return scope["function"], "\n    ".join(lines)


def programs():
    return st.builds(Program, st.randoms(use_true_random=False))
