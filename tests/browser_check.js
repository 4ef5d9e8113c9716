// browser_check.js -- what only a browser can say about the report: nothing overlaps or leaves its drawing, no console message,
// switches, filters, search, sorting, cards, zoom and keys do what they should. browser_test.c appends it to a page and reads
// <pre id=layout>: "ok", or every fault on a line.
(() => {
  const faults = window.pageFaults || [], root = document.documentElement;
  const $ = s => document.querySelector(s), $$ = s => [...document.querySelectorAll(s)];
  const box = e => e.getBoundingClientRect(), expect = (ok, what) => { if (!ok) faults.push(what); };
  function drawings(view, within = document) {
    for (const svg of within.querySelectorAll("svg")) {
      if (!svg.getClientRects().length || box(svg).width < 30) continue;
      const s = box(svg), where = `${view} ${svg.closest("section")?.id}`;
      const texts = [...svg.querySelectorAll("text")].filter(t => t.getClientRects().length && t.textContent.trim()).map(t => ({text: t.textContent, r: box(t)}));
      for (const {text, r} of texts)
        if (r.left < s.left - 1 || r.right > s.right + 1 || r.top < s.top - 2 || r.bottom > s.bottom + 2) faults.push(`${where}: "${text}" leaves its drawing`);
      texts.forEach((a, i) => texts.slice(i + 1).forEach(b => {
        const w = Math.min(a.r.right, b.r.right) - Math.max(a.r.left, b.r.left), h = Math.min(a.r.bottom, b.r.bottom) - Math.max(a.r.top, b.r.top);
        if (w > 1.5 && h > 3.2) faults.push(`${where}: "${a.text}" overlaps "${b.text}"`);
      }));
    }
    expect(root.scrollWidth <= innerWidth, `${view}: page is ${root.scrollWidth} px wide in a window of ${innerWidth}`);
  }
  drawings("first view");

  // every section has what the rail promises: numbers, or a frame that says how to get them
  for (const a of $$("nav a")) {
    const section = $(a.getAttribute("href")), frame = /no data yet/.test(section?.querySelector("h2")?.textContent), empty = a.classList.contains("nodata");
    expect(section && (empty ? frame && !section.querySelector("td") : section.querySelector("td, .find, .grid2, select")), `section ${a.textContent}`);
  }
  for (const svg of $$(".plot svg").filter(s => s.getClientRects().length && !/no data yet/.test(s.textContent)))
    expect(svg.querySelector("[data-t]") && svg.getAttribute("aria-label"), `an empty drawing in ${svg.closest("section")?.id}`);

  // switches: each shows exactly its view, and the page of every run is without overlap
  for (const seg of $$(".seg[data-for]:not([data-key])")) {
    const host = document.getElementById(seg.dataset.for), buttons = [...seg.querySelectorAll("button")];
    if (!seg.getClientRects().length) continue;
    for (const b of [...buttons.slice(1), buttons[0]]) {
      b.click();
      const shown = [...host.querySelectorAll("div[data-view]")].filter(v => !v.hidden);
      expect(shown.length === 1 && shown[0].dataset.view === b.value && b.getAttribute("aria-pressed") === "true", `switch ${seg.dataset.for}: ${b.textContent}`);
      drawings(b.textContent, host);
    }
  }
  const runs = $(".seg[data-key=run]");
  for (const b of runs ? [...runs.querySelectorAll("button")].reverse() : []) {
    b.click();
    expect($$("[data-run]").every(v => v.hidden === (v.dataset.run !== b.value)), `run ${b.textContent}`);
    drawings(b.textContent);
  }

  // explorer: search, class, sort, card
  const rows = () => $$("#kt tr.row").filter(r => !r.hidden), search = $("#ksearch"), cls = $("#kclass");
  const all = rows().length, type = (e, v, event) => { e.value = v; e.dispatchEvent(new Event(event)); };
  if (all) {
    type(search, "no kernel has this name", "input");
    expect(rows().length === 0 && $("#kcount").textContent.startsWith("0 of"), "search for nothing");
    type(search, "", "input");
    type(cls, "ssm", "change");
    expect(rows().length < all && rows().every(r => r.dataset.tags === "ssm"), "filter by class");
    type(cls, "all", "change");
    expect(rows().length === all, "filters are undone");
    const ms = $$("#kt thead th").findIndex(t => t.textContent === "ms per step"), values = () => rows().map(r => +r.cells[ms].dataset.v);
    for (const sign of [1, -1]) {
      $$("#kt thead button")[ms].click();
      const v = values();
      expect(v.every((x, i) => !i || sign * (v[i - 1] - x) >= 0), `sort ${sign > 0 ? "down" : "up"}`);
    }
    const open = rows()[0].querySelector("button");
    open.click();
    const card = rows()[0].nextElementSibling;
    expect(!card.hidden && card.textContent.includes("Floors against") && !/undefined|NaN/.test(card.textContent) && open.getAttribute("aria-expanded") === "true", "card opens");
    expect(root.scrollWidth <= innerWidth, "card is wider than the page");
    const whole = JSON.parse($("#data").textContent), {keys, rows: records} = whole.kernels;
    const kernel = Object.fromEntries(keys.map((k, i) => [k, records[+rows()[0].dataset.id][i]]));
    const known = whole.whatif?.models.find(m => m.name === whole.meta.workloads[kernel.run])?.ops[kernel.op];
    expect(!known || whole.whatif.machines.every(m => card.textContent.includes(m)), "the card has the operator on every simulated machine");
  }

  // roofline filter, timeline zoom, keys, tooltip
  const filter = $("#fig2 .filters button");
  if (filter) {
    const dim = () => $$("#fig2 .dim").length, before = dim();
    filter.click();
    expect(dim() > before, "filter of the roofline");
    filter.click();
    expect(dim() === before, "filter of the roofline undone");
  }
  const zoom = $$(".zoom").find(z => z.getClientRects().length);
  if (zoom) {
    const live = zoom.querySelector("[aria-live]"), before = live.textContent;
    zoom.querySelector("button[aria-label='zoom in']").click();
    expect(live.textContent !== before, "zoom of the timeline");
    const press = key => { const was = live.textContent; zoom.querySelector("svg").dispatchEvent(new KeyboardEvent("keydown", {key})); return live.textContent !== was; };
    press("Home");
    expect(live.textContent === before, "Home shows the whole step");
    for (const key of ["+", "ArrowRight", "ArrowLeft", "-"]) expect(press(key) || key.startsWith("Arrow"), `key ${key} in the timeline`);
    const ends = () => zoom.querySelector("svg").textContent, whole = ends();
    press("+"), press("+");
    const near = ends();
    press("ArrowRight");
    expect(near !== whole && ends() !== near, "arrows move the zoomed timeline");
    press("Home");
    expect(live.textContent === before && ends() === whole, "Home undoes keys");
  }
  for (const svg of $$("svg.walk").filter(s => s.getClientRects().length && s.querySelectorAll("[data-t]").length > 1).slice(0, 8)) {
    const marks = [...svg.querySelectorAll("[data-t]")];
    expect(marks.filter(m => m.tabIndex === 0).length === 1 && marks.every(m => m.getAttribute("aria-label")), `marks of ${svg.closest("section")?.id}`);
    marks[0].focus();
    marks[0].dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}));
    expect(document.activeElement !== marks[0] && $("#tip").style.display === "block" && $("#tip").textContent.length > 3, `keys in ${svg.closest("section")?.id}`);
  }

  // what-if: every slider changes what is said to what was simulated there, and the button undoes it
  const said = $("#wi-out");
  if (said) {
    const data = JSON.parse($("#data").textContent).whatif, inputs = [...$("#wi").querySelectorAll("input[type=range]")];
    const first = said.textContent, at = v => data.models[$("#wi-model").value].grid[v.reduce((n, x, k) => n * data.sliders[k].values.length + x, 0)];
    const shown = x => Number(x.toPrecision(3)).toLocaleString("en", {maximumSignificantDigits: 3});
    expect(inputs.length === data.sliders.length, "a slider for each axis");
    for (const [k, input] of inputs.entries())
      for (const end of [input.min, input.max]) {
        type(input, end, "input");
        const p = at(inputs.map(i => +i.value));
        expect(said.textContent !== first, `slider ${input.id} at ${end} changes nothing`);
        expect(p[0] === null || said.textContent.startsWith(`SIMULATED: ${shown(p[0])} ms`), `slider ${input.id}: "${said.textContent}", simulated ${p[0]}`);
        expect(input.closest("label").querySelector("output").textContent === "× " + data.sliders[k].values[end], `slider ${input.id} does not say where it stands`);
        drawings(`${input.id} at ${end}`, $("#wi"));
      }
    type($("#wi-axis"), "1", "input");
    expect($("#wi-plot svg").getAttribute("aria-label").includes(data.sliders[1].name), "the axis that is drawn");
    $("#wi-reset").click();
    expect(said.textContent === first, "the machine as it is");
    for (const m of data.models.keys()) { type($("#wi-model"), m, "input"); drawings(`what-if of ${data.models[m].name}`, $("#wi")); }
  }

  // keyboard: whatever can be clicked can be reached by Tab; marks of a drawing by arrows from its one stop
  for (const e of $$("button, select, input, summary, a[href], [role=region], [role=application]").filter(x => x.getClientRects().length))
    expect(e.tabIndex >= 0 && !e.disabled, `Tab does not reach ${e.outerHTML.slice(0, 80)}`);
  for (const svg of $$("svg.walk").filter(s => s.getClientRects().length && s.querySelector("[data-t]")))
    expect(svg.querySelectorAll("[data-t][tabindex='0']").length === 1, `stops of ${svg.closest("section")?.id}`);

  // names, theme, raw data
  const nameOf = e => e.getAttribute("aria-label") || [...e.labels || []].map(l => l.textContent).join(" ") || (e.matches("select, input") ? "" : e.textContent);
  for (const e of $$("button, select, input, summary, a[href], [role=region], [role=application], [role=group], [role=img]"))
    expect(nameOf(e).trim(), `a control without a name: ${e.outerHTML.slice(0, 80)}`);
  const paper = () => getComputedStyle(document.body).backgroundColor, colours = new Set();
  for (let i = 0; i < 3; i++) { $("#theme").click(); colours.add(paper()); }
  expect(colours.size === 2, "light and dark differ");

  // contrast of every text with what is behind it, in both themes; marks of legends have the colours of the drawing
  const rgb = c => c.match(/[\d.]+/g).map(Number), shine = c => { const f = c.map(v => v / 255 <= .03928 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4); return .2126 * f[0] + .7152 * f[1] + .0722 * f[2]; };
  const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > .99) return c.slice(0, 3); } return [255, 255, 255]; };
  const written = $$("main *, nav *, header *").filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) && e.getClientRects().length && !e.closest(".legend b, .inv, .inv2"));
  for (const theme of ["light", "dark"]) {
    root.dataset.theme = theme;
    for (const e of written) {
      const style = getComputedStyle(e), svg = e.closest("svg"), two = [shine(rgb(svg ? style.fill : style.color).slice(0, 3)), shine(behind(svg || e))].sort((x, y) => y - x);
      expect((two[0] + .05) / (two[1] + .05) >= 4.5, `${theme}: "${e.textContent.slice(0, 20)}" (${e.tagName} ${e.getAttribute("class") || ""}) has a contrast of ${((two[0] + .05) / (two[1] + .05)).toFixed(1)}`);
    }
  }

  // print, asked for in the dark: its rules as those of the screen. White paper, dark ink, no controls, no drawing cut or broken
  const rules = [...document.styleSheets].flatMap(s => [...s.cssRules]).filter(r => r instanceof CSSMediaRule && r.media.mediaText === "print");
  expect(rules.length === 1, "rules of print");
  for (const r of rules) r.media.mediaText = "all";
  expect(paper() === "rgb(255, 255, 255)" && shine(rgb(getComputedStyle(document.body).color).slice(0, 3)) < .05, `print on ${paper()}`);
  for (const e of $$("nav, button, select, input, summary, #raw, #tip").filter(x => x.getClientRects().length && !x.closest("#kt"))) faults.push(`print has ${e.outerHTML.slice(0, 60)}`);
  for (const svg of $$(".plot svg").filter(s => s.getClientRects().length)) {
    expect(getComputedStyle(svg).breakInside === "avoid", `print breaks a drawing of ${svg.closest("section")?.id}`);
    expect(innerWidth > 1024 || box(svg).height < 1.3 * innerWidth, `a drawing of ${svg.closest("section")?.id} is longer than a page`);
  }
  if (innerWidth >= 700) drawings("print");                          // paper is not narrower
  for (const r of rules) r.media.mediaText = "print";
  delete root.dataset.theme;
  expect($("#raw-pick").options.length > 5 && $("#raw-view table")?.rows.length > 0, "raw data");
  const ids = $$("[id]").map(e => e.id);
  for (const id of ids.filter((x, i) => ids.indexOf(x) !== i)) faults.push(`id ${id} twice`);
  document.body.append(Object.assign(document.createElement("pre"), {id: "layout", textContent: [...new Set(faults)].join("\n") || "ok"}));
})();
