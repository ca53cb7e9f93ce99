"""What generated wrappers call to make kernels of the OpSpecs in their text."""

from collections.abc import Sequence

from torch._inductor.async_compile import AsyncCompile

from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.runtime.runner import Runner


class SpyreAsyncCompile(AsyncCompile):
    """Inductor's, so that graphs with kernels for the CPU work too, and ours."""

    def sdsc(
        self, name: str, stages: Sequence[Sequence[OpSpec]], loops: str | None = None
    ) -> Runner:
        return Runner(name, stages, loops)
