"""The key of a call's metadata: equal where the metadata is, different where anything differs."""

import math
from enum import IntEnum

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_spyre import _C

key = _C.arguments_key
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.sampled_from([torch.float16, torch.int8, torch.strided, torch.channels_last])
    | st.sampled_from([torch.device("cpu"), torch.device("spyre", 0), torch.device("spyre")])
)
VALUES = st.recursive(
    SCALARS, lambda items: st.lists(items, max_size=3) | st.tuples(items, items), max_leaves=6
)


def described(value):
    """Return a text of the value that differs wherever keys must differ."""
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(described(item) for item in value)})"
    return f"{type(value).__name__} {value!r}"


def half(*size):
    return torch.zeros(size, dtype=torch.float16, device="spyre")


@given(st.lists(VALUES, max_size=3), st.lists(VALUES, max_size=3))
def test_values_have_equal_keys_exactly_if_they_are_alike(one, other):
    alike = described(tuple(one)) == described(tuple(other))
    assert (key(tuple(one), None) == key(tuple(other), None)) == alike


@given(st.lists(VALUES, max_size=4))
def test_key_is_hashable_and_stable(values):
    actual = key(tuple(values), None)
    assert actual is not None
    assert {actual: 1}[key(tuple(values), {})] == 1


def test_equal_scalars_of_different_type_or_sign_have_different_keys():
    values = [1, 1.0, True, 1 + 0j, 0, 0.0, -0.0, False, None, "1", 2**64 + 1, -(2**64) - 1, 2**70]
    assert len({key((value,)) for value in values}) == len(values)
    assert key((math.nan,)) == key((-math.nan,)) == key((float("nan"),))


def variants():
    """Tensors that differ from each other in one thing each."""
    base = half(4, 64)
    wide = half(8, 64)
    complex_host = torch.zeros(4, 64, dtype=torch.complex64)
    layout = _C.SpyreTensorLayout([4, 64], torch.float16)
    other_layout = _C.SpyreTensorLayout([4, 64], [64, 1], torch.float16, [1, 0])
    return {
        "base": base,
        "shape": half(2, 64),
        "dimensions": half(1, 4, 64),
        "dtype": torch.zeros(4, 64, dtype=torch.float32, device="spyre"),
        "device": torch.zeros(4, 64, dtype=torch.float16),
        "meta": torch.zeros(4, 64, dtype=torch.float16, device="meta"),
        "strides": half(64, 4).t(),
        "storage": wide[:4],
        "offset": wide[4:],
        "layout": _C.empty_with_layout([4, 64], other_layout, torch.float16, base.device),
        "own layout": _C.as_strided_with_layout(wide, [4, 64], [64, 1], 0, layout),
        "complex": complex_host,
        "conjugate": complex_host.conj(),
        "negative": complex_host.conj().imag,
        "not negative": complex_host.imag,
        "zeros": torch._efficientzerotensor((4, 64), dtype=torch.float32),
    }


def test_tensors_that_differ_in_anything_have_different_keys():
    actual = {name: key((tensor,)) for name, tensor in variants().items()}
    for name, value in actual.items():
        assert value is not None, name
        assert [other for other, its in actual.items() if its == value] == [name]


def test_equal_tensors_have_equal_keys():
    assert [key((tensor,)) for tensor in variants().values()] == [
        key((tensor,)) for tensor in variants().values()
    ]


@given(st.lists(st.integers(0, 2), min_size=1, max_size=5))
def test_aliasing_of_arguments_is_part_of_the_key(choice):
    pool = [half(4, 64) for _ in range(3)]
    first_of = {}
    pattern = [first_of.setdefault(number, i) for i, number in enumerate(choice)]
    again = [half(4, 64) for _ in choice]
    assert key(tuple(pool[n] for n in choice)) == key(tuple(again[i] for i in pattern))
    all_apart = key(tuple(half(4, 64) for _ in choice))
    is_apart = len(set(choice)) == len(choice)
    assert (key(tuple(pool[n] for n in choice)) == all_apart) == is_apart


def test_tensors_in_lists_count_too():
    a, b = half(4, 64), half(4, 64)
    assert key(([a, b],)) == key(([b, a],))
    assert key(([a, b],)) != key(([a, a],))
    assert key(([a, b],)) != key((a, b))
    assert key(([a, b],)) != key(([a], b))
    assert key(([a, half(2, 64)],)) != key(([a, b],))


def test_a_layout_that_is_set_later_changes_the_key():
    tensor = half(64, 64)
    before = key((tensor,))
    layout = _C.SpyreTensorLayout([64, 64], [64, 1], torch.float16, [1, 0])
    _C.set_spyre_tensor_layout(tensor, layout)
    assert key((tensor,)) != before


def test_a_resized_storage_changes_the_key():
    tensor = half(4, 64)
    before = key((tensor,))
    tensor.resize_(8, 64)
    tensor.resize_(4, 64)
    assert key((tensor,)) != before


def test_key_does_not_depend_on_keyword_order():
    a = half(4, 64)
    assert key((a,), {"x": 1, "y": 2}) == key((a,), {"y": 2, "x": 1})
    assert key((a,), {"x": 1, "y": 2}) != key((a,), {"x": 2, "y": 1})
    assert key((a,), {"x": 1}) != key((a,), {"z": 1})
    assert key((a,), {"x": 1}) != key((a, 1))
    assert key((a,), {}) == key((a,), None) == key((a,))


class Color(IntEnum):
    RED = 1


@pytest.mark.parametrize("value", [object(), Color.RED, {1: 2}, {1}, slice(1), torch.Generator()])
def test_unsupported_arguments_have_no_key(value):
    assert key((value,)) is None
    assert key(([1, (value,)],)) is None
    assert key((), {"x": value}) is None


def test_tensors_that_are_more_than_their_metadata_give_none():
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        fake = mode.from_tensor(half(4, 64))
    assert key((fake,)) is None
    assert key((torch.eye(4).to_sparse(),)) is None
    symbol = ShapeEnv().create_unbacked_symint()
    assert key((symbol,)) is None
    seen = []
    torch.vmap(lambda row: seen.append(key((row,))) or row)(torch.zeros(2, 3))
    assert seen == [None]


def test_a_list_that_contains_itself_gives_none():
    endless = []
    endless.append(endless)
    assert key((endless,)) is None


@pytest.mark.parametrize("wrong", [(), ([],), (1, {}), ((), []), ((), {}, 1)])
def test_invalid_calls_raise(wrong):
    with pytest.raises(TypeError, match="arguments_key"):
        key(*wrong)


def test_invalid_names_raise():
    with pytest.raises(TypeError, match="names"):
        key((), {1: 2})
