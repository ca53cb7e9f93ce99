"""SuperDSC: the public description of a kernel, written from `OpSpec`s and read back.

A bundle is a folder with one JSON file for each op and a `bundle.mlir` that says in which order
they run and at which addresses.
"""

from torch_spyre._inductor.op_table import PUBLIC_OPS
from torch_spyre._inductor.superdsc.bundle import generate_bundle
from torch_spyre._inductor.superdsc.emission import generate_sdsc
from torch_spyre._inductor.superdsc.importing import import_bundle, import_programs
from torch_spyre._inductor.superdsc.parsing import parse_op_spec
from torch_spyre._inductor.superdsc.reading import import_sdsc
from torch_spyre._inductor.superdsc.records import SDSCArgs, SDSCSpec
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
