"""Records are validated on construction and round-trip through JSON."""

import json

import pytest
from hypothesis import given, settings
from pydantic import ValidationError
from timing_programs import (
    add,
    matmul,
    program,
    read,
    softmax_in_lx,
    softmax_without_lx,
    transpose,
    write,
)
from timing_strategies import programs

from torch_spyre.timing import (
    DdrPattern,
    LxTraffic,
    ProgramRecord,
    PtWork,
    SfpWork,
    Step,
    TimingRecordError,
    estimate,
)

many = settings(max_examples=50, deadline=None, derandomize=True, database=None)
RECORDS = [
    add(64, 64),
    matmul(64, 64, 64),
    softmax_in_lx(64, 64),
    softmax_without_lx(64, 64),
    transpose(64, 64, 128),
    program(),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_a_record_survives_json(record):
    assert ProgramRecord.from_json(record.to_json()) == record
    assert ProgramRecord.from_dict(record.to_dict()) == record
    assert json.loads(record.to_json()) == record.to_dict()


@many
@given(programs())
def test_any_record_survives_json_with_its_timing(record):
    again = ProgramRecord.from_json(record.to_json())
    assert again == record
    assert estimate(again) == estimate(record)


def test_a_timing_is_plain_data():
    timing = estimate(softmax_in_lx(64, 64))
    content = json.loads(json.dumps(timing.to_dict()))
    assert content["time_ps"] == timing.time_ps
    assert content["time_us"] == timing.time_us
    assert content["steps"][0]["name"] == "stage"
    assert content["busy"].keys() == {"pt", "sfp", "ddr", "lx", "ring"}


def change(content, path, value):
    *places, last = path
    for place in places:
        content = content[place]
    content[last] = value


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("name",), None, r"name: .*string"),
        (("steps",), {}, r"steps: .*array"),
        (("steps", 0, "trips"), -1, r"steps\.0\.trips: .*greater than or equal to 0"),
        (("steps", 0, "trips"), 1.0, r"steps\.0\.trips: .*integer"),
        (("steps", 0, "trips"), "1", r"steps\.0\.trips: .*integer"),
        (("steps", 0, "trips"), 2**63, r"steps\.0\.trips: .*less than or equal"),
        (("steps", 0, "cores"), 0, r"steps\.0\.cores: .*greater than 0"),
        (("steps", 0, "speed"), 9, r"steps\.0\.speed: .*nexpected"),
        (("steps", 0, "sfp", 0, "cost"), "free", r"sfp\.0\.cost: .*'simple'"),
        (("steps", 0, "ddr", 0, "bytes"), 100, "bytes 100 is not whole sticks"),
        (("steps", 0, "ddr", 0, "distinct_bytes"), 2**20, "distinct_bytes is more than bytes"),
        (("steps", 0, "ddr", 0, "direction"), "sideways", r"direction: .*'read'"),
        (("steps", 0, "sfp", 0, "elements"), 10**9, "step add: 1000000000 elements on 32 cores"),
    ],
)
def test_damaged_record_is_rejected_with_the_location(path, value, problem):
    content = add(64, 64).to_dict()
    change(content, path, value)
    with pytest.raises(TimingRecordError, match=problem):
        ProgramRecord.from_dict(content)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"steps": []}', "\x00"])
def test_text_that_is_not_a_record_is_rejected(text):
    with pytest.raises(TimingRecordError):
        ProgramRecord.from_json(text)


def test_record_of_other_types_is_rejected():
    with pytest.raises(TimingRecordError, match="not plain data"):
        ProgramRecord.from_dict({"name": object(), "steps": []})


def step(**work):
    return Step(name="x", op="x", cores=2, **work)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: step(pt=(PtWork(macs=9, busiest_core_macs=4, rows=1),)), "9 macs on 2 cores"),
        (lambda: step(pt=(PtWork(macs=3, busiest_core_macs=4, rows=1),)), "3 macs on 2 cores"),
        (lambda: step(lx=(LxTraffic(bytes=9, busiest_core_bytes=4),)), "9 LX bytes"),
        (lambda: step(ddr=(read(256, busiest_core_bytes=0),)), "256 DDR bytes"),
        (lambda: step(ddr_pattern=DdrPattern(kind="restickify")), "without a transfer"),
        (lambda: DdrPattern(kind="cat_outer", rows=1), "cat_outer needs columns"),
        (lambda: DdrPattern(kind="row_reduction"), "row_reduction needs rows"),
        (lambda: write(128, cores=1, multicast=True), "cannot be multicast"),
        (lambda: write(128, cores=1, shared_input="x"), "not an input"),
        (lambda: read(128, cores=1, run_bytes=0), "run_bytes"),
        (lambda: SfpWork(cost="copy", elements=True, busiest_core_elements=1), "integer"),
    ],
)
def test_invalid_work_is_rejected_on_construction(make, problem):
    with pytest.raises(ValidationError, match=problem):
        make()


def test_a_record_cannot_be_changed():
    with pytest.raises(AttributeError):
        add(64, 64).name = "other"
