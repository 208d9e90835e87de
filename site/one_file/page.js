// The page: settings, pictures and the source. The work is done in worker.js.
"use strict";

const FIXED = { N: 1, batch: 32, longest: 6, rate_scale: 0.5, seed: 1 };
const LINES_PER_SECOND = 25; // of the slow motion
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
let sentences, language, worker, sourceLines = [], runs = [], latest = null, isRunning = false, trace = [], said = null;

const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
const say = (key, values = {}) => fill(sentences[language][key], values);

// What was last said, so that it can be said again in the other language.
function announce(key, values) {
  said = [key, values];
  $("status").textContent = say(key, values);
}

function draw(parent, name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function speak(chosen) {
  language = chosen in sentences ? chosen : "en";
  document.documentElement.lang = $("language").value = language;
  document.title = say("title");
  for (const each of document.querySelectorAll("[data-text]")) each.textContent = say(each.dataset.text);
  $("digits").placeholder = say("own_help", FIXED);
  if (said) announce(...said);
  drawCurve();
  drawShown();
  drawRuns();
}

function settings() {
  const form = $("settings");
  const chosen = Object.fromEntries(["d_model", "h", "warmup_steps"].map((name) => [name, Number(form[name].value)]));
  return { ...FIXED, ...chosen, d_ff: 2 * chosen.d_model, scaled: Number(form.scaled.checked) };
}

function drawCurve() {
  const svg = $("curve"), [left, right, top, bottom] = [44, 450, 10, 170];
  svg.replaceChildren();
  const last = Math.max(100, ...runs.map((run) => run.losses.length)), highest = 3;
  const x = (update) => left + ((right - left) * update) / last;
  const y = (loss) => bottom - ((bottom - top) * Math.min(loss, highest)) / highest;
  for (let loss = 0; loss <= highest; loss++) {
    draw(svg, "line", { x1: left, x2: right, y1: y(loss), y2: y(loss), class: "axis" });
    draw(svg, "text", { x: left - 6, y: y(loss) + 4, "text-anchor": "end" }, loss);
  }
  const step = [50, 100, 200, 500, 1000, 2000, 5000, 10000].find((each) => last / each <= 5) ?? 20000;
  for (let update = 0; update <= last; update += step) {
    draw(svg, "text", { x: x(update), y: bottom + 16, "text-anchor": "middle" }, update);
  }
  draw(svg, "text", { x: (left + right) / 2, y: bottom + 34, "text-anchor": "middle" }, say("loss_x"));
  draw(svg, "text", { transform: `translate(12 ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, say("loss_y"));
  runs.forEach((run, i) => {
    const each = Math.max(1, Math.ceil(run.losses.length / 400)); // a mean of so many updates is one point
    let points = "";
    for (let from = 0; from < run.losses.length; from += each) {
      const part = run.losses.slice(from, from + each);
      points += `${x(from + part.length / 2).toFixed(1)},${y(part.reduce((a, b) => a + b) / part.length).toFixed(1)} `;
    }
    draw(svg, "polyline", { points, class: i === runs.length - 1 ? "now" : "before" });
  });
  const losses = runs.at(-1)?.losses ?? [];
  svg.setAttribute("aria-label", `${say("loss")}: ${losses.length ? losses.at(-1).toFixed(2) : ""}`);
}

function drawShown() {
  if (!latest) return;
  $("right").textContent = say("right", latest);
  $("pairs").tBodies[0].replaceChildren(...latest.pairs.map(([source, output, wanted]) => {
    const row = document.createElement("tr"), isRight = output === wanted;
    for (const text of [source, "→", output, isRight ? "✓" : "✗"]) row.insertCell().textContent = text;
    row.cells[2].className = row.cells[3].className = isRight ? "right" : "wrong";
    return row;
  }));
  const { weights, rows, columns } = latest.attention, cell = 22, margin = 34;
  $("heads").replaceChildren(...weights.map((head, number) => {
    const size = margin + cell * columns.length;
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${size + 4} ${size + 32}`);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `${say("attention")}, ${say("head", { number: number + 1 })}`);
    const name = (text) => (text === "end" ? "⏎" : text);
    columns.forEach((text, j) => draw(svg, "text", { x: margin + cell * (j + .5), y: margin - 6, "text-anchor": "middle" }, name(text)));
    head.forEach((row, i) => {
      draw(svg, "text", { x: margin - 6, y: margin + cell * (i + .5) + 4, "text-anchor": "end" }, name(rows[i]));
      row.forEach((weight, j) => draw(svg, "rect", { x: margin + cell * j, y: margin + cell * i, width: cell - 1, height: cell - 1, "fill-opacity": weight }));
    });
    draw(svg, "rect", { x: margin, y: margin, width: cell * columns.length, height: cell * rows.length, class: "frame" });
    draw(svg, "text", { x: margin + cell * columns.length / 2, y: 12, "text-anchor": "middle" }, say("attention_x"));
    draw(svg, "text", { transform: `translate(10 ${margin + cell * rows.length / 2}) rotate(-90)`, "text-anchor": "middle" }, say("attention_y"));
    draw(svg, "text", { x: margin + cell * columns.length / 2, y: size + 20, "text-anchor": "middle" }, say("head", { number: number + 1 }));
    return svg;
  }));
}

