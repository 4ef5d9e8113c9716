// SPDX-License-Identifier: Apache-2.0
// browser_check.js -- what only a browser can say about the report: nothing overlaps or leaves its drawing; switches,
// filters, search, sorting, cards, zoom, sliders and keys do what they should. browser_test.c evaluates it in a page:
// its value is "ok", or every fault on a line.
(() => {
  const faults = [], root = document.documentElement;
  const $ = s => document.querySelector(s), $$ = s => [...document.querySelectorAll(s)];
  const box = e => e.getBoundingClientRect(), seen = e => e.getClientRects().length > 0;
  const expect = (ok, what) => { if (!ok) faults.push(what); };
  const sectionOf = e => e.closest("section")?.id, code = e => e.outerHTML.slice(0, 80);
  const type = (e, v, event) => { e.value = v; e.dispatchEvent(new Event(event)); };
  const whole = JSON.parse($("#data").textContent);

  // ---- drawings: texts stay inside and apart
  function texts(svg) {
    const all = [...svg.querySelectorAll("text")].filter(t => seen(t) && t.textContent.trim());
    return all.map(t => ({text: t.textContent, r: box(t)}));
  }
  function drawings(view, within = document) {
    for (const svg of within.querySelectorAll("svg")) {
      if (!seen(svg) || box(svg).width < 30) continue;
      const s = box(svg), where = `${view} ${sectionOf(svg)}`, all = texts(svg);
      for (const {text, r} of all)
        if (r.left < s.left - 1 || r.right > s.right + 1 || r.top < s.top - 2 || r.bottom > s.bottom + 2)
          faults.push(`${where}: "${text}" leaves its drawing`);
      all.forEach((a, i) => all.slice(i + 1).forEach(b => {
        const w = Math.min(a.r.right, b.r.right) - Math.max(a.r.left, b.r.left);
        const h = Math.min(a.r.bottom, b.r.bottom) - Math.max(a.r.top, b.r.top);
        if (w > 1.5 && h > 3.2) faults.push(`${where}: "${a.text}" overlaps "${b.text}"`);
      }));
    }
    expect(root.scrollWidth <= innerWidth, `${view}: page is ${root.scrollWidth} px wide in a window of ${innerWidth}`);
  }
  drawings("first view");

  // ---- every section has what the rail promises: numbers, or a frame that says how to get them
  for (const a of $$("nav a")) {
    const section = $(a.getAttribute("href")), empty = a.classList.contains("nodata");
    const frame = /no data yet/.test(section?.querySelector("h2")?.textContent);
    const full = section?.querySelector("td, .find, .grid2, select");
    expect(section && (empty ? frame && !section.querySelector("td") : full), `section ${a.textContent}`);
  }
  // ---- sections: at most 20, numbered once, as the rail has them; links by number agree
  const numbers = $$("main > section .no b").map(e => e.textContent);
  if (numbers.length) {
    expect(numbers.length < 20 && numbers.every((n, i) => +n === i + 2), `sections ${numbers}`);
    expect($$("nav a span").map(e => e.textContent).join() === ["1", ...numbers].join(), "the rail's numbers");
    for (const a of $$("main a").filter(x => /^section/.test(x.textContent)))
      expect(a.textContent.endsWith($(a.hash)?.closest("section").querySelector(".no b").textContent), `link ${a.hash}`);
    if (innerWidth >= 1180)
      for (const a of $$("nav a").filter(x => x.scrollWidth > x.clientWidth + 1 || box(x).height > 2.2 * box($("nav span")).height))
        faults.push(`the rail cuts or breaks '${a.textContent}'`);
    // tables: whole on a laptop; on a telephone the columns that matter
    const inside = e => box(e).right <= innerWidth && box(e).left >= 0;
    if (innerWidth >= 1280)
      for (const t of $$("main article .scroll:not(#raw-view)").filter(x => seen(x) && !x.closest("details")))
        expect(t.scrollWidth <= t.clientWidth + 1, `${t.getAttribute("aria-label")} is cut: ${t.scrollWidth} px`);
    // cards of the first screen: what they have fills them
    const filled = list => [...list.children].reduce((h, e) => h + box(e).height, 0) / box(list).height;
    if (innerWidth >= 1280)
      for (const list of $$(".fcard .lrs, .fcard .fx").filter(l => l.children.length > 3)) {
        const part = filled(list), name = list.closest(".fcard").querySelector(".eyebrow").textContent;
        expect(part > .7, `card '${name}' is ${Math.round(100 * part)} % full`);
      }
    for (const cell of $$(".matrix td, .matrix th").filter(seen))
      expect(cell.scrollWidth <= cell.clientWidth + 1, `a cell is cut: ${cell.textContent} of ${cell.dataset.m}`);
    for (const card of $$(".fcard")) expect(card.scrollWidth <= card.clientWidth + 1, `a card is cut: ${code(card)}`);
    if (innerWidth >= 360 && innerWidth <= 390) {
      const columns = $$("#kt thead th").filter(t => seen(t) && inside(t)).map(t => t.textContent);
      const wanted = ["ms per step", "% of floor", ...$("#kt.behind") ? ["× before"] : []];
      expect(wanted.every(c => columns.includes(c)), `explorer on a telephone: ${columns}`);
      expect($$("#claims .chip").filter(seen).every(inside), "verdicts on a telephone");
    }
  }
  for (const svg of $$(".plot svg").filter(s => seen(s) && !/no data yet/.test(s.textContent)))
    expect(svg.querySelector("[data-t]") && svg.getAttribute("aria-label"), `an empty drawing in ${sectionOf(svg)}`);

  // ---- switches: each shows exactly its view, and the page of every run is without overlap
  for (const seg of $$(".seg[data-for]:not([data-key])").filter(seen)) {
    const host = document.getElementById(seg.dataset.for), buttons = [...seg.querySelectorAll("button")];
    for (const b of [...buttons.slice(1), buttons[0]]) {
      b.click();
      const shown = [...host.querySelectorAll("div[data-view]")].filter(v => !v.hidden);
      expect(shown.length === 1 && shown[0].dataset.view === b.value && b.getAttribute("aria-pressed") === "true",
             `switch ${seg.dataset.for}: ${b.textContent}`);
      drawings(b.textContent, host);
    }
  }
  const runs = $(".seg[data-key=run]");
  for (const b of runs ? [...runs.querySelectorAll("button")].reverse() : []) {
    b.click();
    expect($$("[data-run]").every(v => v.hidden === (v.dataset.run !== b.value)), `run ${b.textContent}`);
    drawings(b.textContent);
  }

  // ---- explorer: search, class, sort, card
  const rows = () => $$("#kt tr.row").filter(r => !r.hidden), search = $("#ksearch"), cls = $("#kclass");
  const all = rows().length;
  if (all) {
    type(search, "no kernel has this name", "input");
    expect(rows().length === 0 && $("#kcount").textContent.startsWith("0 of"), "search for nothing");
    type(search, "", "input");
    type(cls, "ssm", "change");
    expect(rows().length < all && rows().every(r => r.dataset.tags === "ssm"), "filter by class");
    type(cls, "all", "change");
    expect(rows().length === all, "filters are undone");
    const ms = $$("#kt thead th").findIndex(t => t.textContent === "ms per step");
    for (const sign of [1, -1]) {
      $$("#kt thead button")[ms].click();
      const v = rows().map(r => +r.cells[ms].dataset.v);
      expect(v.every((x, i) => !i || sign * (v[i - 1] - x) >= 0), `sort ${sign > 0 ? "down" : "up"}`);
    }
    const units = [...$("#explorer").querySelectorAll(".seg button")].find(b => b.textContent === "units");
    if (units) {
      const shown = () => [...rows()[0].cells].filter(seen).map(c => $$("#kt thead th")[c.cellIndex].textContent);
      const before = shown().join();
      units.click();
      const columns = shown();
      expect(columns.includes("tensor pipe, %") && columns.includes("occupancy, %") && !columns.includes("floor set by"),
             `columns of units: ${columns}`);
      expect(root.scrollWidth <= innerWidth, "units are wider than the page");
      units.previousSibling.click();
      expect(shown().join() === before, "columns of time again");
    }
    const open = rows()[0].querySelector("button");
    open.click();
    const card = rows()[0].nextElementSibling, said = card.textContent;
    expect(!card.hidden && said.includes("Floors against") && !/undefined|NaN/.test(said) &&
           open.getAttribute("aria-expanded") === "true", "card opens");
    expect(root.scrollWidth <= innerWidth, "card is wider than the page");
    const {keys, rows: records} = whole.kernels;
    const kernel = Object.fromEntries(keys.map((k, i) => [k, records[+rows()[0].dataset.id][i]]));
    const model = whole.whatif?.models.find(m => m.name === whole.meta.workloads[kernel.run]);
    expect(!model?.ops[kernel.op] || whole.whatif.machines.every(m => said.includes(m)),
           "the card has the operator on every simulated machine");
    for (const row of rows().slice(0, 12)) row.querySelector("button").click();
    const cards = $$("#kt .cardrow").filter(r => !r.hidden).map(r => r.textContent);
    expect(cards.every(t => !/undefined|NaN|null/.test(t)), "cards without holes");
    const plans = records.filter(r => r[keys.indexOf("plan_b")] !== null && r[keys.indexOf("dram")] !== null);
    if (plans.length) {
      const row = $(`#kernel-${plans[0][0]}`);
      if (row.nextElementSibling.hidden) row.querySelector("button").click();
      expect(/plan against measured/.test(row.nextElementSibling.textContent), "plan against measured");
    }
  }

  // ---- roofline filter, timeline zoom, keys, tooltip
  const filter = $("#fig2 .filters button");
  if (filter) {
    const dim = () => $$("#fig2 .dim").length, before = dim();
    filter.click();
    expect(dim() > before, "filter of the roofline");
    filter.click();
    expect(dim() === before, "filter of the roofline undone");
  }
  const zoom = $$(".zoom").find(seen);
  if (zoom) {
    const live = zoom.querySelector("[aria-live]"), before = live.textContent, svg = zoom.querySelector("svg");
    zoom.querySelector("button[aria-label='zoom in']").click();
    expect(live.textContent !== before, "zoom of the timeline");
    const press = key => {
      const was = live.textContent;
      svg.dispatchEvent(new KeyboardEvent("keydown", {key}));
      return live.textContent !== was;
    };
    press("Home");
    expect(live.textContent === before, "Home shows the whole step");
    for (const key of ["+", "ArrowRight", "ArrowLeft", "-"])
      expect(press(key) || key.startsWith("Arrow"), `key ${key} in the timeline`);
    const ends = () => svg.textContent, widest = ends();
    press("+"), press("+");
    const near = ends();
    press("ArrowRight");
    expect(near !== widest && ends() !== near, "arrows move the zoomed timeline");
    for (let i = 0; i < 6; i++) { press("+"); drawings("zoomed", zoom); }
    press("Home");
    expect(live.textContent === before && ends() === widest, "Home undoes keys");
  }
  const walks = $$("svg.walk").filter(seen);
  for (const svg of walks.filter(s => s.querySelectorAll("[data-t]").length > 1).slice(0, 8)) {
    const marks = [...svg.querySelectorAll("[data-t]")], where = sectionOf(svg);
    expect(marks.filter(m => m.tabIndex === 0).length === 1 && marks.every(m => m.getAttribute("aria-label")),
           `marks of ${where}`);
    marks[0].focus();
    marks[0].dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}));
    const tip = $("#tip");
    expect(document.activeElement !== marks[0] && tip.style.display === "block" && tip.textContent.length > 3,
           `keys in ${where}`);
    marks[0].dispatchEvent(new KeyboardEvent("keydown", {key: "Escape", bubbles: true}));
    expect(tip.style.display === "none", `Escape in ${where}`);
  }

  // ---- what-if: every slider changes what is said to what was simulated there, and the button undoes it
  const said = $("#wi-out");
  if (said) {
    const data = whole.whatif, inputs = [...$("#wi").querySelectorAll("input[type=range]")], first = said.textContent;
    const place = v => v.reduce((n, x, k) => n * data.sliders[k].values.length + x, 0);
    const at = v => data.models[$("#wi-model").value].grid[place(v)];
    const shown = x => Number(x.toPrecision(3)).toLocaleString("en", {maximumSignificantDigits: 3});
    expect(inputs.length === data.sliders.length, "a slider for each axis");
    for (const [k, input] of inputs.entries())
      for (const end of [input.min, input.max]) {
        type(input, end, "input");
        const p = at(inputs.map(i => +i.value)), where = `slider ${input.id} at ${end}`;
        expect(said.textContent !== first, `${where} changes nothing`);
        expect(p[0] === null || said.textContent.startsWith(`SIMULATED: ${shown(p[0])} ms`),
               `${where}: "${said.textContent}", simulated ${p[0]}`);
        expect(input.closest("label").querySelector("output").textContent === "× " + data.sliders[k].values[end],
               `${where} does not say where it stands`);
        drawings(where, $("#wi"));
      }
    type($("#wi-axis"), "1", "input");
    expect($("#wi-plot svg").getAttribute("aria-label").includes(data.sliders[1].name), "the axis that is drawn");
    $("#wi-reset").click();
    expect(said.textContent === first, "the machine as it is");
    for (const m of data.models.keys()) {
      type($("#wi-model"), m, "input");
      drawings(`what-if of ${data.models[m].name}`, $("#wi"));
      type($("#wi-part"), "1", "input");
      const ms = at(inputs.map(i => +i.value))[data.bounds.length + 1];
      expect(said.textContent.startsWith(`SIMULATED: ${shown(ms)} ms of SSM operators`),
             `SSM operators of ${data.models[m].name} alone: "${said.textContent}", simulated ${ms}`);
      drawings(`what-if of the SSM operators of ${data.models[m].name}`, $("#wi"));
      type($("#wi-part"), "0", "input");
    }
  }

  // ---- keyboard: whatever can be clicked can be reached by Tab; marks of a drawing by arrows from its one stop
  const CONTROLS = "button, select, input, summary, a[href], [role=region], [role=application]";
  for (const e of $$(CONTROLS).filter(e => seen(e) && (e.tabIndex < 0 || e.disabled))) faults.push(`Tab does not reach ${code(e)}`);
  for (const svg of walks.filter(s => s.querySelector("[data-t]")))
    expect(svg.querySelectorAll("[data-t][tabindex='0']").length === 1, `stops of ${sectionOf(svg)}`);

  // ---- names, theme
  const nameOf = e => e.getAttribute("aria-label") || [...e.labels || []].map(l => l.textContent).join(" ") ||
                      (e.matches("select, input") ? "" : e.textContent);
  for (const e of $$(CONTROLS + ", [role=group], [role=img]").filter(e => !nameOf(e).trim())) faults.push(`no name: ${code(e)}`);
  const paper = () => getComputedStyle(document.body).backgroundColor, colours = new Set();
  for (let i = 0; i < 3; i++) { $("#theme").click(); colours.add(paper()); }
  expect(colours.size === 2, "light and dark differ");

  // ---- contrast of every text with what is behind it, in both themes; a window's width changes no colour: not on all
  const rgb = c => c.match(/[\d.]+/g).map(Number), linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const shine = c => { const [r, g, b] = c.map(v => linear(v / 255)); return .2126 * r + .7152 * g + .0722 * b; };
  let known;                                                         // of the theme: elements, and what is behind them
  const behind = e => {
    if (!e) return "rgb(255, 255, 255)";
    if (!known.has(e)) {
      const c = getComputedStyle(e).backgroundColor, [, , , alpha = 1] = rgb(c);
      known.set(e, alpha > .99 ? c : behind(e.parentElement));
    }
    return known.get(e);
  };
  const contrasts = {};                                              // a page has few pairs of colours and thousands of texts
  const contrast = (ink, paper) => contrasts[ink + paper] ??= (() => {
    const [a, b] = [ink, paper].map(c => shine(rgb(c).slice(0, 3))).sort((x, y) => y - x);
    return (a + .05) / (b + .05);
  })();
  const hasText = e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  const isPlain = e => hasText(e) && seen(e) && !e.closest(".legend b, .inv, .inv2");
  const written = [320, 600, 768, 1024, 1920, 3840].includes(innerWidth) ? [] : $$("main *, nav *, header *").filter(isPlain);
  for (const theme of ["light", "dark"]) {
    root.dataset.theme = theme;
    known = new Map();
    for (const e of written) {
      const style = getComputedStyle(e), svg = e.closest("svg"), c = contrast(svg ? style.fill : style.color, behind(svg || e));
      if (!(c >= 4.5)) faults.push(`${theme}: "${e.textContent.slice(0, 20)}" (${code(e)}) has a contrast of ${c.toFixed(1)}`);
    }
  }

  // ---- print, asked for in the dark: white paper, dark ink, no controls, no drawing cut or broken
  const isPrint = r => r instanceof CSSMediaRule && r.media.mediaText === "print";
  const rules = [...document.styleSheets].flatMap(s => [...s.cssRules]).filter(isPrint);
  expect(rules.length === 1, "rules of print");
  for (const r of rules) r.media.mediaText = "all";
  const ink = shine(rgb(getComputedStyle(document.body).color).slice(0, 3));
  expect(paper() === "rgb(255, 255, 255)" && ink < .05, `print on ${paper()}`);
  for (const e of $$("nav, button, select, input, summary, #raw, #tip").filter(x => seen(x) && !x.closest("#kt, .matrix")))
    faults.push(`print has ${code(e)}`);
  for (const svg of $$(".plot svg").filter(seen)) {
    expect(getComputedStyle(svg).breakInside === "avoid", `print breaks a drawing of ${sectionOf(svg)}`);
    expect(innerWidth > 1024 || box(svg).height < 1.3 * innerWidth, `${sectionOf(svg)} is longer than a page`);
  }
  if (innerWidth >= 700) drawings("print");                          // paper is not narrower
  for (const r of rules) r.media.mediaText = "print";
  delete root.dataset.theme;

  // ---- raw data, ids
  expect($("#raw-pick").options.length > 5 && $("#raw-view table")?.rows.length > 0, "raw data");
  const ids = $$("[id]").map(e => e.id);
  for (const id of ids.filter((x, i) => ids.indexOf(x) !== i)) faults.push(`id ${id} twice`);
  return [...new Set(faults)].join("\n") || "ok";
})();
