// The page of the dashboard. Texts from the program are only ever set as text, never as HTML.
"use strict";

const WINDOW = 30; // seconds that the stream shows
const ROW = 24, GAP = 4, AXIS = 18, WIDEST = 220; // px, the last of the lanes' names
const MOST = 20000; // calls that are kept

const byId = (id) => document.getElementById(id);
const canvas = byId("stream");
const hover = byId("hover");
let calls = [];
let news = null;
let received = 0; // when, by the clock of the page, in seconds
let drawn = []; // boxes of the last drawing: [x, y, width, call]

// Hues far apart for neighbours in the order in which functions were first seen.
const color = (number) => `hsl(${(number * 222.5) % 360} 62% 58%)`;

function seconds(time) {
  if (time < 1e-3) return `${(time * 1e6).toPrecision(3)} µs`;
  if (time < 1) return `${(time * 1e3).toPrecision(3)} ms`;
  return time < 100 ? `${time.toPrecision(3)} s` : `${Math.round(time)} s`;
}

function bytes(count) {
  if (count === null) return "";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (count >= 1000 && at < units.length - 1) { count /= 1000; at += 1; }
  return `${at && count < 100 ? count.toPrecision(3) : Math.round(count)} ${units[at]}`;
}

// The end of a name may be all that tells two apart.
const short = (name) => (name.length > 36 ? `${name.slice(0, 22)}…${name.slice(-13)}` : name);

function cell(row, text, kind) {
  const found = row.appendChild(document.createElement("td"));
  found.textContent = text;
  if (kind) found.className = kind;
  return found;
}

function bar(row, share, fill) {
  const track = cell(row, "").appendChild(document.createElement("div"));
  track.className = "track";
  const part = track.appendChild(document.createElement("div"));
  part.className = "part";
  part.style.width = `${100 * Math.min(share, 1)}%`;
  if (fill) part.style.background = fill;
}

function showProgress() {
  const body = byId("progress");
  body.replaceChildren();
  for (const [number, done, failed, total, running, longest] of news.progress) {
    const row = body.appendChild(document.createElement("tr"));
    const name = cell(row, "");
    const dot = name.appendChild(document.createElement("span"));
    dot.className = "dot";
    dot.style.background = color(number);
    name.append(news.functions[number]);
    name.title = news.functions[number];
    bar(row, total ? done / total : 0, color(number));
    cell(row, done.toLocaleString("en"));
    cell(row, total.toLocaleString("en"));
    cell(row, failed ? failed.toLocaleString("en") : "", "bad");
    cell(row, running || "");
    cell(row, longest ? seconds(longest) : "");
  }
}

function showMemory() {
  const body = byId("memory");
  body.replaceChildren();
  const most = Math.max(1, ...news.memory.map((each) => each[1] || 0));
  for (const [name, resident, shared, values] of news.memory) {
    const row = body.appendChild(document.createElement("tr"));
    cell(row, name);
    bar(row, (resident || 0) / most);
    cell(row, bytes(resident));
    cell(row, shared ? bytes(shared) : "");
    cell(row, values ? values.toLocaleString("en") : "");
  }
}

function showAdvice() {
  byId("told").hidden = !news.advice.length;
  const list = byId("advice");
  list.replaceChildren();
  for (const [place, seen, why, act] of news.advice) {
    const item = list.appendChild(document.createElement("li"));
    item.append(`${seen}: ${why}.`);
    item.appendChild(document.createElement("code")).textContent = `${place}: ${act}`;
  }
}

