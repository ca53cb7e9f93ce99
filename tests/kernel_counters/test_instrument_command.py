"""`spyre instrument`: counters of dumped kernels."""

import json

import pytest
import torch

from torch_spyre.dumped_programs import dumped_kernels

pytestmark = pytest.mark.usefixtures("kernels")


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    """Return a folder with the dumped kernels of a small graph."""
    folder = tmp_path_factory.mktemp("dump")
    x = torch.ones(300, 512).half().to("spyre")
    torch._dynamo.reset()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_SPYRE_DUMP", str(folder))
        with torch._inductor.config.patch(force_disable_caches=True):
            torch.compile(lambda x: (x @ x.t()).relu())(x)
    return folder


def test_the_tables_have_the_time_of_the_dump(spyre, dump):
    code, out, err = spyre("instrument", dump)
    assert (code, err) == (0, "")
    for kernel in dumped_kernels(dump):
        records = json.loads((kernel.folder / "timing.json").read_text())
        for stage, record in zip(kernel.programs, records, strict=True):
            assert stage.name in out
            assert f"{record['time_ps'] / 10**6:.3f} us, {record['cycles']:,} cycles" in out
    assert "matmul" in out and "linalg.matmul" in out


def test_the_json_has_every_instruction_core_and_unit(spyre, dump):
    code, out, _ = spyre("instrument", dump, "--json")
    kernels = json.loads(out)
    assert code == 0 and kernels
    for kernel in kernels:
        time = kernel["timing"]["time_ps"]
        assert sum(entry["time_ps"] for entry in kernel["instructions"]) == time
        for cycles in kernel["units"].values():
            assert sum(cycles.values()) == kernel["timing"]["cycles"]
        for core in kernel["cores"]:
            own = [entry["executions"][core["core"]] for entry in kernel["instructions"]]
            assert core["executions"] == sum(own)


def test_the_page_has_a_flame_graph_for_each_kernel(spyre, dump, browser, tmp_path):
    page = tmp_path / "page.html"
    assert spyre("instrument", dump, "--html", page)[0] == 0
    view = browser.open(page)
    names = [stage.name for kernel in dumped_kernels(dump) for stage in kernel.programs]
    assert sorted(view.texts("h2")) == sorted(names)
    # A flame graph, and bars of the units.
    assert len(view.elements("svg", class_="picture")) == 2 * len(names)
