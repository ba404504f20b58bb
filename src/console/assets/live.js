// Shows what changes while a page is open. One tab of the browser listens for all: a server has few
// connections to each browser. The page is asked for again, and its parts with data-live replaced,
// unless someone is at work in them: then as soon as they are done. Rows of a list (data-row) stay where
// they are, so that nothing moves under the pointer: new ones wait behind a button that counts them. A page
// that does not change by itself asks, more rarely, for what every page has beside it: how much waits.
const main = document.getElementById("main");
const path = main?.dataset.stream;
const home = path?.replace(/\/live$/, "");
// Every page says how much waits; this one reads little besides.
const counts = `${home}/waiting/tasks`;
const changes = main ? "changes" in main.dataset : false;
const COUNT_PAUSE = 5000;
const PAUSE = changes ? 1000 : COUNT_PAUSE;
let due = false;
let last = 0;
let timer = 0;
const seen = new Map();
// The parts that have changed while someone was at work in them.
const outdated = new Set();
// The parts whose rows are others now: id, the part as it is now, and how many rows are new.
const waiting = new Map();
const news = document.createElement("div");
const PATIENCE = 5000;
let patience = 0;
const lost = document.createElement("p");
lost.className = "notice warning";
const LOST = {
  down: "The server does not answer. Send nothing until this goes; notes and answers that you type are kept in this browser.",
  over: "You are signed out, or are no member any more. Load this page again.",
};

// Whether somebody has entered something.
function isEdited(part) {
  return [...part.querySelectorAll("input:not([type=hidden]), textarea, select")].some((field) => {
    if (!field.options) return field.value !== field.defaultValue || field.checked !== field.defaultChecked;
    return field.selectedIndex !== Math.max([...field.options].findIndex((one) => one.defaultSelected), 0);
  });
}

function isBusy(part) {
  const selection = getSelection();
  const isSelected = selection && !selection.isCollapsed && part.contains(selection.anchorNode);
  // What is about to be pressed does not move away.
  const isPointedAt = part.querySelector(":is(a, button, summary, select):hover");
  return part.contains(document.activeElement) || isSelected || isPointedAt || isEdited(part);
}

// A part without what is new in every answer: the tokens and keys of its forms, and how long ago times are.
function content(part) {
  return part.outerHTML.replace(/name="_(?:token|key)" value="[^"]*"|(?<=<time [^>]*>)[^<]*/g, "");
}

function put(old, other) {
  const made = document.importNode(other, true);
  const unfolded = [...old.querySelectorAll("details")].map((one) => one.open);
  const details = [...made.querySelectorAll("details")];
  if (details.length === unfolded.length) details.forEach((one, at) => { one.open ||= unfolded[at]; });
  old.replaceWith(made);
  made.dispatchEvent(new Event("changed", { bubbles: true }));
}

function show(part, other) {
  waiting.delete(part.id);
  outdated.delete(part.id);
  seen.set(part.id, content(other));
  put(part, other);
}

// Whether other rows are there now, or in another order. If so, those that are shown change in place.
function waits(part, other) {
  const rows = [...part.querySelectorAll("[data-row]")];
  const fresh = new Map([...other.querySelectorAll("[data-row]")].map((row) => [row.dataset.row, row]));
  const keys = rows.map((row) => row.dataset.row);
  if (rows.length === 0 || keys.join("\n") === [...fresh.keys()].join("\n")) return false;
  rows.forEach((row, at) => {
    const now = fresh.get(row.dataset.row);
    const isBefore = rows.slice(at + 1).some((one) => one.parentNode === row.parentNode && fresh.has(one.dataset.row));
    // The last ones of a list are perhaps on its next page.
    if (!now) row.classList.toggle("gone", isBefore || fresh.size < rows.length);
    else if (!isBusy(row)) put(row, now);
  });
  const shown = new Set(keys);
  waiting.set(part.id, [other, [...fresh.keys()].filter((key) => !shown.has(key)).length]);
  return true;
}

function tell() {
  const count = [...waiting.values()].reduce((sum, [, number]) => sum + number, 0);
  const text = count > 0 ? `${count} new` : "Show what changed";
  const old = news.querySelector("button");
  if (waiting.size > 0 && old?.textContent === text) return;
  old?.remove();
  if (waiting.size === 0) return;
  const button = document.createElement("button");
  button.className = "primary";
  button.textContent = text;
  news.prepend(button);
}

function lose(word) {
  lost.textContent = LOST[word];
  news.append(lost);
}

// Says that the server does not answer, once it has not for a while, or that the session is over.
function connected(word) {
  if (word === "down") {
    // It is tried again in between.
    patience ||= setTimeout(() => lose(word), PATIENCE);
    return;
  }
  clearTimeout(patience);
  patience = 0;
  if (word === "over") lose(word);
  else lost.remove();
}

// The title of a page begins with how much waits.
const FIGURE = /^\(\d+\+?\) /;

// Shows how much waits, as another page says it. Nothing of this one is touched.
function recount(fresh) {
  const [old, other] = [document, fresh].map((page) => page.getElementById("waits"));
  if (!old || !other) return;
  document.title = (FIGURE.exec(fresh.title)?.[0] ?? "") + document.title.replace(FIGURE, "");
  if (content(old) !== content(other)) put(old, other);
}

