"""Pages with tables and pictures: their text, and what a browser makes of them."""

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest

from torch_spyre.html_pages import (
    Bar,
    Box,
    Cell,
    Frame,
    Part,
    Row,
    Span,
    bars,
    box_chart,
    filter_box,
    flame,
    page,
    quantity,
    standalone,
    table,
    timeline,
)
from torch_spyre.html_pages.ticks import ticks

HOSTILE = "<b>&\"'</script><script>fail()</script>"
PICTURES = {
    "bars": bars([Bar("a", [Part(1.0, "x"), Part(3.0, "y")]), Bar("b", [Part(2.0, "x")])], "s"),
    "timeline": timeline([Row("row", [Span(0.0, 1.0, "a"), Span(0.5, 2.0, "b")])], "s"),
    "flame": flame(Frame("all", 4.0, [Frame("left", 3.0), Frame("right", 1.0)]), "s"),
    "box_chart": box_chart(
        [Box(0.0, 1.0, 0.0, 512.0, "a"), Box(1.0, 2.0, 512.0, 1024.0, "b")],
        x_range=(0.0, 2.0),
        y_range=(0.0, 1024.0),
        y_unit="B",
    ),
}


def boxes(view):
    return [box.attributes for box in view.elements("svg", class_="box")]


def share(text):
    return float(text.removesuffix("%")) / 100


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, "s", "0 s"), (1.0, "s", "1 s"), (0.0012, "s", "1.2 ms"), (1e-6, "s", "1 µs"),
        (2.5e-9, "s", "2.5 ns"), (-0.25, "s", "-250 ms"), (1500.0, "s", "1.5 ks"),
        (512, "B", "512 B"), (1536, "B", "1.5 KiB"), (3 << 30, "B", "3 GiB"),
        (12.345, "%", "12.35 %"), (1234567, "", "1.235 M"), (0.5, "", "0.5"),
    ],
)  # fmt: skip
def test_quantities_have_prefixes_and_four_digits(value, unit, text):
    assert quantity(value, unit) == text


@pytest.mark.parametrize(
    ("begin", "end", "at_most", "is_binary", "values"),
    [
        (0, 10, 11, False, list(range(11))),
        (0, 1, 3, False, [0, 0.5, 1]),
        (3, 27, 6, False, [5, 10, 15, 20, 25]),
        (-1, 1, 5, False, [-1, -0.5, 0, 0.5, 1]),
        (0, 3000, 4, True, [0, 1024, 2048]),
        (5, 5, 4, False, [5]),
    ],
)
def test_ticks_are_multiples_of_round_steps(begin, end, at_most, is_binary, values):
    assert ticks(begin, end, at_most, is_binary=is_binary) == pytest.approx(values)


def test_a_page_requests_nothing_and_escapes_every_text(browser):
    parts = [
        table("t", [HOSTILE], [[HOSTILE], [Cell(HOSTILE, "good", 1.0)]]),
        filter_box("t", HOSTILE),
        bars([Bar(HOSTILE, [Part(1.0, HOSTILE, HOSTILE)], HOSTILE)]),
        timeline([Row(HOSTILE, [Span(0, 1, HOSTILE, HOSTILE, HOSTILE)])]),
        flame(Frame(HOSTILE, 1.0, [], HOSTILE, HOSTILE)),
    ]
    data = {"text": HOSTILE}
    text = page(HOSTILE, parts, subtitle=HOSTILE, data=json.dumps(data))
    assert not re.search(r"""(src|href|url)\s*[=(]""", text)
    view = browser.open(text)
    assert view.texts("h1") == [HOSTILE]
    assert view.texts("td") == [HOSTILE, HOSTILE]
    assert HOSTILE in view.texts("title")
    (embedded,) = view.texts("script", id="data")
    assert json.loads(embedded) == data


def test_what_a_page_would_load_from_elsewhere_is_blocked_and_reported(browser):
    with pytest.raises(AssertionError, match="Content Security Policy"):
        browser.open(page("p", ['<img src="http://localhost:9/a.png">']))


def test_errors_of_scripts_fail_the_opening_of_a_page(browser):
    with pytest.raises(AssertionError, match="nonsense is not defined"):
        browser.open(page("p", []), script="nonsense()")


def test_the_screenshot_shows_the_page(browser):
    blank = browser.open("<!doctype html><body></body>").screenshot
    shown = browser.open(page("p", list(PICTURES.values()))).screenshot
    assert blank.startswith(b"\x89PNG") and shown.startswith(b"\x89PNG")
    assert len(shown) > 2 * len(blank)


def test_pages_follow_the_light_or_dark_style_of_the_user(browser):
    script = "document.title = getComputedStyle(document.querySelector('th')).backgroundColor"
    text = page("p", [table("t", ["head"], [])])
    light = browser.open(text, script=script).texts("title")[0]
    dark = browser.open(text, script=script, is_dark=True).texts("title")[0]
    assert light == "rgb(255, 255, 255)"
    assert sum(map(int, re.findall(r"\d+", dark))) < 150


