// SPDX-License-Identifier: Apache-2.0
// report.js -- interaction only. Every figure is complete without it; only the zoom of the timeline and cards are made
// here.
"use strict";
(() => {
const $ = (sel, root = document) => root.querySelector(sel);
const $$ = (sel, root = document) => [...root.querySelectorAll(sel)];
const DATA = JSON.parse($("#data").textContent);
const fmt = (x, n = 3) =>
  x == null ? "–" : Number(x.toPrecision(n)).toLocaleString("en", {maximumSignificantDigits: n});

// Records of kernels come as keys and rows; null is "not measured" and leaves no property.
const {keys, rows: records, stalls: reasons, remedies} = DATA.kernels;
DATA.kernels = records.map(row => {
  const k = Object.fromEntries(keys.map((name, i) => [name, row[i]]).filter(([, v]) => v !== null));
  k.stalls = k.stalls.map(([i, v]) => [reasons[i], v]);
  return k;
});

// Starts of events come as differences.
for (const {events} of DATA.events)
  for (let i = 5; i < events.length; i += 5) events[i] += events[i - 5];

// ---- theme: system by default, the button cycles and remembers -----------------------------------------------------
const theme = $("#theme");
function setTheme(t) {
  if (t === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = t;
  theme.textContent = "theme: " + t;
  try { localStorage.setItem("mba-theme", t); } catch { /* private mode or file:// without storage */ }
}
let saved = "auto";
try { saved = localStorage.getItem("mba-theme") || "auto"; } catch { /* same */ }
setTheme(/[#&]theme=(dark|light)/.exec(location.hash)?.[1] || saved);
theme.onclick = () => setTheme({auto: "dark", dark: "light", light: "auto"}[theme.textContent.slice(7)]);

// ---- tooltip: pointer and keyboard; first line bold ----------------------------------------------------------------
const tip = $("#tip");
const tipText = el => el.tip ?? DATA.tips[el.dataset.t];
const marked = t => t.tip ? t : t.closest?.("[data-t]");
function showTip(el, x, y) {
  const [head, ...rest] = tipText(el).split("|");
  tip.replaceChildren(Object.assign(document.createElement("b"), {textContent: head}),
                      rest.length ? "\n" + rest.join("\n") : "");
  tip.style.display = "block";
  const w = tip.offsetWidth, h = tip.offsetHeight;
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - w - 4)) + "px";
  tip.style.top = (y + 18 + h > innerHeight ? Math.max(4, y - h - 12) : y + 18) + "px";
}
const hideTip = () => { tip.style.display = "none"; };
document.addEventListener("pointermove", e => {
  const el = marked(e.target);
  if (el) showTip(el, e.clientX, e.clientY); else hideTip();
});
document.addEventListener("focusin", e => {
  const el = e.target.closest?.("[data-t]");
  if (!el) return hideTip();
  const r = el.getBoundingClientRect();
  showTip(el, r.left + r.width / 2, r.bottom);
});
document.addEventListener("focusout", hideTip);
document.addEventListener("scroll", hideTip, {passive: true});

// ---- marks: one tab stop per drawing, arrow keys walk the marks ----------------------------------------------------
const visible = m => !m.classList.contains("dim") && m.getClientRects().length > 0;
for (const svg of $$("svg.walk")) {
  const marks = $$("[data-t]", svg);
  marks.forEach((m, i) => {
    m.setAttribute("tabindex", i ? -1 : 0);
    m.setAttribute("role", "img");
    m.setAttribute("aria-label", tipText(m).replaceAll("|", ", "));
  });
  svg.addEventListener("keydown", e => {
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[e.key];
    const live = marks.filter(visible), at = live.indexOf(document.activeElement);
    if (e.key === "Escape") return hideTip();
    if (!step || at < 0) return;
    e.preventDefault();
    live[(at + step + live.length) % live.length].focus();
  });
}

// ---- view switches: <div class=seg data-for=ID> shows [data-view=..] inside #ID; data-key=run: of the whole page ----
for (const seg of $$(".seg[data-for]")) {
  const host = document.getElementById(seg.dataset.for), key = seg.dataset.key || "view";
  const twins = seg.dataset.key ? $$(`.seg[data-key=${key}]`) : [seg];
  const pick = name => {
    for (const s of twins) for (const b of $$("button", s)) b.setAttribute("aria-pressed", b.value === name);
    for (const v of $$(`[data-${key}]`, host)) v.hidden = v.dataset[key] !== name;
    document.dispatchEvent(new CustomEvent("pick-" + key, {detail: name}));
  };
  seg.onclick = e => { if (e.target.value) pick(e.target.value); };
}

// ---- filters: pressed buttons keep their marks, the others fade; made from the tags of the marks -------------------
for (const plot of $$("#fig2 .plot")) {
  const tags = [...new Set($$("[data-tags]", plot).flatMap(m => m.dataset.tags.split(" ")))].sort();
  const box = Object.assign(document.createElement("div"), {className: "ctl filters"});
  const nameOf = t => DATA.meta.kinds[DATA.meta.paint.indexOf(t.replace(/^k-/, ""))] ??
                      {dram: "DRAM", l2: "L2", l1: "L1"}[t];
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "filter marks");
  box.append(Object.assign(document.createElement("span"), {className: "lab", textContent: "keep"}));
  for (const t of tags) {
    const b = Object.assign(document.createElement("button"), {value: t, textContent: nameOf(t)});
    b.setAttribute("aria-pressed", "true");
    box.append(b);
  }
  box.onclick = e => {
    if (!e.target.value) return;
    e.target.setAttribute("aria-pressed", e.target.getAttribute("aria-pressed") !== "true");
    const off = $$("button[aria-pressed=false]", box).map(b => b.value);
    for (const m of $$("[data-tags]", plot))
      m.classList.toggle("dim", m.dataset.tags.split(" ").some(t => off.includes(t)));
  };
  plot.before(box);
}

// ---- kernel card, built when its row opens -------------------------------------------------------------------------
// `was`: the same of the baseline, as a tick
const bar = ([name, p, text, color, was]) => `<b>${name}</b><i class="c-${color}" style="--p:${p}` +
  `${was >= 0 ? `;--w:${was}` : ""}"></i><s>${text}</s>`;
const bars = rows => `<div class="hb">${rows.map(bar).join("")}</div>`;
const esc = t => String(t).replace(/[&<>"]/g, c => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})[c]);
const known = v => v !== null && v !== undefined;
const MB = b => known(b) ? fmt(b / 1e6) + " MB" : "–", G = f => known(f) ? fmt(f / 1e9) : "–";
const FLOORS = [["bytes / DRAM", "memory"], ["tensor", "tensor"], ["vector", "vector"], ["special func.", "sfu"]];
const UNITS = [["DRAM", "memory"], ["L1/shared path", "mixed"], ["tensor pipe", "tensor"], ["FMA pipe", "vector"],
               ["ALU pipe", "vector"], ["special func.", "sfu"], ["issue slots", "mem"]];

// What the simulator says of the operator this kernel belongs to, all its launches, on every machine.
function simulated(k) {
  const m = DATA.whatif?.models.find(x => x.name === DATA.meta.workloads[k.run]), ms = m?.ops[k.op];
  return ms && `${k.op}: ` + DATA.whatif.machines.map((n, i) => `${n} ${fmt(ms[i])}`).join(", ");
}

// The plan of a launch beside what counters saw of it: tensor FLOPs of our kernels, operands once against DRAM bytes.
function planned(k) {
  const said = (what, plan, seen, word) =>
    known(plan) && known(seen) && `${what} ${plan} planned, ${seen} counted${word ? ` (${word})` : ""}`;
  return [k.plan_tf > 0 && said("tensor", G(k.plan_tf) + " GFLOP", G(k.tf), k.plan_tf_said),
          known(k.plan_b) && said("DRAM", MB(k.plan_b), MB(k.dram), k.plan_bytes_said)].filter(Boolean).join("; ");
}

function lifetime(k) {
  return [known(k.life) && fmt(k.life) + " µs mean",
          known(k.life_median) && `records: median ${fmt(k.life_median)}, p95 ${fmt(k.life_p95)} µs`,
          known(k.prologue) && `prologue ${fmt(k.prologue)} %, epilogue ${fmt(k.epilogue)} %`]
    .filter(Boolean).join("; ");
}

// [name, value, over the whole width]
const facts = k => [
  ["operator", [k.op, k.phase].filter(Boolean).join(", ")],
  ["per step", `${fmt(k.n)} launches, ${fmt(k.ms)} ms`],
  ["p10 – p90", `${fmt(k.p10)} – ${fmt(k.p90)} µs`],
  ["gap before", fmt(k.gap) + " µs"],
  ["grid × block", known(k.grid[0]) && `${k.grid.join("×")} × ${k.threads}`],
  ["waves", known(k.waves) && fmt(k.waves)],
  ["registers / thread", k.regs],
  ["shared / block", known(k.smem) && `${fmt(k.smem / 1024)} KiB`],
  ["local / thread", known(k.local) && `${k.local} B`],
  ["occupancy", known(k.occ_max) && `${fmt(k.occ)} % of ${fmt(k.occ_max)} % possible, by ${k.limiter}`],
  ["compulsory, DRAM bytes", `${MB(k.least_b)}, ${MB(k.dram)}${k.dram < k.least_b ? " (L2 served the rest)" : ""}`],
  ["L2, L1 traffic", known(k.l2) && `${MB(k.l2)}, ${MB(k.l1)}`],
  ["hits L1, L2", (known(k.l1_hit) || known(k.l2_hit)) && `${fmt(k.l1_hit)} %, ${fmt(k.l2_hit)} %`],
  ["least GFLOP", `tensor ${G(k.least_tf)}, vector ${G(k.least_vf)}, special ${G(k.least_sf)}`],
  ["executed GFLOP", (known(k.tf) || known(k.lf)) &&
    `tensor ${G(k.tf)}, vector ${G(k.lf)} (2 per instruction, like the least; with adds as 1: ${G(k.vf)}), special ${G(k.sf)}`],
  ["counter run", known(k.us_c) && `${fmt(k.us_c)} µs at ${fmt(k.ghz)} GHz`],
  ["block lifetime", lifetime(k), 1],
  ["plan against measured", planned(k), 1],
  ["simulated, ms a step", simulated(k), 1],
  ["shape", k.shape, 1],
  ["symbol", k.symbol, 1],
].filter(f => f[1] || f[1] === 0);

// What to try, ranked by what it may save of the step; the savings are upper estimates.
function advice(k) {
  if (!k.advice?.length) return "";
  const item = ([n, evidence, kernel, step]) =>
    `<li><b>${esc(remedies[n][0])}</b>: ${esc(evidence)}. Try: ${esc(remedies[n][1])}. ` +
    `Estimated to save ${fmt(kernel)} % of the kernel${known(step) ? `, ${fmt(step)} % of the step` : ""}.</li>`;
  return `<div class="whole"><h4>What to try</h4><ol>${k.advice.map(item).join("")}</ol></div>`;
}

// The lines of source where warps stall, of kernels that were counted instruction by instruction.
function hot(k) {
  if (!k.hot?.length) return "";
  const item = ([place, share, waits]) => `<li><code>${esc(place)}</code>: ${fmt(share)} % of stall samples (${esc(waits.replaceAll("_", " "))})</li>`;
  return `<div class="whole"><h4>Where warps stall</h4><ol>${k.hot.map(item).join("")}</ol></div>`;
}

function card(k) {
  const floors = [...FLOORS.map(([n, c], i) => [n, k.floors[i], c]), ["measured", k.us, "measured"]]
    .filter(f => known(f[1])).map(([n, v, c]) => [n, Math.min(100, 100 * v / k.us), fmt(v) + " µs", c]);
  const units = UNITS.map(([n, c], i) => [n, k.util[i], fmt(k.util[i]), c, k.was_util?.[i] ?? -1])
    .filter(u => known(u[1]));
  const stall = k.stalls.reduce((s, x) => s + x[1], 0);
  const none = what => `<p class="small">Not measured; use ${what}.</p>`;
  const waits = k.stalls.map(([n, v]) => [esc(n.replaceAll("_", " ")), 100 * v / stall, fmt(v), "ssm"]);
  const share = known(k.floor) ? `Floor ${fmt(k.floor)} µs, set by ${esc(k.bound)}: ` +
    `<b>${fmt(100 * k.floor / k.us)} % of floor</b>${k.executed_floor ? ", of executed work" : ""}${k.above ? ": " + esc(k.above) : ""}. ` : "";
  const busiest = k.busy ? `Busiest unit: <b>${esc(k.busy)}</b>, ${fmt(k.busy_pct)} %${k.limit ? `: limited by ${esc(k.limit)}` : ""}.` : "";
  const before = known(k.was_us) ? ` Baseline: <b>${fmt(k.was_us)} µs</b>, now ${fmt(k.us / k.was_us)} times as long.` : "";
  const list = facts(k).map(([a, b, wide]) => `<div${wide ? " class=wide" : ""}><dt>${a}</dt><dd>${esc(b)}</dd></div>`);
  return `<div class="card"><div><h4>Floors against the measured time</h4>${bars(floors)}
    <p class="small">${share}${busiest}${before}</p></div>
    <div><h4>Utilisation, % of peak</h4>${units.length ? bars(units) : none("profile --metric-sets pipes")}</div>
    <div><h4>Stalls, warps per issue</h4>${waits.length ? bars(waits) : none("profile --metric-sets stalls")}</div>
    <div class="whole"><h4>Launch, memory, work</h4><dl>${list.join("")}</dl></div>${advice(k)}${hot(k)}</div>`;
}

// ---- kernel explorer: sort, search, class filter, expand -----------------------------------------------------------
const table = $("#kt");
if (table) {
  const body = table.tBodies[0];
  const rows = $$("tr.row", body).map(row => {
    const card = Object.assign(document.createElement("tr"), {className: "cardrow", hidden: true});
    card.append(Object.assign(document.createElement("td"), {colSpan: table.tHead.rows[0].cells.length}));
    row.after(card);
    return {row, card};
  });
  const search = $("#ksearch"), cls = $("#kclass"), run = $("#krun"), count = $("#kcount");
  const value = (row, col) => {
    const c = row.cells[col];
    return c.dataset.v === undefined ? c.textContent.trim() : +c.dataset.v;
  };
  const open = (r, on) => {
    const cell = r.card.cells[0];
    if (on && !cell.firstChild) cell.innerHTML = card(DATA.kernels.find(k => k.id === +r.row.dataset.id));
    r.card.hidden = !on;
    $("button", r.row).setAttribute("aria-expanded", on);
  };
  const wanted = row => row.textContent.toLowerCase().includes(search.value.toLowerCase()) &&
                        (cls.value === "all" || row.dataset.tags === cls.value) &&
                        (run.value === "all" || row.dataset.r === run.value);
  const filter = () => {
    let n = 0;
    for (const r of rows) {
      const hit = wanted(r.row);
      r.row.hidden = !hit;
      if (!hit) open(r, false);
      n += hit;
    }
    count.textContent = `${n} of ${rows.length} kernels`;
    table.classList.toggle("one", run.value !== "all" || run.options.length < 3);
  };
  search.oninput = cls.onchange = run.onchange = filter;

  // a second set of columns: how busy every unit is, from the records
  const units = [...UNITS.map(([name, color], i) => [name, color, k => k.util[i]]), ["occupancy", "mem", k => k.occ]];
  if (DATA.kernels.some(k => units.some(([, , of]) => known(of(k))))) {
    const head = ([name]) => `<th scope="col" class="n u"><button>${name}, %</button></th>`;
    table.tHead.rows[0].insertAdjacentHTML("beforeend", units.map(head).join(""));
    for (const {row} of rows) {
      const k = DATA.kernels[+row.dataset.id];
      row.insertAdjacentHTML("beforeend", units.map(([, color, of]) => {
        const v = of(k);
        return known(v) ? `<td class="n u" data-v="${v}"><span class="m c-${color}" style="--p:${Math.min(v, 100)}">` +
          `<b>${v.toFixed(v < 10 ? 1 : 0)}</b></span></td>` : '<td class="n u" data-v="-1">–</td>';
      }).join(""));
    }
    const seg = document.createElement("div");
    seg.className = "seg";
    seg.setAttribute("role", "group");
    seg.setAttribute("aria-label", "columns");
    seg.innerHTML = '<button aria-pressed="true">time and floors</button><button aria-pressed="false">units</button>';
    seg.onclick = e => {
      if (e.target.tagName !== "BUTTON") return;
      for (const b of seg.children) b.setAttribute("aria-pressed", b === e.target);
      table.classList.toggle("units", e.target === seg.lastChild);
    };
    count.before(seg);
  }
  document.addEventListener("pick-run", e => { if (run.value !== "all") { run.value = e.detail; filter(); } });
  filter();
  table.tHead.onclick = e => {
    const th = e.target.closest("th");
    if (!th || !e.target.closest("button")) return;
    const up = th.getAttribute("aria-sort") === "descending", col = th.cellIndex;
    for (const h of $$("th", table.tHead)) h.removeAttribute("aria-sort");
    th.setAttribute("aria-sort", up ? "ascending" : "descending");
    rows.sort((a, b) => {
      const x = value(a.row, col), y = value(b.row, col);
      const d = typeof x === "number" && typeof y === "number" ? y - x : String(y).localeCompare(String(x));
      return up ? -d : d;
    });
    for (const r of rows) body.append(r.row, r.card);
  };
  body.onclick = e => {
    const b = e.target.closest(".pin button");
    if (b) open(rows.find(r => r.row === b.closest("tr")), b.getAttribute("aria-expanded") !== "true");
  };
  const goto = () => {
    const m = /^#kernel-(\d+)$/.exec(location.hash), r = m && rows.find(x => x.row.dataset.id === m[1]);
    if (!r) return;
    if (r.row.hidden) { search.value = ""; cls.value = "all"; run.value = r.row.dataset.r; filter(); }
    open(r, true);
    r.row.scrollIntoView({block: "center"});
  };
  addEventListener("hashchange", goto);
  goto();
}

// ---- timeline: every event of the step, zoomed by buttons, wheel, drag and keys ------------------------------------
const svgEl = (name, attrs, text) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  return e;
};
const box = (x, y, w, h) => `M${x.toFixed(1)} ${y}h${w.toFixed(1)}v${h}h${(-w).toFixed(1)}z`;
for (const host of $$(".zoom")) {
  const {events: ev, names, layers, left_out} = DATA.events[+host.dataset.events], n = ev.length / 5;
  if (!n) continue;
  let end = 0;
  const phases = new Map(); // [from, to] of each; the last has no name
  for (let i = 0; i < n; i++) {
    const a = ev[5 * i], b = a + ev[5 * i + 1], [from, to] = phases.get(ev[5 * i + 4]) ?? [a, b];
    phases.set(ev[5 * i + 4], [Math.min(from, a), Math.max(to, b)]);
    end = Math.max(end, b);
  }
  let lo = 0, hi = end;
  const W = innerWidth < 640 ? 340 : 860, H = 106, X = t => 4 + (t - lo) / (hi - lo) * (W - 8);
  const svg = svgEl("svg", {viewBox: `0 0 ${W} ${H}`, tabindex: 0, role: "application",
                            "aria-label": "zoom of the timeline: arrow keys move, plus and minus zoom"});
  const where = Object.assign(document.createElement("span"), {className: "small"});
  where.setAttribute("aria-live", "polite");
  const event = (i, x, w) => {
    const [a, d, name, kind, phase] = ev.slice(5 * i, 5 * i + 5), text = names[name];
    const mark = svgEl("path", {class: "c-" + DATA.meta.paint[kind], d: box(x, 36, Math.max(w, .4), 44)});
    mark.tip = `${text}|${fmt(d / 1e3)} µs at ${fmt(a / 1e3, 6)} µs, ${DATA.meta.phase[phase]}`;
    svg.append(mark);
    const room = Math.floor((w - 4) / 8.5);
    if (room < Math.min(6, text.length)) return;
    const label = svgEl("text", {class: (DATA.meta.light[kind] ? "inv2" : "inv") + " m", x: x + w / 2, y: 62},
                        text.length > room ? text.slice(0, room - 1) + "…" : text);
    label.tip = mark.tip;
    svg.append(label);
  };
  // A span of a phase or a layer above the events, with its name where it fits.
  const span = (from, to, y, text) => {
    const a = Math.max(4, X(from)), w = Math.min(W - 4, X(to)) - a;
    if (w < 1) return;
    svg.append(svgEl("path", {class: "ax", d: `M${a.toFixed(1)} ${y + 4}h${Math.max(.5, w - 1).toFixed(1)}`}));
    if (w > 6.5 * text.length + 4) svg.append(svgEl("text", {class: "t3 m", x: a + w / 2, y}, text));
  };
  const draw = () => {
    svg.replaceChildren(svgEl("path", {class: "g", d: `M4 58H${W - 4}`}));
    for (const [p, [from, to]] of phases) if (p < DATA.meta.phase.length - 1) span(from, to, 10, DATA.meta.phase[p]);
    for (let i = 0; i < layers.length; i += 3)
      span(layers[i], layers[i + 1], 26, [`layer ${layers[i + 2]}`, `${layers[i + 2]}`].find(
        t => X(layers[i + 1]) - X(layers[i]) > 6.5 * t.length + 4) ?? "");
    let shown = 0, last = -1;
    for (let i = 0; i < n; i++) {
      const a = ev[5 * i], b = a + ev[5 * i + 1];
      if (b < lo || a > hi) continue;
      shown++;
      const x = Math.max(4, X(a)), w = Math.min(W - 4, X(b)) - x;
      if (x + w < last + .4) continue;
      last = x + w;
      event(i, x, w);
    }
    for (const t of W < 500 ? [0, .5, 1] : [0, .25, .5, .75, 1]) {
      const side = t === 0 ? "" : t === 1 ? "e" : "m", us = fmt((lo + t * (hi - lo)) / 1e3, 5);
      svg.append(svgEl("text", {class: "t3 " + side, x: 4 + t * (W - 8), y: 96}, t === 1 ? us + " µs" : us));
    }
    where.textContent = `${shown.toLocaleString("en")} events in ${fmt((hi - lo) / 1e3)} µs` +
      (left_out ? `; the last ${left_out} of the step are not embedded` : "");
  };
  const set = (a, b) => {
    const w = Math.min(end, Math.max(500, b - a));
    lo = Math.min(Math.max(0, a), end - w);
    hi = lo + w;
    draw();
  };
  const zoom = (f, at = (lo + hi) / 2) => set(at - (at - lo) * f, at + (hi - at) * f);
  const move = f => set(lo + f * (hi - lo), hi + f * (hi - lo));
  const all = () => set(0, end);
  const ctl = Object.assign(document.createElement("div"), {className: "ctl"});
  for (const [text, label, act] of [["+", "zoom in", () => zoom(.5)], ["−", "zoom out", () => zoom(2)],
                                    ["◂", "earlier", () => move(-.5)], ["▸", "later", () => move(.5)],
                                    ["all", "whole step", all]]) {
    const b = Object.assign(document.createElement("button"), {textContent: text, onclick: act});
    b.setAttribute("aria-label", label);
    ctl.append(b);
  }
  ctl.append(where);
  const byKey = {ArrowLeft: () => move(-.2), ArrowRight: () => move(.2), "+": () => zoom(.5), "=": () => zoom(.5),
                 "-": () => zoom(2), Home: all};
  svg.addEventListener("keydown", e => { if (byKey[e.key]) { e.preventDefault(); byKey[e.key](); } });
  const time = e => {
    const r = svg.getBoundingClientRect();
    return lo + (e.clientX - r.left) / r.width * (hi - lo);
  };
  svg.addEventListener("wheel", e => {
    if (e.ctrlKey || e.shiftKey) { e.preventDefault(); zoom(e.deltaY > 0 ? 1.25 : .8, time(e)); }
  }, {passive: false});
  let grab = null;
  svg.addEventListener("pointerdown", e => { grab = {x: e.clientX, lo}; svg.setPointerCapture(e.pointerId); });
  svg.addEventListener("pointerup", () => { grab = null; });
  svg.addEventListener("pointermove", e => {
    if (!grab) return;
    const a = grab.lo - (e.clientX - grab.x) / svg.getBoundingClientRect().width * (hi - lo);
    set(a, a + hi - lo);
  });
  host.append(ctl, svg);
  draw();
}

// ---- what-if: sliders choose among simulated steps; nothing is computed here but differences -----------------------
const wi = $("#wi"), W = DATA.whatif;
if (wi && W) {
  const make = (tag, props, ...kids) => {
    const e = Object.assign(document.createElement(tag), props);
    e.append(...kids);
    return e;
  };
  const pick = make("select", {id: "wi-model"}, ...W.models.map((m, i) => new Option(`${m.label}, ${m.batch}`, i)));
  const part = make("select", {id: "wi-part"}, new Option("the whole step", 0), new Option("its SSM operators only", 1));
  const axis = make("select", {id: "wi-axis"}, ...W.sliders.map((s, i) => new Option(s.name, i)));
  const slider = W.sliders.map(s => {
    const base = s.values.indexOf(1), out = make("output", {}), max = s.values.length - 1;
    const input = make("input", {type: "range", id: "wi-" + s.key, min: 0, max, step: 1, value: base});
    const label = make("label", {htmlFor: input.id}, make("b", {textContent: s.name}), out, input);
    return {...s, base, input, out, label};
  });
  const reset = make("button", {id: "wi-reset", textContent: `${W.machine} as it is`});
  const text = make("p", {id: "wi-out"}), knee = make("p", {id: "wi-knee", className: "small"});
  const bound = make("div", {className: "hb", id: "wi-bars"}), plot = make("div", {id: "wi-plot"});
  text.setAttribute("aria-live", "polite");
  const roundUp = v => {
    const d = 10 ** Math.floor(Math.log10(v));
    return d * [1, 2, 5, 10].find(x => v <= x * d * 1.000001);
  };
  // of a grid point: the time and what limits it, of the part that was chosen
  const at = (model, index) => {
    const n = W.bounds.length + 1, point = model.grid[index.reduce((n, v, k) => n * slider[k].values.length + v, 0)];
    return point.slice(part.value * n, (+part.value + 1) * n);
  };
  const measured = m => m.measured[part.value], whole = () => part.value === "0";
  const upper = s => s[0].toUpperCase() + s.slice(1);

  const say = (m, p, b) => {
    const main = p.slice(1).indexOf(Math.max(...p.slice(1)));
    const change = p[0] === b[0] ? `${W.machine} as it is` : `${fmt(b[0] / p[0])} × as fast as ${W.machine} as it is`;
    const off = whole()
      ? `measured steps took ${fmt(W.band[0])} to ${fmt(W.band[1])} × as long as simulated ones, that is ` +
        `${fmt(p[0] * W.band[0])} to ${fmt(p[0] * W.band[1])} ms`
      : `the mean error of single operators is ${fmt(W.held)} %`;
    text.textContent = `SIMULATED: ${fmt(p[0])} ms ${whole() ? "a step" : "of SSM operators a step"}, ${change}; ${off}` +
      (measured(m) ? `. ${whole() ? "This model" : "They"} unchanged: measured ${fmt(measured(m))} ms.` : ".") +
      ` ${upper(W.bounds[main][0])} limits ${fmt(p[main + 1] / 10)} % of ${whole() ? "the step" : "their time"}.`;
    bound.innerHTML = W.bounds.map(([n, c], i) => [n, c, p[i + 1] / 10]).filter(x => x[2] >= .1)
      .map(([n, c, x]) => `<s>${n}</s><i class="c-${c}" style="--p:${x}"></i><b>${fmt(x)} %</b>`).join("");
  };
  const sayKnee = (name, v, line) => {
    const end = v.findIndex((_, i) => line[i] <= 1.02 * line.at(-1));
    knee.textContent = end < 1 ? `The ${name} is no limit between × ${v[0]} and × ${v.at(-1)}.`
      : end < v.length - 1 ? `Beyond × ${v[end]} of the ${name}, the gain is below 2 %.`
      : `The ${name} still helps at × ${v.at(-1)}.`;
  };
  const chart = (name, v, line, now, m, b) => {
    const w = innerWidth < 900 ? 340 : 560, h = 200, most = Math.max(...line, b[0], measured(m) ?? 0);
    const tick = roundUp(most / 4), top = tick * Math.ceil(most / tick), span = Math.log(v.at(-1)) - Math.log(v[0]);
    const X = i => 48 + (Math.log(v[i]) - Math.log(v[0])) / span * (w - 68), Y = y => h - 34 - y / top * (h - 56);
    const svg = svgEl("svg", {viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": `step against ${name}, simulated`});
    for (let y = 0; y <= top * 1.001; y += tick)
      svg.append(svgEl("path", {class: "g", d: `M44 ${Y(y)}H${w - 16}`}),
                 svgEl("text", {class: "t3 e", x: 40, y: Y(y) + 4}, fmt(y)));
    if (measured(m)) {
      const at = Y(measured(m));                                       // near the top its words go below it: the axis has its own there
      svg.append(svgEl("path", {class: "ref dash", d: `M44 ${at}H${w - 16}`}),
                 svgEl("text", {class: "t3 e halo", x: w - 16, y: at < 34 ? at + 14 : at - 4},
                       `measured ${fmt(measured(m))} ms, unchanged`));
    }
    svg.append(svgEl("text", {class: "t2", x: 0, y: 12}, whole() ? "ms a step" : "ms of SSM operators a step"),
               svgEl("path", {class: "ref", d: "M" + line.map((y, i) => `${X(i)} ${Y(y)}`).join("L")}));
    v.forEach((x, i) => {
      const side = i === 0 ? "" : i === v.length - 1 ? " e" : " m";
      svg.append(svgEl("text", {class: "t3" + side, x: X(i), y: h - 19}, "×" + x),
                 svgEl("circle", {class: i === now ? "c-ssm" : "h-ssm", cx: X(i), cy: Y(line[i]), r: 4.5}));
    });
    svg.append(svgEl("text", {class: "t2 m", x: w / 2, y: h - 4}, name + " (log)"));
    plot.replaceChildren(svg);
  };
  const draw = () => {
    const m = W.models[pick.value], now = slider.map(s => +s.input.value), k = +axis.value, {name, values} = slider[k];
    const p = at(m, now), b = at(m, slider.map(s => s.base));
    for (const s of slider) {
      s.out.textContent = `× ${s.values[s.input.value]}`;
      s.input.setAttribute("aria-valuetext", `times ${s.values[s.input.value]}`);
    }
    if (!p[0]) {
      text.textContent = p[0] === null ? "SIMULATED: a kernel of this model does not fit that machine."
        : "This model has no SSM operators.";
      bound.replaceChildren();
      plot.replaceChildren();
      return;
    }
    const line = values.map((_, i) => at(m, now.map((x, j) => j === k ? i : x))[0]);
    say(m, p, b);
    sayKnee(name, values, line);
    chart(name, values, line, now[k], m, b);
  };
  const labelled = (name, e) => make("label", {}, make("b", {textContent: name}), e);
  wi.append(make("div", {}, labelled("model", pick), labelled("time of", part), ...slider.map(s => s.label), labelled("axis drawn", axis), reset),
            make("div", {}, text, bound, knee, plot));
  for (const e of [pick, part, axis, ...slider.map(s => s.input)]) e.oninput = draw;
  reset.onclick = () => { for (const s of slider) s.input.value = s.base; draw(); };
  draw();
}

// ---- raw data: every table of the page, and the kernels' records; preview and download -----------------------------
const raw = $("#raw");
if (raw) {
  const pick = $("#raw-pick"), view = $("#raw-view"), tables = {};
  const plain = v => Array.isArray(v) ? v.map(x => Array.isArray(x) ? x.join(" ") : x).join("; ") : v;
  const cell = c => c.dataset.v ?? (c.textContent === "–" ? "" : c.textContent);
  if (DATA.kernels.length)
    tables["kernels, all runs"] = () => [keys, ...DATA.kernels.map(k => keys.map(n => plain(k[n])))];
  for (const t of $$("table[data-csv]"))
    tables[t.caption.textContent] = () =>
      [t.dataset.csv.split(","), ...[...t.tBodies[0].rows].map(r => [...r.cells].map(cell))];
  for (const name of Object.keys(tables)) pick.append(new Option(name));
  const guarded = v => /^[=+\-@\t\r]./s.test(v) && isNaN(v) ? "'" + v : v;      // a spreadsheet would take it for a formula
  const quoted = v => v == null ? "" : /[",\n\r]/.test(v) ? `"${String(guarded(v)).replaceAll('"', '""')}"` : guarded(v);
  const csv = rows => rows.map(r => r.map(quoted).join(",")).join("\n") + "\n";
  const save = (name, text, type) => {
    const href = URL.createObjectURL(new Blob([text], {type}));
    const a = Object.assign(document.createElement("a"), {download: name, href});
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 1000);
  };
  const show = () => {
    const [head, ...rows] = tables[pick.value](), tab = document.createElement("table");
    const add = (to, cells, tag) => {
      const r = to.insertRow();
      for (const v of cells) r.append(Object.assign(document.createElement(tag), {textContent: v ?? ""}));
    };
    add(tab.createTHead(), head, "th");
    const body = tab.createTBody();
    for (const r of rows.slice(0, 100)) add(body, r, "td");
    view.replaceChildren(tab);
  };
  pick.onchange = show;
  if (pick.options.length) show();
  $("#raw-csv").onclick = () =>
    save(`mambascope-${pick.value.replace(/[^a-z0-9.-]+/gi, "-")}.csv`, csv(tables[pick.value]()), "text/csv");
  $("#raw-json").onclick = () => {
    const {meta, kernels, events, whatif} = DATA, named = Object.entries(tables).slice(kernels.length ? 1 : 0);
    const all = {meta, kernels, events, whatif, tables: Object.fromEntries(named.map(([n, rows]) => [n, rows()]))};
    save("mambascope-report.json", JSON.stringify(all, null, 1), "application/json");
  };
}

// ---- navigation: mark the section being read -----------------------------------------------------------------------
const links = new Map($$("nav a").map(a => [a.hash.slice(1), a]));
const spy = new IntersectionObserver(es => {
  for (const e of es) if (e.isIntersecting && links.has(e.target.id)) {
    for (const a of links.values()) a.removeAttribute("aria-current");
    links.get(e.target.id).setAttribute("aria-current", "true");
  }
}, {rootMargin: "-10% 0px -75% 0px"});
for (const id of links.keys()) { const s = document.getElementById(id); if (s) spy.observe(s); }
})();