function replace(fresh) {
  // It has how much waits.
  if (fresh.title) document.title = fresh.title;
  for (const part of document.querySelectorAll("[data-live][id]")) {
    const other = fresh.getElementById(part.id);
    // Of the first answer it is not known whether it differs: scripts have changed the page.
    if (!other || (seen.get(part.id) === content(other) && !waiting.has(part.id))) continue;
    if (waits(part, other)) continue;
    waiting.delete(part.id);
    if (isEdited(part)) waiting.set(part.id, [other, 0]);
    if (isBusy(part)) outdated.add(part.id);
    else show(part, other);
  }
  tell();
}

function refresh() {
  clearTimeout(timer);
  if (document.hidden) {
    due = true;
    return;
  }
  const wait = last + PAUSE - Date.now();
  if (wait > 0) {
    timer = setTimeout(refresh, wait);
    return;
  }
  due = false;
  last = Date.now();
  const request = new XMLHttpRequest();
  // A list that was counted is not counted again at each change.
  const page = new URL(location.href);
  page.searchParams.delete("total");
  request.open("GET", changes ? page.pathname + page.search : counts);
  request.responseType = "document";
  request.addEventListener("load", () => {
    if (request.status === 200 && request.response) (changes ? replace : recount)(request.response);
  });
  request.send();
}

// Once the focus or the pointer has left, which is after the event that says so.
function catchUp() {
  if (outdated.size === 0) return;
  setTimeout(() => {
    const parts = [...outdated].map((id) => document.getElementById(id));
    if (!parts.some((part) => part && !isBusy(part))) return;
    outdated.clear();
    refresh();
  });
}

// How much waits for the person: it is in the title of every page. What they were told last is kept for
// all tabs, each of which says it by being loaded.
const TOLD = `notify${home}`;
let counting = 0;
const kept = (key) => { try { return localStorage.getItem(key); } catch { return null; } };
const keep = (number) => { try { localStorage.setItem(TOLD, number); } catch { /* It is told again. */ } };
const waitsIn = (title) => Number(/^\((\d+)/.exec(title)?.[1] ?? 0);

// The tabs of the organization, and when one of them has last said that it has the focus.
const channel = path ? new BroadcastChannel(path) : null;
let focused = 0;

function notify(number) {
  const body = number === 1 ? "1 thing waits for you." : `${number} things wait for you.`;
  const icon = document.querySelector("link[rel=icon]")?.href;
  // Browsers of phones have the permission, and throw.
  try {
    const note = new Notification("Roadstead", { body, icon, tag: home });
    note.addEventListener("click", () => { window.open(home); note.close(); });
  } catch { /* The title says it. */ }
}

// Says in a notification of the browser that more waits, if the person wants that (notify.js).
function count() {
  if (counting !== 0 || kept("notify") !== "1") return;
  if (!("Notification" in window) || Notification.permission !== "granted") return;
  counting = setTimeout(() => {
    counting = 0;
    // It is answered long before the page is.
    channel.postMessage("focus?");
    const begun = Date.now();
    const request = new XMLHttpRequest();
    request.open("GET", counts);
    request.responseType = "document";
    request.addEventListener("load", () => {
      if (request.status !== 200 || !request.response) return;
      const number = waitsIn(request.response.title);
      const isMore = number > Number(kept(TOLD));
      keep(number);
      if (isMore && !document.hasFocus() && focused < begun) notify(number);
    });
    request.send();
  }, COUNT_PAUSE);
}

if (path && kept("notify") === "1") keep(waitsIn(document.title));

if (path && navigator.locks) {
  channel.addEventListener("message", ({ data }) => {
    if (data === "") refresh();
    else if (data === "focused") focused = Date.now();
    else if (data !== "focus?") connected(data);
    else if (document.hasFocus()) channel.postMessage("focused");
  });
  const state = (word) => {
    channel.postMessage(word);
    connected(word);
  };
  document.addEventListener("visibilitychange", () => { if (due) refresh(); });
  for (const name of ["focusout", "pointerout"]) main.addEventListener(name, catchUp);
  // It is there, empty, before it says something, so that it is read out.
  news.className = "news";
  news.setAttribute("role", "status");
  document.body.append(news);
  news.addEventListener("click", (event) => {
    if (!event.target.closest("button")) return;
    for (const [id, [other]] of [...waiting]) show(document.getElementById(id), other);
    tell();
    main.focus();
  });
  let pause = PATIENCE;
  const listen = () => {
    const source = new EventSource(path);
    source.addEventListener("changed", () => {
      channel.postMessage("");
      count();
      refresh();
    });
    source.addEventListener("open", () => {
      pause = PATIENCE;
      state("up");
    });
    source.addEventListener("error", () => {
      if (source.readyState !== EventSource.CLOSED) {
        state("down");
        return;
      }
      // Something answers.
      state("up");
      again();
    });
  };
  // A browser gives up on an answer that is no stream, and does not say which it was.
  const again = () => setTimeout(() => {
    pause = Math.min(2 * pause, 60_000);
    const request = new XMLHttpRequest();
    request.open("GET", counts);
    request.addEventListener("loadend", () => {
      const isAnswered = new URL(request.responseURL || location.href).pathname === counts;
      if (request.status === 0 || request.status === 429 || request.status >= 500) {
        state("down");
        again();
      } else if (request.status === 200 && isAnswered) {
        state("up");
        listen();
      } else {
        // Somebody may sign in again in another tab.
        state("over");
        again();
      }
    });
    request.send();
  }, pause);
  navigator.locks.request(path, () => new Promise(listen));
}
