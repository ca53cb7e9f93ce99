"""The script of every page: sorting and filtering of tables, zooming of pictures."""

# Quantities and ticks are those of quantities.py and ticks.py.
SCRIPT = """
"use strict";
for (const head of document.querySelectorAll("thead th")) {
  const sort = () => {
    const body = head.closest("table").tBodies[0], column = head.cellIndex;
    const order = head.ariaSort === "ascending" ? -1 : 1;
    for (const other of head.parentElement.cells) other.ariaSort = null;
    head.ariaSort = order > 0 ? "ascending" : "descending";
    const key = row => row.cells[column].textContent;
    const number = row => parseFloat(row.cells[column].dataset.sort);
    const compare = (a, b) => isNaN(number(a)) || isNaN(number(b))
      ? key(a).localeCompare(key(b), undefined, {numeric: true}) : number(a) - number(b);
    body.append(...[...body.rows].sort((a, b) => order * compare(a, b)));
  };
  head.onclick = sort;
  head.onkeydown = event => { if (event.key === "Enter") sort(); };
}
for (const box of document.querySelectorAll("[data-filters]")) box.oninput = () => {
  const words = box.value.toLowerCase().split(/\\s+/);
  for (const row of document.getElementById(box.dataset.filters).tBodies[0].rows) {
    const text = (row.dataset.words ?? row.textContent).toLowerCase();
    row.hidden = !words.every(word => text.includes(word));
  }
};
function quantity(value, unit) {
  if (unit === "%") return `${+value.toPrecision(4)} %`;
  const prefixes = unit === "B" ? [[2**30, "Gi"], [2**20, "Mi"], [1024, "Ki"], [1, ""]]
    : [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]].concat(
      unit ? [[1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]] : []);
  const size = Math.abs(value) * (1 + 1e-9);
  const [factor, prefix] = value === 0 ? [1, ""]
    : prefixes.find(entry => size >= entry[0]) ?? prefixes.at(-1);
  const number = value / factor;
  return `${Math.abs(number) >= 1000 ? number.toFixed(0) : +number.toPrecision(4)} ${prefix}${unit}`
    .trimEnd();
}
function ticks(begin, end, most, binary) {
  const smallest = (end - begin) / (most - 1);
  if (!(smallest > 0)) return [begin];
  const power = 10 ** Math.floor(Math.log10(smallest) + 1e-9);
  const step = binary ? 2 ** Math.ceil(Math.log2(smallest) - 1e-9)
    : power * [1, 2, 5, 10].find(factor => power * factor >= smallest * (1 - 1e-9));
  const result = [];
  for (let i = Math.ceil(begin / step - 1e-9); i <= Math.floor(end / step + 1e-9); i++)
    result.push(i * step);
  return result;
}
const svg = (tag, attributes, text) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const name in attributes) made.setAttribute(name, attributes[name]);
  made.textContent = text ?? "";
  return made;
};
for (const frame of document.querySelectorAll(".zoom")) {
  const drawing = frame.querySelector("svg"), group = drawing.querySelector(".ticks");
  const begin = +drawing.dataset.begin, end = +drawing.dataset.end, unit = drawing.dataset.unit;
  const span = end - begin || 1, height = drawing.getAttribute("height");
  let level = 1;
  const draw = () => {
    // Ticks of the visible part only: a picture can be a thousand times as wide as the page.
    const left = begin + span * frame.scrollLeft / frame.scrollWidth;
    const right = left + span * frame.clientWidth / frame.scrollWidth;
    const made = [];
    for (const value of ticks(left, right, 11, unit === "B")) {
      const x = `${100 * (value - begin) / span}%`;
      made.push(svg("line", {x1: x, x2: x, y1: 0, y2: height}));
      made.push(svg("text", {x, dx: 3, y: 12, class: "axis"}, quantity(value, unit)));
    }
    group.replaceChildren(...made);
    const margin = frame.scrollLeft + 2;
    for (const name of drawing.querySelectorAll(".name")) name.setAttribute("x", margin);
  };
  const zoom = (factor, x) => {
    const position = (frame.scrollLeft + x) / frame.scrollWidth;
    level = Math.min(2000, Math.max(1, level * factor));
    drawing.style.width = `${100 * level}%`;
    frame.scrollLeft = position * frame.scrollWidth - x;
    draw();
  };
  const buttons = document.createElement("div");
  buttons.className = "zoom-buttons";
  for (const [text, factor] of [["+", 2], ["−", 0.5], ["all", 0]]) {
    const button = document.createElement("button");
    button.textContent = text;
    button.title = "zoom; also with Ctrl and the wheel, or + and - on the keyboard";
    button.onclick = () => zoom(factor, frame.clientWidth / 2);
    buttons.append(button);
  }
  frame.before(buttons);
  frame.onscroll = draw;
  frame.addEventListener("wheel", event => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.25 : 0.8, event.clientX - frame.getBoundingClientRect().left);
  }, {passive: false});
  frame.onkeydown = event => {
    const factor = {"+": 2, "-": 0.5, "0": 0}[event.key];
    if (factor !== undefined) zoom(factor, frame.clientWidth / 2);
  };
}
"""
