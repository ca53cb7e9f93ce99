"""The `ktdp` dialect: memory views, access tiles, load and store, communication between cores."""

from xdsl.ir import Dialect

from torch_spyre.ktir.dialects.ktdp.attributes import (
    ExtractKind,
    ExtractKindAttr,
    MemorySpaceAttr,
    SpyreMemory,
    SpyreMemorySpaceAttr,
    Visibility,
)
from torch_spyre.ktir.dialects.ktdp.collectives import (
    InterTileAllToAllOp,
    InterTileGatherOp,
    InterTileReduceScatterOp,
    InterTileScatterOp,
)
from torch_spyre.ktir.dialects.ktdp.delivery import DeliveryOperation, ReductionOperation
from torch_spyre.ktir.dialects.ktdp.indirect_tiles import (
    ConstructIndirectAccessTileOp,
    RegionTerminatorOp,
    Subscript,
)
from torch_spyre.ktir.dialects.ktdp.inter_tile import (
    InterTileConsumeOp,
    InterTileProduceOp,
    InterTileReduceOp,
    YieldPartialOp,
    YieldReducedOp,
)
from torch_spyre.ktir.dialects.ktdp.tiles import ConstructAccessTileOp
from torch_spyre.ktir.dialects.ktdp.transfers import (
    GetComputeTileIdOp,
    LoadOp,
    RuntimeArgExtractOp,
    StoreOp,
)
from torch_spyre.ktir.dialects.ktdp.types import AccessTileType, RuntimeArgType, TileFutureType
from torch_spyre.ktir.dialects.ktdp.views import (
    ConstructDistributedMemoryViewOp,
    ConstructMemoryViewOp,
)

Ktdp = Dialect(
    "ktdp",
    [
        GetComputeTileIdOp,
        ConstructMemoryViewOp,
        ConstructDistributedMemoryViewOp,
        ConstructAccessTileOp,
        ConstructIndirectAccessTileOp,
        RegionTerminatorOp,
        LoadOp,
        StoreOp,
        RuntimeArgExtractOp,
        InterTileProduceOp,
        InterTileConsumeOp,
        InterTileReduceOp,
        InterTileReduceScatterOp,
        InterTileGatherOp,
        InterTileAllToAllOp,
        InterTileScatterOp,
        YieldPartialOp,
        YieldReducedOp,
    ],
    [
        AccessTileType,
        RuntimeArgType,
        TileFutureType,
        MemorySpaceAttr,
        SpyreMemorySpaceAttr,
        ExtractKindAttr,
    ],
)

__all__ = [
    "AccessTileType",
    "ConstructAccessTileOp",
    "ConstructDistributedMemoryViewOp",
    "ConstructIndirectAccessTileOp",
    "ConstructMemoryViewOp",
    "DeliveryOperation",
    "ExtractKind",
    "ExtractKindAttr",
    "ReductionOperation",
    "GetComputeTileIdOp",
    "InterTileAllToAllOp",
    "InterTileConsumeOp",
    "InterTileGatherOp",
    "InterTileProduceOp",
    "InterTileReduceOp",
    "InterTileReduceScatterOp",
    "InterTileScatterOp",
    "Ktdp",
    "LoadOp",
    "MemorySpaceAttr",
    "RegionTerminatorOp",
    "RuntimeArgExtractOp",
    "RuntimeArgType",
    "SpyreMemory",
    "SpyreMemorySpaceAttr",
    "StoreOp",
    "Subscript",
    "TileFutureType",
    "Visibility",
    "YieldPartialOp",
    "YieldReducedOp",
]