function showLinks() {
  const links = byId("links");
  links.replaceChildren();
  for (const address of news.links) {
    if (!/^https?:\/\//.test(address)) continue;
    const link = links.appendChild(document.createElement("a"));
    link.href = address;
    link.target = "_blank";
    link.rel = "noreferrer";
    link.textContent = "dashboard of the cluster";
    links.append(" ");
  }
}

function showState(text) {
  const { open, over } = news.runs;
  const counted = (count, what) => count ? `${count.toLocaleString("en")} ${what}${count > 1 ? "s" : ""}` : "";
  const parts = [counted(open, "run"), counted(news.open_calls, "actor call")].filter(Boolean);
  const state = parts.length ? `${parts.join(" and ")} going on` : "nothing runs";
  byId("state").textContent = text || `${state}, ${counted(over, "run") || "no run"} over` +
    (news.left_out ? "; they come so fast that only some are shown" : "");
}

function draw() {
  requestAnimationFrame(draw);
  if (!news || !canvas.clientWidth) return;
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = news.workers.length * (ROW + GAP) + AXIS;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
  }
  const paint = canvas.getContext("2d");
  const style = getComputedStyle(document.body);
  paint.setTransform(scale, 0, 0, scale, 0, 0);
  paint.clearRect(0, 0, width, height);
  paint.font = "12px system-ui, sans-serif";
  const named = Math.max(0, ...news.workers.map((name) => paint.measureText(short(name)).width));
  const LEFT = Math.max(110, Math.min(named, WIDEST) + 12);
  const last = calls.length ? calls[calls.length - 1][3] : news.now;
  // While something runs, or just has, the stream moves; then it stands still at its end.
  const now = Math.min(news.now + performance.now() / 1000 - received, last + WINDOW / 2);
  const to = (time) => LEFT + (width - LEFT) * (1 - (now - time) / WINDOW);
  drawn = [];
  for (let at = calls.length - 1; at >= 0 && to(calls[at][3]) > LEFT - width; at -= 1) {
    const [worker, number, start, end] = calls[at];
    const from = Math.max(LEFT, to(start));
    const size = to(end) - from;
    if (to(end) <= LEFT) continue;
    paint.fillStyle = color(number);
    paint.fillRect(from, worker * (ROW + GAP), Math.max(size - 0.5, 0.5), ROW);
    drawn.push([from, worker * (ROW + GAP), Math.max(size, 3), calls[at]]);
  }
  paint.fillStyle = style.color;
  news.workers.forEach((name, row) => {
    paint.fillText(short(name), 0, row * (ROW + GAP) + 16, WIDEST);
  });
  for (let mark = 0; mark < WINDOW; mark += 5) {
    paint.fillText(mark ? `−${mark} s` : "", to(now - mark) - 10, height - 4);
  }
  paint.globalAlpha = 0.15;
  for (let mark = 5; mark < WINDOW; mark += 5) {
    paint.fillRect(to(now - mark), 0, 1, height - AXIS);
  }
  paint.globalAlpha = 1;
}

canvas.addEventListener("mousemove", (event) => {
  const box = canvas.getBoundingClientRect();
  const x = event.clientX - box.left, y = event.clientY - box.top;
  const hit = drawn.find(([left, top, size]) =>
    x >= left - 1 && x <= left + size && y >= top && y <= top + ROW);
  hover.hidden = !hit;
  if (!hit) return;
  const [worker, number, start, end] = hit[3];
  hover.textContent = `${news.functions[number]}\n${seconds(end - start)} on ${news.workers[worker]}`;
  hover.style.left = `${Math.min(event.clientX + 12, window.innerWidth - 280)}px`;
  hover.style.top = `${event.clientY + 14}px`;
});
canvas.addEventListener("mouseleave", () => { hover.hidden = true; });

const events = new EventSource("events");
events.onmessage = (event) => {
  news = JSON.parse(event.data);
  received = performance.now() / 1000;
  calls = calls.concat(news.calls).slice(-MOST);
  byId("none").hidden = calls.length > 0;
  byId("span").textContent = `the last ${WINDOW} s`;
  showState();
  showProgress();
  showMemory();
  showLinks();
  showAdvice();
};
events.onopen = () => { calls = []; }; // all of them come again
events.onerror = () => {
  byId("state").textContent = "the page is closed, or its process has ended";
};
requestAnimationFrame(draw);
