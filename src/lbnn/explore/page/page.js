"use strict";
/* The controls ask, the server answers. At most one request is on its way; the newest waits and wins. */
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const field = name => $(`[data-field="${name}"]`);
  const fields = $$("[data-field]");
  let doc, wire, view = "scale", number = 0, outstanding = 0, waiting = null, sentAt = 0, busyTimer = 0;
  let answered = false, moved = null, fromPoints = false;

  // ------------------------------------------------------------ asking

  const query = () => new URLSearchParams([["view", view], ...fields.map(f => [f.dataset.field, f.value.trim()])])
    .toString();

  function send(kind, content) {
    number += 1;
    wire.asked = JSON.stringify({ number, kind, content });
    return number;
  }

  function ask(text = query()) {
    waiting = text;
    if (!outstanding || performance.now() - sentAt > 400) dispatch();
  }

  function dispatch() {
    if (waiting === null || !wire) return;
    sentAt = performance.now();
    outstanding = send("state", waiting);
    waiting = null;
    clearTimeout(busyTimer);
    busyTimer = setTimeout(() => busy(true), 120);
  }

  function busy(on, words = "computing") {
    clearTimeout(busyTimer);
    $("#busy").hidden = !on;
    $("#busy-words").textContent = words;
    $("#main").setAttribute("aria-busy", on);
  }

  // ------------------------------------------------------------ answers

  function take() {
    const answer = JSON.parse(wire.answered);
    if (answer.error !== undefined) complain(answer);
    else if (answer.table !== undefined) adopt(answer.table);
    else if (answer.refined !== undefined) busy(false);
    else if (answer.done) {
      if (answer.stopped) stopped(answer);
      if (answer.number >= outstanding && !waiting) busy(false);
    }
    else show(answer);
    if (answer.number >= outstanding) { outstanding = 0; dispatch(); }
  }

  /** An answer that was ended before it was complete: the picture stays, and a line says so. */
  function stopped(answer) {
    const section = $(`#view-${view}`), line = document.createElement("li");
    line.textContent = answer.stopped === "stopped" ? "stopped: the picture is the best one so far" : answer.stopped;
    if (answer.number >= outstanding && waiting === null) $(".messages", section).append(line);
  }

  function complain(answer) {
    busy(false);
    $("#error").textContent = answer.error;
    $("#error").hidden = false;
    if (!answered) { answered = true; ask(document.body.dataset.start); keepError = true; }
  }
  let keepError = false;

  function show(answer) {
    answered = true;
    if (!keepError) $("#error").hidden = true;
    keepError = false;
    select(answer.fields.view);
    const active = document.activeElement;
    for (const f of fields) {
      const value = answer.fields[f.dataset.field];
      if (f !== active && (waiting === null || f !== moved)) f.value = value;
    }
    slide();
    if (!fromPoints) setPoints(answer.fields.points);
    history.replaceState(null, "", answer.query ? "?" + answer.query : location.pathname);
    const section = $(`#view-${view}`);
    section.dataset.milliseconds = answer.milliseconds;
    section.dataset.number = answer.number;
    $(".sentence", section).textContent = answer.sentence;
    $(".code", section).textContent = answer.code;
    list($(".messages", section), answer.messages);
    $(".values tbody", section).replaceChildren(...answer.values.map(row));
    $("#milliseconds").textContent = `the last answer took it ${Math.round(answer.milliseconds)} ms to compute.`;
    $("#drawn").hidden = answer.fields.source !== "file";
    if (answer.milliseconds > 120) busy(true, "refining");
    else if (answer.number >= outstanding && waiting === null) { clearTimeout(busyTimer); busyTimer = setTimeout(() => busy(true, "refining"), 250); }
    hideEmpty(section);
    fit();
    clearTimeout(settle.timer);
    settle.timer = setTimeout(settle, 80, section);
  }

  /** Lay the figures out again: one that was hidden, or whose labels have grown, would keep an old frame. */
  function settle(section) {
    for (const place of $$(".figure:not([hidden])", section))
      Bokeh.index.find_one(doc.get_model_by_name(place.className.match(/figure-(\w+)/)[1]))?.invalidate_layout();
  }

  const row = value => {
    const line = document.createElement("tr"), name = document.createElement("th"), cell = document.createElement("td");
    name.scope = "row";
    name.textContent = value.name;
    cell.textContent = value.text;
    cell.dataset.number = value.number;
    line.append(name, cell);
    return line;
  };

  function list(node, texts) {
    node.replaceChildren(...texts.map(text => Object.assign(document.createElement("li"), { textContent: text })));
  }

  /** Places of figures that are not shown take no room. */
  function hideEmpty(section) {
    for (const place of $$(".figure", section)) {
      const model = doc.get_model_by_name(place.className.match(/figure-(\w+)/)[1]);
      place.hidden = !model.visible;
    }
  }

  // ------------------------------------------------------------ controls

  function slide() {  // sliders follow their fields
    for (const slider of $$("[data-slides]")) {
      const stops = slider.dataset.stops.split(" "), text = field(slider.dataset.slides).value;
      const value = Number(text.replace("inf", "Infinity").split(",")[0]);
      if (slider !== document.activeElement || slider !== moved) {
        const distance = stops.map(stop => Math.abs(scaled(stop) - scaled(String(value))));
        slider.value = distance.indexOf(Math.min(...distance.filter(d => !isNaN(d))));
      }
      slider.setAttribute("aria-valuetext", text.replace("inf", "infinite"));
    }
    drawNetwork();
  }

  const scaled = text => {  // zero and infinity stand at the ends
    const value = Number(text.replace("inf", "Infinity"));
    return value === 0 ? -30 : value === Infinity ? 30 : Math.log(value);
  };

  function select(name) {
    view = name;
    for (const tab of $$("[role=tab]")) {
      const on = tab.dataset.view === name;
      tab.setAttribute("aria-selected", on);
      tab.tabIndex = on ? 0 : -1;
      $(`#view-${tab.dataset.view}`).hidden = !on;
    }
    for (const control of $$(".control")) control.hidden = !control.dataset.views.split(" ").includes(name);
  }

  $$("[data-slides]").forEach(slider => slider.addEventListener("input", () => {
    const target = field(slider.dataset.slides);
    target.value = slider.dataset.stops.split(" ")[slider.value];
    slider.setAttribute("aria-valuetext", target.value.replace("inf", "infinite"));
    moved = slider;
    drawNetwork();
    ask();
  }));
  fields.forEach(f => f.addEventListener("change", () => { moved = f; fromPoints = false; slide(); ask(); }));
  $("#controls").addEventListener("submit", event => event.preventDefault());
  const tabs = $$("[role=tab]");
  tabs.forEach((tab, index) => {
    tab.addEventListener("click", () => { select(tab.dataset.view); ask(); });
    tab.addEventListener("keydown", event => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(index + step + tabs.length) % tabs.length];
      next.focus();
      next.click();
    });
  });
  $("#preset").addEventListener("change", event => {
    const option = event.target.selectedOptions[0];
    $("#story").textContent = option.dataset.story;
    $("#story").hidden = false;
    moved = null; fromPoints = false;
    ask(option.value);
  });

  // ------------------------------------------------------------ the drawing of the network

  const svg = (name, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };

  /** Layers as columns of at most six units; deep networks show the first and the last ones. */
  function drawNetwork() {
    const whole = text => text.split(",").map(Number).filter(n => Number.isInteger(n) && n > 0);
    const depth = Number(field("depth").value), given = whole(field("widths").value);
    if (!(depth >= 1 && depth <= 20) || !given.length) return;
    const hidden = Array.from({ length: depth - 1 }, (_, i) => given[Math.min(i, given.length - 1)]);
    const on = view === "function";
    const sizes = [on ? "x" : field("inputs").value, ...hidden, on ? 1 : Number(field("outputs").value) || 1];
    const shown = sizes.length <= 8 ? sizes.map((_, i) => i) : [0, 1, 2, 3, -1, sizes.length - 3, sizes.length - 2, sizes.length - 1];
    const places = shown.map((index, column) => {
      const x = 20 + 260 * column / Math.max(1, shown.length - 1);
      if (index < 0) return { x, dots: true, units: [] };
      const size = Number(sizes[index]) || 6, count = Math.min(6, size);
      const units = Array.from({ length: count }, (_, i) => 52 + (i - (count - 1) / 2) * 15);
      return { x, units, label: String(sizes[index]), more: size > 6, hidden: index > 0 && index < sizes.length - 1 };
    });
    const parts = [];
    for (let i = 1; i < places.length; i++)
      for (const a of places[i - 1].units) for (const b of places[i].units)
        parts.push(svg("line", { x1: places[i - 1].x, y1: a, x2: places[i].x, y2: b, class: "edge" }));
    for (const place of places) {
      if (place.dots) parts.push(Object.assign(svg("text", { x: place.x, y: 56, "text-anchor": "middle" }), { textContent: "…" }));
      for (const y of place.units) parts.push(svg("circle", { cx: place.x, cy: y, r: 4.5, class: place.hidden ? "unit hidden-unit" : "unit" }));
      if (place.more) parts.push(Object.assign(svg("text", { x: place.x, y: 104, "text-anchor": "middle" }), { textContent: "⋮" }));
      if (place.label) parts.push(Object.assign(svg("text", { x: place.x, y: 117, "text-anchor": "middle" }), { textContent: place.label }));
    }
    $("#network").replaceChildren(...parts);
    $("#network-words").textContent = `${depth} weight ${depth === 1 ? "matrix" : "matrices"}: ${sizes.join(" → ")}`;
  }

  // ------------------------------------------------------------ the guided tour

  const steps = JSON.parse($("#tour").dataset.steps);
  let step = -1;

  function goTo(next) {
    step = Math.max(0, Math.min(steps.length - 1, next));
    const { title, words, control, state } = steps[step];
    $("#tour").hidden = false;
    $("#tour-title").textContent = `${step + 1} of ${steps.length}: ${title}`;
    $("#tour-words").textContent = words;
    $("#tour-back").disabled = step === 0;
    $("#tour-next").hidden = step === steps.length - 1;
    $("#tour").dataset.step = step;
    moved = null; fromPoints = false;
    prefill(state);
    ask(state);
    $$(".pointed").forEach(node => node.classList.remove("pointed"));
    const target = field(control)?.closest(".control, .row");
    target?.classList.add("pointed");
    if (target && innerWidth < 960) target.scrollIntoView({ block: "nearest" });
  }
  function endTour() {
    $("#tour").hidden = true;
    $$(".pointed").forEach(node => node.classList.remove("pointed"));
    $("#guide").focus();
  }
  $("#guide").addEventListener("click", () => { goTo(0); $("#tour-title").focus(); });
  $("#tour-next").addEventListener("click", () => goTo(step + 1));
  $("#tour-back").addEventListener("click", () => goTo(step - 1));
  $("#tour-end").addEventListener("click", endTour);
  $("#tour").addEventListener("keydown", event => { if (event.key === "Escape") endTour(); });

  // ------------------------------------------------------------ points

  let points, setting = false;
  const asText = data => Array.from(data.x, (x, i) =>
    `${Math.round(1000 * Math.min(5, Math.max(-5, x))) / 1000}:${Math.round(1000 * data.y[i]) / 1000}`).join(",");

  function setPoints(text) {
    if (asText(points.data) === text) return;
    const pairs = text.split(",").map(pair => pair.split(":").map(Number));
    setting = true;
    points.data = { x: pairs.map(p => p[0]), y: pairs.map(p => p[1]) };
    setting = false;
  }

  function pointsMoved() {
    if (setting) return;
    const text = asText(points.data);
    if (text === field("points").value) return;
    if (!points.data.x.length) { setPoints(field("points").value); return; }
    field("points").value = text;
    fromPoints = true;
    ask();
    clearTimeout(pointsMoved.timer);
    pointsMoved.timer = setTimeout(() => { fromPoints = false; }, 600);
  }

  let held = false;  // a range that moved under a dragged point would carry it away
  addEventListener("pointerdown", () => { held = true; }, true);
  for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => { held = false; setTimeout(fit, 300); }, true);

  function fit() {
    if (held || view !== "function") return;
    const bands = doc.get_model_by_name("bands").data, range = doc.get_model_by_name("band").y_range;
    const all = ["network q5", "network q95", "process q5", "process q95"].flatMap(name => [...bands[name]]).concat([...points.data.y]);
    const low = Math.min(...all), high = Math.max(...all), margin = 0.08 * (high - low) || 1;
    const inside = low >= range.start && high <= range.end, large = high - low > 0.6 * (range.end - range.start);
    if (!inside || !large) range.setv({ start: low - margin, end: high + margin, reset_start: low - margin, reset_end: high + margin });
  }

  $("#fewer").addEventListener("click", () => {
    const rest = field("points").value.split(",").slice(0, -1);
    if (!rest.length) return;
    field("points").value = rest.join(",");
    fromPoints = false; moved = null;
    ask();
  });

  // ------------------------------------------------------------ files in and out

  $("#file").addEventListener("change", async event => {
    const file = event.target.files[0], most = Number(document.body.dataset.largestFile);
    if (!file) return;
    if (file.size > most) { complain({ error: `a picked file may have ${most} bytes, got ${file.size}` }); return; }
    busy(true, "reading");
    send("file", { name: file.name, text: await file.text(), targets: $("#targets").value });
    event.target.value = "";
  });
  function adopt(words) {
    $("#table").textContent = words;
    field("source").value = "file";
    ask();
  }
  $("#drawn").addEventListener("click", () => { field("source").value = "drawn"; ask(); });

  const download = (name, blob) => {
    const anchor = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(anchor.href), 10000);
  };
  const saved = text => { const node = $(`#view-${view} .done`); node.textContent = text; setTimeout(() => { node.textContent = ""; }, 3000); };

  async function saveFigures() {
    for (const place of $$(`#view-${view} .figure:not([hidden])`)) {
      const name = place.className.match(/figure-(\w+)/)[1];
      const blob = await Bokeh.index.find_one(doc.get_model_by_name(name)).export("svg").to_blob();
      download(`lbnn-${name}.svg`, blob);
    }
    saved("saved");
  }

  async function copy(text, words) {
    try { await navigator.clipboard.writeText(text); saved(words); }
    catch { saved("the browser does not allow copying: select the text instead"); $(`#view-${view} details`).open = true; }
  }

  $$("[data-save]").forEach(button => button.addEventListener("click", () => {
    if (button.dataset.save === "svg") saveFigures();
    else if (button.dataset.save === "csv") send("csv", view);
    else copy($(`#view-${view} .code`).textContent, "copied");
  }));
  $("#link").addEventListener("click", () => copy(location.href, "link copied"));

  // ------------------------------------------------------------ light and dark

  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  function paint() {
    const scheme = chosen ?? (dark.matches ? "dark" : "light");
    document.documentElement.dataset.scheme = scheme;
    $("#scheme").textContent = scheme === "dark" ? "Light" : "Dark";
    $("#scheme").setAttribute("aria-pressed", scheme === "dark");
    if (wire) send("scheme", scheme);
  }
  dark.addEventListener("change", paint);
  $("#scheme").addEventListener("click", () => {
    chosen = document.documentElement.dataset.scheme === "dark" ? "light" : "dark";
    paint();
  });
  document.documentElement.dataset.scheme = dark.matches ? "dark" : "light";
  $("#cancel").addEventListener("click", () => send("cancel", ""));

  // ------------------------------------------------------------ the beginning

  function begin() {
    doc = Bokeh.documents[0];
    wire = doc.get_model_by_name("wire");
    points = doc.get_model_by_name("points");
    wire.properties.answered.change.connect(take);
    wire.properties.delivered.change.connect(() => {
      const file = JSON.parse(wire.delivered);
      download(file.name, new Blob([file.text], { type: "text/csv" }));
      saved("saved");
    });
    for (const place of $$(".figure")) {  // a place is there before its figure is painted
      const model = doc.get_model_by_name(place.className.match(/figure-(\w+)/)[1]);
      model.properties.visible.change.connect(() => {
        place.hidden = !model.visible;
        // marks of the first, empty painting go when the canvas gets another size
        if (model.visible) setTimeout(() => { place.style.paddingRight = place.style.paddingRight ? "" : "1px"; }, 250);
      });
      place.hidden = !model.visible;
    }
    points.change.connect(pointsMoved);
    points.properties.data.change.connect(pointsMoved);
    doc.get_model_by_name("phase").on_event("tap", event => { busy(true, "refining the map"); send("refine", [event.x, event.y]); });
    doc.on_event("connection_lost", () => {
      busy(false);
      $("#error").textContent = "The server has gone: start it again and reload the page. The address keeps what you see.";
      $("#error").hidden = false;
    });
    paint();
    $("#cancel").hidden = false;
    ask(location.search.slice(1) || document.body.dataset.start);
  }
  /** Fields and view from the address, before the server has said a word; it checks them later. */
  function prefill(text) {
    const given = new URLSearchParams(text), first = given.get("view");
    for (const f of fields) {
      const value = given.get(f.dataset.field) ?? defaults[f.dataset.field];
      if (value !== undefined) f.value = value;
    }
    if (tabs.some(tab => tab.dataset.view === first)) select(first);
    slide();
  }
  const defaults = JSON.parse(document.body.dataset.defaults);
  prefill(location.search.slice(1) || document.body.dataset.start);
  busy(true, "connecting");
  $("#cancel").hidden = true;
  const wait = setInterval(() => {
    const there = window.Bokeh && Bokeh.documents.length && Bokeh.documents[0].get_model_by_name("wire");
    if (!there || !Bokeh.documents[0].is_idle) return;
    clearInterval(wait);
    begin();
  }, 30);
})();
