"""Verify a module: op verifiers, dominance, and rules that span several ops."""

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import IsTerminator, NoTerminator
from xdsl.utils.exceptions import VerifyException

from torch_spyre.errors import SetError
from torch_spyre.ktir.source import Source
from torch_spyre.ktir.verification.communication import verify_communication
from torch_spyre.ktir.verification.functions import grid_of
from torch_spyre.ktir.verification.report import error_at
from torch_spyre.ktir.verification.shapes import verify_shapes
from torch_spyre.ktir.verification.standard_dialects import verify_standard_dialects


def verify_module(module: ModuleOp, source: Source | None, *, strict: bool) -> None:
    """Raise KtirError for the first violation; emit KtirWarning for suspicious but legal ops."""
    _Verifier(source, strict).verify_nested(module)


class _Verifier:
    def __init__(self, source: Source | None, strict: bool) -> None:
        self._source = source
        self._strict = strict
        self._grid = (1, 1, 1)
        self._defined: set[SSAValue] = set()

    def verify_nested(self, operation: Operation) -> None:
        """Verify an op, then the ops nested in it, in source order."""
        try:
            _verify_operation(operation)
            if isinstance(operation, FuncOp):
                self._grid = grid_of(operation)
            elif isinstance(operation.parent_op(), ModuleOp):
                raise VerifyException("a module contains functions only")
            verify_shapes(operation, self._grid, self._source, strict=self._strict)
            verify_communication(operation, self._grid, self._source, strict=self._strict)
            for region in operation.regions:
                self._check_terminators(operation, region)
        except (VerifyException, SetError) as error:
            raise error_at(operation, str(error), self._source) from error
        for region in operation.regions:
            for block in region.blocks:
                self._verify_block(block)

    def _verify_block(self, block: Block) -> None:
        visible: list[SSAValue] = [*block.args]
        self._defined.update(block.args)
        for operation in block.ops:
            for operand in operation.operands:
                if operand not in self._defined:
                    problem = f"%{operand.name_hint or '?'} is not defined before this use"
                    raise error_at(operation, problem, self._source)
            self.verify_nested(operation)
            self._defined.update(operation.results)
            visible += operation.results
        self._defined.difference_update(visible)

    def _check_terminators(self, operation: Operation, region: Region) -> None:
        if operation.has_trait(NoTerminator):
            return
        if len(region.blocks) > 1:
            raise VerifyException("branches between blocks are not part of KTIR")
        for block in region.blocks:
            last = block.last_op
            if last is None or not last.has_trait(IsTerminator):
                raise VerifyException("its region does not end with a terminator")


def _verify_operation(operation: Operation) -> None:
    """Run the op's own verifier.

    Some of xDSL's verifiers assert what an invalid text can violate, so any exception is an error.
    """
    try:
        verify_standard_dialects(operation)
        operation.verify_()
    except VerifyException:
        raise
    except Exception as error:
        raise VerifyException(str(error) or "malformed") from error
