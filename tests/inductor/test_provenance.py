"""Every op of a kernel knows the op, the line and the module of the program that it comes from."""

import inspect
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from torch_spyre import knobs
from torch_spyre._inductor import driver
from torch_spyre._inductor.async_compile import SpyreAsyncCompile
from torch_spyre._inductor.op_spec import OpSpec, without_origins
from torch_spyre._inductor.origin import Origin
from torch_spyre._inductor.provenance import _module_path, _users_frame
from torch_spyre.errors import UnsupportedError


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x):
        return self.linear(x).tanh()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x * 2


@pytest.fixture
def specs_of(monkeypatch):
    """Call a function and return the OpSpecs of all bundles that it compiles."""
    compiled: list[OpSpec] = []
    run = driver.run_passes

    def recording(bundle):
        bundle = run(bundle)
        compiled.extend(spec for stage in bundle.stages for spec in stage)
        return bundle

    monkeypatch.setattr(driver, "run_passes", recording)

    def call(function, *arguments):
        compiled.clear()
        torch._dynamo.reset()
        with torch._inductor.config.patch(force_disable_caches=True):
            function(*arguments)
        return list(compiled)

    return call


def on_card(*size):
    return torch.ones(*size, dtype=torch.float16, device="spyre")


def origins_by_op(specs):
    return {(spec.op, spec.origin.code) for spec in specs}


def test_ops_of_one_kernel_keep_their_own_lines(specs_of):
    def function(x):
        doubled = x * 2
        more = x + 1
        return doubled * more

    specs = specs_of(torch.compile(function), on_card(6, 70))
    first = inspect.getsourcelines(function)[1]
    assert [(spec.op, spec.origin.line - first) for spec in specs] == [
        ("mul", 1),
        ("add", 2),
        ("mul", 3),
    ]
    assert [spec.origin.code for spec in specs][:2] == ["doubled = x * 2", "more = x + 1"]
    assert all(Path(spec.origin.file).samefile(__file__) for spec in specs)


def test_decomposed_ops_name_the_op_that_the_program_called(specs_of):
    specs = specs_of(torch.compile(lambda x: x.softmax(-1)), on_card(6, 70))
    assert {"max", "exp", "sum"} <= {spec.op for spec in specs}
    assert {spec.origin.op for spec in specs} == {"aten._softmax.default"}


def test_modules_are_named_in_forward_and_backward(specs_of):
    model = torch.compile(Model().half().to("spyre"))
    specs = specs_of(lambda x: model(x).sum().backward(), on_card(64, 64))
    matmuls = [spec for spec in specs if spec.op == "batchmatmul"]
    # Two in the forward graph, and two for each layer but the first input's in the backward graph.
    assert [spec.origin.module for spec in matmuls] == [
        f"layers.{layer}.linear" for layer in (0, 1, 1, 1, 0)
    ]
    # Frames of PyTorch's own modules are not lines of the user.
    assert {spec.origin.code for spec in matmuls} == {"return self.linear(x).tanh()"}


def test_lookups_know_the_op_that_indexes_whatever_they_are_fused_into(specs_of):
    def function(table, index):
        rows = table[index]
        return rows * 2

    index = torch.tensor([1, 0]).to("spyre")
    spec = specs_of(torch.compile(function), on_card(4, 64), index)[-1]
    assert (spec.op, spec.origin.op) == ("mul", "aten.mul.Tensor")
    assert spec.index_origin.op == "aten.index.Tensor"
    assert spec.index_origin.code == "rows = table[index]"
    assert [origin.op for origin in spec.origins] == ["aten.index.Tensor", "aten.mul.Tensor"]
    (plain,) = specs_of(torch.compile(lambda x: x * 2), on_card(4, 64))
    assert plain.index_origin is None


def test_eager_ops_know_their_op(specs_of):
    x = on_card(7, 71)
    specs = specs_of(lambda: x.softmax(-1))
    assert {spec.origin.op for spec in specs} == {"aten._softmax.default"}
    assert not any(spec.origin.file for spec in specs)


def test_kernels_of_equal_graphs_are_equal_without_their_origins(specs_of):
    first = specs_of(torch.compile(lambda x: x.exp() + 1), on_card(6, 70))
    second = specs_of(torch.compile(lambda x: x.exp() + 1), on_card(6, 70))
    assert repr(first) != repr(second)
    assert repr(without_origins(first)) == repr(without_origins(second))
    assert first == second


def first_line(x):
    return x.exp() - 7


def other_line(x):
    return x.exp() - 7


