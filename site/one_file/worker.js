// Runs Python, and with it examples/one_file.py, apart from the page, so that the page never waits.
"use strict";

const FOLDER = "pyodide/";
const PART = 150; // milliseconds of updates between two looks at the messages
const SHOWN_EVERY = 25; // updates
const TRACED_EVERY = 100; // updates
let python, run, number = 0;

const post = (kind, rest = {}) => postMessage({ kind, ...rest });

async function write(name) {
  const answer = await fetch(name);
  if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
  python.FS.writeFile(name, await answer.text());
}

async function boot() {
  importScripts(`${FOLDER}pyodide.js`);
  python = await loadPyodide({ indexURL: FOLDER });
  await python.loadPackage("numpy", { messageCallback: () => {} });
  await write("one_file.py");
  await write("driver.py");
  python.runPython("import sys; sys.path.insert(0, '.'); import driver");
  post("ready");
}

// The loop gives way after each part, so that a message to stop, or to begin anew, is heard.
async function train(settings) {
  const mine = ++number;
  run = python.globals.get("driver").Run(JSON.stringify(settings), settings.seed);
  let updates = 0, size = 1;
  const began = performance.now();
  while (mine === number) {
    const isTraced = updates % TRACED_EVERY === 0, from = performance.now();
    const answer = isTraced ? JSON.parse(run.advance_traced()) : { losses: JSON.parse(run.advance(size)) };
    if (!isTraced && performance.now() - from < PART) size = Math.min(size + 1, SHOWN_EVERY);
    const before = updates;
    updates += answer.losses.length;
    size = Math.min(size, TRACED_EVERY - (updates % TRACED_EVERY));
    const seconds = (performance.now() - began) / 1000;
    post("losses", { ...answer, updates, seconds });
    if (isTraced || Math.floor(before / SHOWN_EVERY) !== Math.floor(updates / SHOWN_EVERY)) {
      post("shown", { ...JSON.parse(run.show()), updates, seconds });
    }
    await new Promise((resume) => setTimeout(resume));
  }
}

const ready = boot().catch((error) => post("failed", { reason: String(error) }));

onmessage = async ({ data }) => {
  await ready;
  if (!python) return;
  try {
    if (data.kind === "train") await train(data.settings);
    if (data.kind === "stop") number++;
    if (data.kind === "reverse") post("reversed", { digits: data.digits, output: run.reverse(data.digits) });
  } catch (error) {
    post("broke", { reason: String(error).trim().split("\n").pop() });
  }
};
