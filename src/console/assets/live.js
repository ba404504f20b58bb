// Shows what changes while a page is open. One tab of the browser listens for all: a server has few
// connections to each browser. The page is asked for again, and its parts with data-live replaced,
// unless someone is at work in them: then as soon as they are done.
const main = document.getElementById("main");
const path = main?.dataset.stream;
const PAUSE = 1000;
let due = false;
let last = 0;
let timer = 0;
const seen = new Map();
// The parts that have changed while someone was at work in them.
const outdated = new Set();

function isBusy(part) {
  const selection = getSelection();
  const isSelected = selection && !selection.isCollapsed && part.contains(selection.anchorNode);
  // What is about to be pressed does not move away.
  const isPointedAt = part.querySelector(":is(a, button, summary, select):hover");
  return part.contains(document.activeElement) || isSelected || isPointedAt;
}

function replace(fresh) {
  for (const part of document.querySelectorAll("[data-live][id]")) {
    const other = fresh.getElementById(part.id);
    // Of the first answer it is not known whether it differs: scripts have changed the page.
    if (!other || seen.get(part.id) === other.outerHTML) continue;
    if (isBusy(part)) {
      outdated.add(part.id);
      continue;
    }
    outdated.delete(part.id);
    seen.set(part.id, other.outerHTML);
    const made = document.importNode(other, true);
    part.replaceWith(made);
    made.dispatchEvent(new Event("changed", { bubbles: true }));
  }
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
  request.open("GET", location.pathname + location.search);
  request.responseType = "document";
  request.addEventListener("load", () => {
    if (request.status === 200 && request.response) replace(request.response);
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

if (path && navigator.locks && document.querySelector("[data-live]")) {
  const channel = new BroadcastChannel(path);
  channel.addEventListener("message", refresh);
  document.addEventListener("visibilitychange", () => { if (due) refresh(); });
  for (const name of ["focusout", "pointerout"]) main.addEventListener(name, catchUp);
  navigator.locks.request(path, () => new Promise(() => {
    const source = new EventSource(path);
    source.addEventListener("changed", () => {
      channel.postMessage("");
      refresh();
    });
  }));
}
