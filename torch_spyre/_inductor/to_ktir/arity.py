"""How many tensors and numbers an op takes. The compiler gives no others; an edited file may."""

from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.to_ktir.coordinates import INDEX
from torch_spyre._inductor.to_ktir.plan import is_matmul
from torch_spyre._inductor.to_ktir.pointwise import COMPARISONS, POINTWISE, WHERE
from torch_spyre._inductor.to_ktir.reductions import REDUCTIONS
from torch_spyre.errors import UnsupportedError

# A constant of this name and a number stands in the place of that operand.
OPERAND = "operand"
_ARITHMETIC = "add sub mul realdiv fmod remainder maximum minimum pow copysign floordiv truncdiv"
_BITS = "bitwiseand bitwiseor bitwisexor logicaland logicalor logicalxor shiftleft shiftright"
TWO_OPERANDS = frozenset((*COMPARISONS, *_ARITHMETIC.split(), *_BITS.split()))


def check_operands(spec: OpSpec) -> None:
    wanted = _count(spec)
    if wanted is None:
        return
    constants = [name for name in spec.constants if name.startswith(OPERAND)]
    count = len(spec.operands) + len(constants)
    if count != wanted:
        raise UnsupportedError(f"{spec.op} of {count} operands: it takes {wanted}")
    unknown = set(constants) - {f"{OPERAND}{place}" for place in range(count)}
    if unknown:
        raise UnsupportedError(f"{spec.op} with {', '.join(sorted(unknown))} among its constants")


def _count(spec: OpSpec) -> int | None:
    """None for ops that say so themselves."""
    if is_matmul(spec) or spec.op in TWO_OPERANDS:
        return 2
    if spec.op == WHERE:
        return 3
    if spec.op == INDEX:
        return 0
    return 1 if spec.op in POINTWISE or spec.op in REDUCTIONS else None