function drawRuns() {
  $("history").hidden = !runs.length;
  $("runs").replaceChildren(...runs.map((run) => {
    const item = document.createElement("li");
    const scaled = say(run.settings.scaled ? "is_scaled" : "is_not_scaled");
    const outcome = run.reached ? say("reached", run.reached) : say("not_reached", run);
    item.textContent = `${say("run_settings", { ...run.settings, scaled })}: ${outcome}`;
    return item;
  }));
  if (!runs.length) return;
  const { seed, ...sizes } = runs.at(-1).settings;
  const words = Object.entries(sizes).map(([name, value]) => `${name}=${value}`);
  $("command").textContent = `python examples/one_file.py ${words.join(" ")}`;
}

function begin() {
  if (isRunning) worker.postMessage({ kind: "stop" });
  runs.push({ settings: settings(), losses: [], right: 0, updates: 0, reached: null });
  isRunning = true;
  $("stop").disabled = false;
  worker.postMessage({ kind: "train", settings: runs.at(-1).settings });
  drawRuns();
}

function end(key, values) {
  isRunning = false;
  trace = [];
  $("stop").disabled = true;
  announce(key, values);
}

const answers = {
  ready() {
    $("train").disabled = false;
    announce("ready");
  },
  losses({ losses, lines, updates, seconds }) {
    const run = runs.at(-1);
    if (!isRunning || updates - losses.length !== run.losses.length) return; // of a run that was ended
    run.losses.push(...losses);
    if (lines) trace = lines;
    announce("training", { updates, seconds: seconds.toFixed(0) });
    drawCurve();
  },
  shown(shown) {
    const run = runs.at(-1);
    if (!isRunning || shown.updates !== run.losses.length) return;
    latest = shown;
    Object.assign(run, { right: shown.right, updates: shown.updates });
    if (shown.right >= 95) run.reached ??= { updates: shown.updates, seconds: shown.seconds.toFixed(0) };
    drawShown();
    drawRuns();
  },
  reversed({ digits, output }) {
    $("answer").textContent = `${digits} → ${output}`;
  },
  failed() {
    announce("no_network");
  },
  broke({ reason }) {
    end("broke", { reason });
  },
};

function light(line, name, scrolls) {
  document.querySelectorAll(`#source .${name}`).forEach((each) => each.classList.remove(name));
  const element = sourceLines[line - 1];
  if (!element) return;
  element.classList.add(name);
  if (scrolls) $("source").scrollTop = element.offsetTop - $("source").offsetTop - $("source").clientHeight / 2;
}

// The lines of one update, one after the other, while no picture is pointed at.
function playTrace() {
  let at = 0;
  setInterval(() => {
    if (!isRunning || !trace.length) return light(0, "lit");
    if (!document.querySelector("#source .from")) light(trace[at++ % trace.length], "lit", true);
  }, 1000 / LINES_PER_SECOND);
}

function linkPictures(source) {
  const lines = source.split("\n");
  for (const figure of document.querySelectorAll("[data-line]")) {
    const number = lines.findIndex((line) => line.includes(figure.dataset.line)) + 1;
    for (const event of ["pointerenter", "focus"]) figure.addEventListener(event, () => light(number, "from", true));
    for (const event of ["pointerleave", "blur"]) figure.addEventListener(event, () => light(0, "from"));
  }
}

async function load(name, kind) {
  const answer = await fetch(name);
  if (!answer.ok) throw new Error(name);
  return answer[kind]();
}

async function main() {
  sentences = await load("sentences.json", "json");
  speak(new URLSearchParams(location.search).get("lang") ?? navigator.language.slice(0, 2));
  $("language").addEventListener("change", () => speak($("language").value));
  const source = await load("one_file.py", "text");
  sourceLines = source.trimEnd().split("\n").map((line) => {
    const element = document.createElement("span");
    element.textContent = line || " ";
    return element;
  });
  $("source").replaceChildren(...sourceLines);
  linkPictures(source);
  playTrace();
  if (typeof WebAssembly !== "object") return announce("no_wasm");
  announce("loading");
  worker = new Worker("worker.js");
  worker.onmessage = ({ data }) => answers[data.kind](data);
  worker.onerror = () => announce("no_network");
  $("settings").addEventListener("submit", (event) => { event.preventDefault(); begin(); });
  $("stop").addEventListener("click", () => { worker.postMessage({ kind: "stop" }); end("stopped", { updates: runs.at(-1).losses.length }); });
  $("own").addEventListener("submit", (event) => {
    event.preventDefault();
    const digits = $("digits").value.trim();
    if (!/^[0-9]+$/.test(digits) || digits.length > FIXED.longest) $("answer").textContent = say("own_odd", FIXED);
    else if (!latest) $("answer").textContent = say("own_untrained");
    else worker.postMessage({ kind: "reverse", digits });
  });
}

main().catch(() => { document.body.append(sentences ? say("no_network") : "The files of this page could not be loaded; reload it. 페이지 파일을 불러오지 못했습니다. 새로 고침해 주세요."); });