@pytest.mark.parametrize("function", [first_line, other_line])
def test_a_cached_graph_has_the_lines_of_its_caller(function, tmp_path):
    torch._dynamo.reset()
    # A wrapper dumps its kernels when it is loaded; the second one comes from the cache of graphs.
    torch._inductor.codecache.PyCodeCache.cache_clear()
    with knobs.override(TORCH_SPYRE_DUMP=str(tmp_path)):
        torch.compile(function)(on_card(6, 70))
    line = function.__code__.co_firstlineno + 1
    (folder,) = tmp_path.iterdir()
    assert f", line={line}, " in (folder / "opspec.txt").read_text()
    assert f"test_provenance.py:{line} " in (folder / "loop_ir.txt").read_text()


def test_calls_of_one_kernel_have_one_definition(specs_of):
    torch._dynamo.reset()
    model = Model().half().to("spyre")
    with torch._inductor.config.patch(force_disable_caches=True):
        result, (source,) = torch._inductor.utils.run_and_get_code(
            torch.compile(model), on_card(64, 64)
        )
    assert source.count("async_compile.sdsc(") <= 3


def test_specs_are_python_source_with_and_without_origin(specs_of):
    (spec,) = specs_of(torch.compile(lambda x: x.exp()), on_card(6, 70))
    names = _names()
    assert eval(repr(spec), names).origin == spec.origin
    assert eval(repr(replace(spec, origin=None)), names).origin is None


def _names():
    from torch_spyre._C import DataFormats
    from torch_spyre._inductor.op_spec import TensorArg, sympify

    return {
        "OpSpec": OpSpec,
        "TensorArg": TensorArg,
        "DataFormats": DataFormats,
        "sympify": sympify,
        "Origin": Origin,
    }


@pytest.mark.parametrize("place", ["bundle_builder.trace_loop", "pipeline.divided"])
def test_an_unsupported_graph_names_the_line_that_needs_it(place, monkeypatch, caplog):
    def unsupported(*_):
        raise UnsupportedError("loops of this test")

    def function(x):
        return x.exp() - 3

    monkeypatch.setattr(f"torch_spyre._inductor.{place}", unsupported)
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True), caplog.at_level("WARNING"):
        torch.compile(function)(on_card(6, 70))
    (message,) = [text for text in caplog.messages if "op by op" in text]
    line = function.__code__.co_firstlineno + 1
    assert "loops of this test" in message
    assert "\nIt is needed for aten." in message
    assert f"aten.sub.Tensor at {__file__}:{line} (return x.exp() - 3)" in message


def test_hand_written_specs_need_no_origins(specs_of):
    (spec,) = specs_of(torch.compile(lambda x: x.exp()), on_card(6, 70))
    kernel = SpyreAsyncCompile().sdsc("by_hand", [replace(spec, origin=None)])
    x, result = on_card(6, 70), on_card(6, 70)
    kernel.run(x, result)
    torch.testing.assert_close(result.cpu(), x.cpu().exp(), rtol=1e-2, atol=1e-2)


def test_an_origin_as_text_leaves_out_what_is_unknown():
    assert str(Origin(op="aten.add.Tensor")) == "aten.add.Tensor"
    full = Origin("add", "aten.add.Tensor", "/a/model.py", 3, "x + 1", "layers.0")
    assert str(full) == "aten.add.Tensor at /a/model.py:3 (x + 1) in layers.0"
    assert (full.location, full.short_location) == ("/a/model.py:3", "model.py:3")


def test_the_users_frame_is_the_innermost_outside_of_libraries():
    library = str(Path(nn.__file__).parent / "modules" / "linear.py")
    trace = (
        '  File "/home/user/train.py", line 9, in step\n    y = model(x)\n        ^^^^^^^^\n'
        '  File "/home/user/model.py", line 4, in forward\n    h = self.lin(x)\n'
        f'  File "{library}", line 134, in forward\n    return F.linear(x)\n'
    )
    assert _users_frame(trace) == ("/home/user/model.py", 4, "h = self.lin(x)")
    assert _users_frame("") == ("", 0, "")
    # Better a line of a library than none.
    assert _users_frame(trace.splitlines(True)[-2])[0] == library


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("L['self'].layers.0.lin", "layers.0.lin"),
        ("L['self']._modules['layers'][3]", "layers.3"),
        ('G["model"].head', "model.head"),
        ("L['model']", "model"),
        ("L['fn'][0].lin", "0.lin"),
        ("L['self']", ""),
    ],
)
def test_module_paths_are_those_of_named_modules(path, module):
    assert _module_path([("outer", object), (path, object)]) == module
