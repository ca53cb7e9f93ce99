"""Timing records of small programs, in fp16 by default."""

from torch_spyre.timing import (
    DdrPattern,
    DdrTransfer,
    LxTraffic,
    ProgramRecord,
    PtWork,
    SfpWork,
    Step,
)

CORES = 32
STICK = 128
LONG_RUN = 4096


def program(*steps, name="program", lx_peak_bytes=0):
    return ProgramRecord(name=name, steps=steps, lx_peak_bytes=lx_peak_bytes)


def move(direction, size, *, cores=CORES, run_bytes=LONG_RUN, **facts):
    """A transfer in which every core moves the same, distinct sticks."""
    facts = {"distinct_bytes": size, "busiest_core_bytes": size // cores, **facts}
    return DdrTransfer(direction=direction, bytes=size, run_bytes=run_bytes, **facts)


def read(size, **facts):
    return move("read", size, **facts)


def write(size, **facts):
    return move("write", size, **facts)


def vector(cost, elements, cores=CORES, **facts):
    return SfpWork(
        cost=cost, elements=elements, busiest_core_elements=-(-elements // cores), **facts
    )


def scratchpad(size, cores=CORES):
    return LxTraffic(bytes=size, busiest_core_bytes=-(-size // cores))


def copy(size, cores=CORES):
    step = Step(
        name="copy",
        op="clone",
        cores=cores,
        ddr=(read(size, cores=cores), write(size, cores=cores)),
    )
    return program(step, name=f"copy of {size} bytes")


def add(rows, columns):
    elements = rows * columns
    size = 2 * elements
    step = Step(
        name="add",
        op="add",
        cores=CORES,
        sfp=(vector("simple", elements),),
        ddr=(read(size), read(size), write(size)),
        lx=(scratchpad(6 * size),),
    )
    return program(step, name=f"add {rows}x{columns}")


def softmax_steps(rows, columns, cores):
    """Name, cost and reduced sticks per core of the five ops, and the elements of each."""
    reduced = -(-(rows // cores) // 64)
    return rows * columns, (
        ("maximum", "reduce", reduced),
        ("subtract", "simple", 0),
        ("exponential", "transcendental", 0),
        ("sum", "reduce", reduced),
        ("divide", "divide", 0),
    )


def softmax_in_lx(rows, columns, *, cores=CORES, clone=True):
    """The input is staged once, the output written once; everything between stays in LX."""
    elements, ops = softmax_steps(rows, columns, cores)
    size = 2 * elements
    staging = Step(
        name="stage",
        op="clone",
        cores=cores,
        sfp=(vector("copy", elements, cores),) if clone else (),
        ddr=(read(size, cores=cores),),
        lx=(scratchpad(2 * size, cores),),
    )
    steps = [
        Step(
            name=name,
            op=name,
            cores=cores,
            sfp=(vector(cost, elements, cores, reduced_sticks=sticks),),
            ddr=(write(size, cores=cores),) if name == "divide" else (),
            lx=(scratchpad(size if cost == "reduce" else 2 * size, cores),),
        )
        for name, cost, sticks in ops
    ]
    return program(staging, *steps, name=f"softmax {rows}x{columns} in LX, {cores} cores")


def softmax_without_lx(rows, columns):
    """Every op reads and writes device memory; one value per row occupies a stick."""
    elements, ops = softmax_steps(rows, columns, CORES)
    size, column = 2 * elements, rows * STICK
    broadcast = DdrPattern(kind="column_broadcast", rows=rows, columns=columns)
    traffic = {
        "reduce": ((read(size), write(column)), None),
        "simple": ((read(size), read(column), write(size)), broadcast),
        "transcendental": ((read(size), write(size)), None),
        "divide": ((read(size), read(column), write(size)), broadcast),
    }
    steps = [
        Step(
            name=name,
            op=name,
            cores=CORES,
            sfp=(vector(cost, elements, reduced_sticks=sticks),),
            ddr=traffic[cost][0],
            ddr_pattern=traffic[cost][1],
        )
        for name, cost, sticks in ops
    ]
    return program(*steps, name=f"softmax {rows}x{columns} without LX")


def matmul_step(m, k, n, *, row_splits, column_splits, name="mm"):
    cores = row_splits * column_splits
    operands = [2 * m * k, 2 * k * n]
    return Step(
        name=name,
        op="matmul",
        cores=cores,
        pt=(
            PtWork(
                macs=m * k * n,
                busiest_core_macs=m * k * n // cores,
                rows=-(-m // row_splits),
                columns=-(-n // column_splits),
                row_splits=row_splits,
                column_splits=column_splits,
            ),
        ),
        ddr=(
            *(
                read(size, multicast=True, busiest_core_bytes=-(-size // cores // STICK) * STICK)
                for size in operands
            ),
            write(2 * m * n, busiest_core_bytes=-(-2 * m * n // cores // STICK) * STICK),
        ),
        lx=(scratchpad(2 * (m * k * column_splits + k * n * row_splits + m * n), cores),),
    )


def matmul(m, k, n, *, row_splits=4, column_splits=8):
    step = matmul_step(m, k, n, row_splits=row_splits, column_splits=column_splits)
    return program(step, name=f"mm {m}x{k}x{n}, {row_splits}x{column_splits}")


def transpose(rows, columns, run_bytes):
    size = 2 * rows * columns
    step = Step(
        name="transpose",
        op="restickify",
        cores=CORES,
        ddr=(read(size, run_bytes=run_bytes), write(size)),
        ddr_pattern=DdrPattern(kind="restickify", rows=rows, columns=columns),
    )
    return program(step, name=f"transpose {rows}x{columns}, runs of {run_bytes} bytes")
