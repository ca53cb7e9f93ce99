"""`spyreop.sort` on the card agrees with the golden model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_texts import kernel, load, numpy_type, run, store, tensor

from torch_spyre.testing import instructions

SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0)


def sort_text(rows, length, kept, type, options=""):
    return kernel(
        "pk; pi; pv; po",
        [load("k", [rows, length], type), load("i", [rows, length], "i32")],
        f"%v, %o = spyreop.sort %k, %i{options} : {tensor([rows, length], type)} "
        f"-> {tensor([rows, kept], type)}",
        [store("v", [rows, kept], type), store("o", [rows, kept], "i32")],
    )


def assert_like_the_golden_model(text, keys, indices, kept, **options):
    shape = (keys.shape[0], kept)
    outputs = {"pv": np.zeros(shape, keys.dtype), "po": np.zeros(shape, np.int32)}
    actual = run(text, pk=keys, pi=indices, **outputs)
    for row in range(keys.shape[0]):
        expected = instructions.sort(
            keys[row].tolist(), indices[row].tolist(), kept=kept, **options
        )
        np.testing.assert_array_equal(actual["pv"][row], np.array(expected[0], keys.dtype))
        np.testing.assert_array_equal(actual["po"][row], expected[1])


@settings(max_examples=25, deadline=None)
@given(st.data(), st.sampled_from(["f32", "f16", "i8", "i32"]), st.booleans())
def test_first_elements_are_those_of_the_golden_model(data, type, descending):
    rows, length = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 40))
    kept = data.draw(st.integers(1, length))
    elements = st.integers(-3, 3)
    if type.startswith("f"):
        elements = elements.map(float) | st.sampled_from(SPECIAL[:5] if type == "f32" else SPECIAL)
    keys = [[data.draw(elements) for _ in range(length)] for _ in range(rows)]
    order = [data.draw(st.permutations(range(-5, length - 5))) for _ in range(rows)]
    text = sort_text(rows, length, kept, type, " descending" if descending else "")
    if type == "f16":
        keys = [[max(min(key, 8.0), -8.0) if key == key else key for key in row] for row in keys]
    assert_like_the_golden_model(
        text,
        np.array(keys, numpy_type(type)),
        np.array(order, np.int32),
        kept,
        descending=descending,
    )


@pytest.mark.parametrize("first", [0, 8])
def test_one_half_of_merged_runs(first):
    keys = np.concatenate([np.arange(8) * 3, np.arange(8) * 2], -1)[None].astype(np.float32)
    indices = np.arange(16, dtype=np.int32)[None]
    text = sort_text(1, 16, 8, "f32", f" runs 8 from %c{first}")
    if first:
        text = text.replace("%v, %o =", f"%c{first} = arith.constant {first} : index\n%v, %o =")
    assert_like_the_golden_model(text, keys, indices, 8, first=first)