def test_a_click_sorts_by_numbers_and_again_in_reverse(browser):
    rows = [["b10", Cell("1 ms", sort=1e-3)], ["b9", Cell("2 s", sort=2.0)]]
    rows.append(["a", Cell("30 µs", sort=3e-5)])
    script = """
        for (const column of [0, 1, 1, 0]) {
          document.querySelectorAll("th")[column].click();
          const order = document.body.appendChild(document.createElement("ol"));
          order.textContent = [...document.querySelectorAll("td:first-child")]
            .map(cell => cell.textContent).join(" ");
        }"""
    view = browser.open(page("p", [table("t", ["name", "time"], rows)]), script=script)
    assert view.texts("ol") == ["a b9 b10", "a b10 b9", "b9 b10 a", "a b9 b10"]


def test_the_filter_hides_rows_that_lack_a_word(browser):
    rows = [["matmul fast"], ["Softmax slow"], ["softmax fast"]]
    text = page("p", [filter_box("t"), table("t", ["name"], rows)])
    script = (
        "const box = document.querySelector('input'); box.value = 'SOFT fast';"
        "box.dispatchEvent(new Event('input'));"
    )
    hidden = [
        "hidden" in row.attributes for row in browser.open(text, script=script).elements("tr")
    ]
    assert hidden == [False, True, True, False]


def test_bars_are_as_long_as_their_values(browser):
    view = browser.open(page("p", [PICTURES["bars"]]))
    assert [(share(box["x"]), share(box["width"])) for box in boxes(view)] == [
        (0, 0.25), (0.25, 0.75), (0, 0.5),
    ]  # fmt: skip
    classes = [box["class"] for box in boxes(view)]
    assert classes[0] == classes[2] != classes[1]
    assert view.texts("div", class_="legend") == ["xy"]


def test_rectangles_of_a_timeline_that_overlap_are_below_one_another(browser):
    spans = [Span(1.0, 2.0, "a"), Span(1.5, 3.0, "b"), Span(2.0, 5.0, "c")]
    view = browser.open(page("p", [timeline([Row("r", spans)], "s")]))
    placed = {box.text[0]: box.attributes for box in view.elements("svg", class_="box")}
    assert {name: (share(box["x"]), share(box["width"])) for name, box in placed.items()} == {
        "a": (0, 0.25), "b": (0.125, 0.375), "c": (0.25, 0.75),
    }  # fmt: skip
    assert placed["a"]["y"] == placed["c"]["y"] != placed["b"]["y"]


def test_children_of_a_flame_lie_below_their_parent_and_within_it(browser):
    root = Frame("all", 4.0, [Frame("left", 2.0, [Frame("leaf", 1.0)]), Frame("right", 1.0)])
    view = browser.open(page("p", [flame(root, "s")]))
    placed = [(float(box["y"]), share(box["x"]), share(box["width"])) for box in boxes(view)]
    top = placed[0][0]
    assert [(y > top, x, width) for y, x, width in placed] == [
        (False, 0, 1), (True, 0, 0.5), (True, 0, 0.25), (True, 0.5, 0.25),
    ]  # fmt: skip
    assert placed[2][0] > placed[1][0] == placed[3][0]
    assert any("left: 2 s, 50.0%" in text for text in view.texts("title"))


def test_boxes_of_a_chart_are_placed_by_both_axes(browser):
    view = browser.open(page("p", [PICTURES["box_chart"]]))
    first, second = boxes(view)
    assert (share(first["x"]), share(second["x"])) == (0, 0.5)
    assert float(first["y"]) == float(second["y"]) + float(second["height"])


def test_zooming_widens_a_picture_and_renews_its_ticks(browser):
    script = """
        const drawings = document.querySelectorAll(".zoom svg.picture");
        const record = () => {
          for (const drawing of drawings) {
            const state = document.body.appendChild(document.createElement("output"));
            const texts = [...drawing.querySelectorAll(".ticks text")].map(e => e.textContent);
            state.textContent = JSON.stringify([drawing.style.width, texts]);
          }
        };
        record();
        for (const button of document.querySelectorAll("button"))
          if (button.textContent === "+") for (let i = 0; i < 4; i++) button.click();
        record();
        for (const button of document.querySelectorAll("button"))
          if (button.textContent === "all") button.click();
        record();"""
    view = browser.open(page("p", list(PICTURES.values())), script=script)
    states = [json.loads(text) for text in view.texts("output")]
    before, zoomed, after = states[:3], states[3:6], states[6:]
    assert [width for width, _ in zoomed] == ["1600%"] * 3
    for (_, plain), (_, fine), (_, again) in zip(before, zoomed, after, strict=True):
        assert plain == again != fine
        assert 2 <= len(fine) <= 11


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_svg_files_on_their_own(name):
    root = ElementTree.fromstring(standalone(PICTURES[name], 800))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.get("width") == "800"
    assert len(list(root.iter("{http://www.w3.org/2000/svg}rect"))) >= 2


@pytest.mark.parametrize("picture", [bars([]), timeline([]), flame(Frame("nothing", 0.0))])
def test_pictures_of_nothing_are_a_sentence(picture):
    assert picture == "<p>There is nothing to show.</p>"
