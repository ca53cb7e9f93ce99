"""The base of emitters of multi-loop ops."""

from dataclasses import dataclass

from xdsl.ir import Attribute

from torch_spyre._inductor.multi_loop.roles import Roles, symbols_of_roles
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.to_ktir.context import KernelContext
from torch_spyre._inductor.to_ktir.emitter import Emitter
from torch_spyre._inductor.to_ktir.tiles import Frame
from torch_spyre._inductor.to_ktir.types import element_type


@dataclass(frozen=True)
class TileEmitter:
    """Emits the ops of one tile, whose part of the iteration space is `frame`."""

    kernel: KernelContext
    frame: Frame

    @property
    def _emitter(self) -> Emitter:
        return self.kernel.emitter

    @property
    def _spec(self) -> OpSpec:
        return self.kernel.specs[0]

    @property
    def _roles(self) -> Roles:
        return symbols_of_roles(self.kernel.specs, self.kernel.space)

    @property
    def _result_type(self) -> Attribute:
        return element_type(self._spec.output.device_dtype)
