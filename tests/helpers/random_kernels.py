"""Random kernels on 4x4 tensors of int32: every value has one shape, so anything fits anywhere."""

N = 4
TENSOR = f"tensor<{N}x{N}xi32>"
VIEW = f"memref<{N}x{N}xi32>"
BOX = f"affine_set<(d0, d1) : (d0 >= 0, -d0 + {N - 1} >= 0, d1 >= 0, -d1 + {N - 1} >= 0)>"
INPUTS, OUTPUTS = 3, 3


class KernelWriter:
    """Writes a kernel; `choose(a, b)` draws an integer from a to b."""

    def __init__(self, choose, *, depth=2, length=8):
        self.choose = choose
        self.depth = depth
        self.length = length
        self.lines = []
        self.count = 0

    def text(self):
        arguments = [f"%in{i}: index" for i in range(INPUTS)]
        arguments += [f"%out{i}: index" for i in range(OUTPUTS)]
        self.add(f"func.func @f({', '.join(arguments)}, %n: index) {{")
        for size in (0, 1, 2, 3):
            self.add(f"%c{size} = arith.constant {size} : index")
        self.add(f"%empty = tensor.empty() : {TENSOR}")
        self.add("%row_init = arith.constant dense<0> : tensor<4xi32>")
        for name in [f"in{i}" for i in range(INPUTS)] + [f"out{i}" for i in range(OUTPUTS)]:
            self.add(
                f"%{name}v = ktdp.construct_memory_view %{name}, sizes: [{N}, {N}], "
                f"strides: [{N}, 1] : {VIEW}"
            )
            self.add(
                f"%{name}t = ktdp.construct_access_tile %{name}v[%c0, %c0] "
                f"{{access_tile_set = {BOX}}} : {VIEW} -> <{N}x{N}xindex>"
            )
        values = [self.load(), self.literal()]
        self.block(values, [], 0)
        for output in range(OUTPUTS):
            self.store(self.pick(values), output)
        self.add("return\n}")
        return "\n".join(self.lines)

    def add(self, line):
        self.lines.append(line)

    def new(self):
        self.count += 1
        return f"%v{self.count}"

    def pick(self, values):
        # Prefer the newest values, which yields chains of ops.
        return values[-1 - min(self.choose(0, 3), len(values) - 1)]

    def pick_any(self, values):
        return values[self.choose(0, len(values) - 1)]

    def block(self, values, indices, depth):
        """Add random ops, and append the values that they define to `values`."""
        kinds = [
            self.binary,
            self.binary,
            self.binary,
            self.binary,
            self.load,
            self.transpose,
            self.insert_slice,
            self.concat,
            self.row_sum,
            self.matmul,
            self.element,
            self.with_index,
            self.store,
            self.literal,
        ]
        for _ in range(self.choose(1, self.length)):
            kind = self.choose(0, len(kinds) + (2 if depth < self.depth else -1))
            if kind >= len(kinds):
                (self.branch if kind == len(kinds) else self.loop)(values, indices, depth + 1)
                continue
            method = kinds[kind]
            if method == self.store:
                self.store(self.pick(values), self.choose(0, OUTPUTS - 1))
            elif method in (self.load, self.literal):
                values.append(method())
            elif method == self.with_index:
                values.append(self.with_index(values, indices))
            else:
                values.append(method(values))

    def load(self):
        name = self.new()
        source = self.choose(0, INPUTS - 1)
        self.add(f"{name} = ktdp.load %in{source}t : <{N}x{N}xindex> -> {TENSOR}")
        return name

    def literal(self):
        name = self.new()
        first = self.choose(-9, 9)
        rows = [[first + 3 * row + column for column in range(N)] for row in range(N)]
        self.add(f"{name} = arith.constant dense<{rows}> : {TENSOR}")
        return name

    def store(self, value, output):
        self.add(f"ktdp.store {value}, %out{output}t : {TENSOR}, <{N}x{N}xindex>")

    def binary(self, values):
        name = self.new()
        op = ("addi", "subi", "muli", "xori", "maxsi")[self.choose(0, 4)]
        self.add(f"{name} = arith.{op} {self.pick(values)}, {self.pick_any(values)} : {TENSOR}")
        return name

    def transpose(self, values):
        name = self.new()
        self.add(
            f"{name} = linalg.transpose ins({self.pick(values)} : {TENSOR}) "
            f"outs(%empty : {TENSOR}) permutation = [1, 0]"
        )
        return name

    def insert_slice(self, values):
        part, name = self.new(), self.new()
        row, target = self.choose(0, 2), self.choose(0, 2)
        self.add(
            f"{part} = tensor.extract_slice {self.pick(values)}[{row}, 0] [2, {N}] [1, 1] "
            f": {TENSOR} to tensor<2x{N}xi32>"
        )
        self.add(
            f"{name} = tensor.insert_slice {part} into {self.pick(values)}[{target}, 0] [2, {N}] "
            f"[1, 1] : tensor<2x{N}xi32> into {TENSOR}"
        )
        return name

    def concat(self, values):
        top, bottom, name = self.new(), self.new(), self.new()
        for half in (top, bottom):
            self.add(
                f"{half} = tensor.extract_slice {self.pick(values)}[{self.choose(0, 2)}, 0] "
                f"[2, {N}] [1, 1] : {TENSOR} to tensor<2x{N}xi32>"
            )
        self.add(
            f"{name} = tensor.concat dim(0) {top}, {bottom} : "
            f"(tensor<2x{N}xi32>, tensor<2x{N}xi32>) -> {TENSOR}"
        )
        return name

    def row_sum(self, values):
        total, name = self.new(), self.new()
        self.add(
            f"{total} = linalg.reduce {{ arith.addi }} ins({self.pick(values)} : {TENSOR}) "
            f"outs(%row_init : tensor<{N}xi32>) dimensions = [{self.choose(0, 1)}]"
        )
        self.add(
            f"{name} = linalg.broadcast ins({total} : tensor<{N}xi32>) outs(%empty : {TENSOR}) "
            f"dimensions = [{self.choose(0, 1)}]"
        )
        return name

    def matmul(self, values):
        name = self.new()
        left, right, init = self.pick(values), self.pick_any(values), self.pick(values)
        self.add(
            f"{name} = linalg.matmul ins({left}, {right} : {TENSOR}, {TENSOR}) "
            f"outs({init} : {TENSOR}) -> {TENSOR}"
        )
        return name

    def element(self, values):
        scalar, name = self.new(), self.new()
        indices = f"%c{self.choose(0, 3)}, %c{self.choose(0, 3)}"
        self.add(f"{scalar} = tensor.extract {self.pick(values)}[{indices}] : {TENSOR}")
        self.add(f"{name} = tensor.insert {scalar} into {self.pick(values)}[{indices}] : {TENSOR}")
        return name

    def with_index(self, values, indices):
        index = indices[self.choose(0, len(indices) - 1)] if indices else "%n"
        scalar, splat, name = self.new(), self.new(), self.new()
        self.add(f"{scalar} = arith.index_cast {index} : index to i32")
        self.add(f"{splat} = tensor.splat {scalar} : {TENSOR}")
        self.add(f"{name} = arith.addi {self.pick(values)}, {splat} : {TENSOR}")
        return name

    def loop(self, values, indices, depth):
        carried = [self.new() for _ in range(self.choose(1, 3))]
        results, variable, number = self.new(), self.new(), self.new()
        inits = ", ".join(f"{name} = {self.pick_any(values)}" for name in carried)
        types = ", ".join([TENSOR] * len(carried))
        bounds = f"%c{self.choose(0, 2)} to %c{self.choose(0, 3)}"
        self.add(
            f"{results}:{len(carried) + 1} = scf.for {variable} = {bounds} "
            f"step %c1 iter_args({inits}, {number} = %c1) -> ({types}, index) {{"
        )
        inside = [*values, *carried]
        self.block(inside, [*indices, variable, number], depth)
        # A carried value may be yielded unchanged at the position of another.
        yielded = [
            self.pick_any(carried) if self.choose(0, 2) == 0 else self.pick(inside) for _ in carried
        ]
        after = self.new()
        self.add(f"{after} = arith.addi {number}, {variable} : index")
        self.add(f"scf.yield {', '.join(yielded)}, {after} : {types}, index\n}}")
        values += [f"{results}#{position}" for position in range(len(carried))]

    def branch(self, values, indices, depth):
        condition, results = self.new(), self.new()
        index = indices[self.choose(0, len(indices) - 1)] if indices else "%n"
        self.add(f"{condition} = arith.cmpi slt, {index}, %c{self.choose(0, 3)} : index")
        count = self.choose(1, 2)
        types = ", ".join([TENSOR] * count)
        self.add(f"{results}:{count} = scf.if {condition} -> ({types}) {{")
        for last in (False, True):
            inside = list(values)
            self.block(inside, indices, depth)
            yielded = ", ".join(self.pick(inside) for _ in range(count))
            self.add(f"scf.yield {yielded} : {types}")
            self.add("}" if last else "} else {")
        values += [f"{results}#{position}" for position in range(count)]
