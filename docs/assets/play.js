"use strict";
/* The page Play: precomputed densities of λ, drawn as SVG. Uses window.lbnnPlay and the elements of play.md. */
(() => {
  const data = window.lbnnPlay, root = document.querySelector("#play-page");
  if (!data || !root) return;
  const $ = selector => root.querySelector(selector);
  const axes = { depth: data.depths, width: data.widths, size: data.sizes };
  const STEPS = [
    ["One hidden layer", "depth", { depth: 2, width: 10, size: 0.5 },
      "One hidden layer of ten units: λ is near one before the data (dashed). The targets are half as large as the prior expects, and the data shift λ to smaller values (solid)."],
    ["Larger targets", "size", { depth: 2, width: 10, size: 5 },
      "Targets five times as large as expected: the distribution of λ shifts to larger values. In this way the network learns the size of the function, which a Gaussian process of fixed scale cannot do."],
    ["Add depth", "depth", { depth: 10, width: 10, size: 5 },
      "With ten layers λ is a product of more random factors, and its prior distribution is broad, so the data shift it further."],
    ["Make it wide", "width", { depth: 10, width: 1000, size: 5 },
      "At width 1000 every factor is nearly one, and so is λ, whatever the data are. This is close to the limit of infinite width."],
  ];
  const node = (name, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const slider = name => $(`#play-${name}`);
  const value = name => axes[name][Number(slider(name).value)];

  function set(state) {
    for (const [name, each] of Object.entries(state)) slider(name).value = axes[name].indexOf(each);
    draw();
  }

  function network(depth, width) {
    const sizes = [80, ...Array(depth - 1).fill(width), 1];
    const shown = sizes.length <= 9 ? sizes : [...sizes.slice(0, 4), null, ...sizes.slice(-4)];
    const places = shown.map((size, i) => {
      const x = 30 + 540 * i / (shown.length - 1), count = size === null ? 0 : Math.min(6, size);
      return { x, size, units: Array.from({ length: count }, (_, k) => 55 + (k - (count - 1) / 2) * 17) };
    });
    const parts = [];
    for (let i = 1; i < places.length; i++)
      for (const a of places[i - 1].units) for (const b of places[i].units)
        parts.push(node("line", { x1: places[i - 1].x, y1: a, x2: places[i].x, y2: b, class: "edge" }));
    for (const { x, size, units } of places) {
      for (const y of units) parts.push(node("circle", { cx: x, cy: y, r: 5 }));
      parts.push(node("text", { x, y: size === null ? 60 : 126, "text-anchor": "middle" }, size === null ? "…" : String(size)));
      if (size > 6) parts.push(node("text", { x, y: 112, "text-anchor": "middle" }, "⋮"));
    }
    $(".play-network").replaceChildren(...parts);
  }

  function law(before, after) {
    const left = 46, right = 590, bottom = 255, top = 14, parts = [];
    const curves = [before, after].filter(Boolean);
    const low = Math.min(-2, ...curves.map(c => c.from)), high = Math.max(1.5, ...curves.map(c => c.to));
    const highest = 1.08 * Math.max(...curves.map(c => c.top), 0.1);
    const X = x => left + (right - left) * (x - low) / (high - low), Y = y => bottom - (bottom - top) * y / highest;
    const step = Math.ceil((high - low) / 8);
    for (let power = Math.ceil(low); power <= high; power += step) {
      parts.push(node("line", { x1: X(power), x2: X(power), y1: top, y2: bottom, class: "grid" }));
      parts.push(node("text", { x: X(power), y: bottom + 18, "text-anchor": "middle" }, power === 0 ? "1" : `10${String(power).replace(/./g, c => "⁰¹²³⁴⁵⁶⁷⁸⁹"["0123456789".indexOf(c)] ?? "⁻")}`));
    }
    parts.push(node("line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "axis" }));
    parts.push(node("text", { x: (left + right) / 2, y: 293, "text-anchor": "middle" }, "scale λ"));
    parts.push(node("text", { x: 14, y: (top + bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${(top + bottom) / 2})` }, "density of log λ"));
    const path = curve => curve.y.map((y, i) =>
      `${i ? "L" : "M"}${X(curve.from + (curve.to - curve.from) * i / (curve.y.length - 1)).toFixed(1)} ${Y(curve.top * y / 1000).toFixed(1)}`).join("");
    if (before) parts.push(node("path", { d: path(before), class: "before" }));
    if (after) parts.push(node("path", { d: path(after), class: "after" }));
    if (!after) parts.push(node("line", { x1: X(0), x2: X(0), y1: top, y2: bottom, class: "after" }));
    $(".play-law").replaceChildren(...parts);
  }

  function draw() {
    const [depth, width, size] = ["depth", "width", "size"].map(value);
    for (const name of Object.keys(axes)) $(`#play-${name}-value`).textContent = value(name);
    const entry = data.after[`${depth},${width},${size}`];
    network(depth, width);
    law(data.before[`${depth},${width}`], entry.curve);
    $("#play-sentence").textContent = depth === 1
      ? "At depth one no scale is learned: λ is one, and the network is the Gaussian process."
      : `The mean of λ is 1 before the data and ${entry.mean} after them; the log evidence is ${entry.evidence}.`;
  }

  for (const name of Object.keys(axes)) {
    slider(name).max = axes[name].length - 1;
    slider(name).addEventListener("input", () => { $(".play-words").textContent = ""; point(null); draw(); });
  }
  function point(name) {
    for (const label of root.querySelectorAll("label")) label.classList.toggle("pointed", name !== null && label.contains(slider(name)));
  }
  $(".play-steps").append(...STEPS.map(([title, control, state, words], i) => {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: `${i + 1}. ${title}`, className: "md-button" });
    button.addEventListener("click", () => { set(state); point(control); $(".play-words").textContent = words; });
    return button;
  }));
  set(STEPS[0][2]);
})();
