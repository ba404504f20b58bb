// Keys: / goes to the search, g and a letter goes to a section, j and k walk through the rows of a list,
// n and p through the changes of a comparison, Ctrl+K opens the palette, ? says so. They can be switched off,
// there. The letter of a section is its first or, if that is one of a section before it, the next that is no
// section's first.
const OFF = "keys-off";
const stored = () => { try { return localStorage.getItem(OFF); } catch { return null; } };
let isOff = stored() === "1";
let before = "";

function isTyping(target) {
  return target instanceof HTMLElement
    && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

function sections() {
  const links = [...document.querySelectorAll(".side .sections ul:first-of-type a")];
  const names = links.map((link) => link.textContent.trim().toLowerCase());
  const firsts = new Set(names.map((name) => name[0]));
  const taken = new Set();
  return links.map((link, at) => {
    const letters = [...names[at]];
    const letter = taken.has(letters[0]) ? letters.find((one) => !firsts.has(one) && !taken.has(one)) : letters[0];
    taken.add(letter);
    return [letter, link];
  });
}

function walk(step) {
  const rows = [...document.querySelectorAll("[data-rows] tbody tr, .hits li")];
  if (rows.length === 0) return;
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[Math.min(Math.max(at + step, 0), rows.length - 1)];
  next.querySelector("a")?.focus();
  next.scrollIntoView({ block: "nearest" });
}

function change(step) {
  const rows = [...document.querySelectorAll(".diff .changed")];
  const firsts = rows.filter((row) => !row.previousElementSibling?.matches(".changed"));
  if (firsts.length === 0) return;
  const next = firsts[Math.min(Math.max(firsts.indexOf(document.activeElement) + step, 0), firsts.length - 1)];
  next.tabIndex = -1;
  next.focus();
}

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

function help() {
  const dialog = document.createElement("dialog");
  dialog.append(element("h2", "Keys"));
  const list = document.createElement("dl");
  const entry = (keys, text) => {
    const term = document.createElement("dt");
    term.append(element("kbd", keys));
    list.append(term, element("dd", text));
  };
  for (const [letter, link] of sections()) entry(`g ${letter}`, link.textContent.trim());
  entry("/", "Search");
  entry("Ctrl K", "Find or do");
  entry("j", "Next row");
  entry("k", "Row before");
  entry("n", "Next change of a comparison");
  entry("p", "Change before");
  if (document.querySelector("[data-editor]")) {
    entry("Ctrl+S", "Save the draft");
    entry("Ctrl+Enter", "Publish");
  }
  entry("?", "This help");
  const toggle = element("button", isOff ? "Switch keys on" : "Switch keys off");
  toggle.addEventListener("click", () => {
    isOff = !isOff;
    try { localStorage.setItem(OFF, isOff ? "1" : "0"); } catch { /* Then it is for this page. */ }
    dialog.close();
  });
  const close = element("button", "Close");
  close.addEventListener("click", () => dialog.close());
  const actions = document.createElement("p");
  actions.className = "actions";
  actions.append(close, toggle);
  dialog.append(list, actions);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function palette(event) {
  const field = document.querySelector("[data-find]");
  if (isOff || !field || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  import("palette.js").then(({ open }) => open(field.form.action)).catch(() => location.assign(field.form.action));
}

addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key === "k") return palette(event);
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (document.querySelector("dialog[open]")) return;
  const key = event.key;
  if (key === "?") {
    event.preventDefault();
    help();
  } else if (!isOff && before === "g") {
    const found = sections().find(([letter]) => letter === key);
    if (found) found[1].click();
  } else if (!isOff && key === "/") {
    const field = [...document.querySelectorAll("[data-find]")].find((one) => one.checkVisibility());
    const side = document.getElementById("side");
    if (!field) side?.showPopover?.();
    const found = field ?? side?.querySelector("[data-find]");
    if (found) {
      event.preventDefault();
      found.focus();
    }
  } else if (!isOff && (key === "j" || key === "k")) {
    event.preventDefault();
    walk(key === "j" ? 1 : -1);
  } else if (!isOff && (key === "n" || key === "p")) {
    change(key === "n" ? 1 : -1);
  }
  before = key;
});
