"""SuperDSC, the public kernel format: written from `OpSpec`s, and read back.

A bundle is a directory with one JSON file per op and a `bundle.mlir` that executes them in order
and binds their addresses.
"""

from torch_spyre._inductor.op_table import PUBLIC_OPS
from torch_spyre._inductor.superdsc.bundle_reader import import_bundle, import_programs
from torch_spyre._inductor.superdsc.bundle_writer import generate_bundle
from torch_spyre._inductor.superdsc.emission import generate_sdsc
from torch_spyre._inductor.superdsc.parsing import parse_op_spec
from torch_spyre._inductor.superdsc.sdsc_reader import import_sdsc
from torch_spyre._inductor.superdsc.sdsc_spec import SDSCArgs, SDSCSpec
from torch_spyre._inductor.superdsc.segments import (
    SEGMENT_OFFSETS,
    assign_argument_addresses,
    with_argument_addresses,
)
from torch_spyre._inductor.superdsc.unrolling import unroll_loop_specs

__all__ = [
    "PUBLIC_OPS",
    "SEGMENT_OFFSETS",
    "SDSCArgs",
    "SDSCSpec",
    "assign_argument_addresses",
    "generate_bundle",
    "generate_sdsc",
    "import_bundle",
    "import_programs",
    "import_sdsc",
    "parse_op_spec",
    "unroll_loop_specs",
    "with_argument_addresses",
]
