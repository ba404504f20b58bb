// Completes names while one types in the editor: promptlets after {{ import ", variables after {{.
const text = document.querySelector("[data-editor] textarea[name=source]");
const SHOWN = 8;
const PROMPTLET = /\{\{\s*import\s+"([\w.-]*)$/;
const VARIABLE = /(?<!\\)\{\{\s*([A-Za-z_]\w*)?$/;
const list = document.createElement("ul");
const said = document.createElement("p");
let options = [];
let active = -1;
// Where the name begins, the caret when it was offered, what follows it, and where one that was dismissed
// began.
let from = 0;
let caret = 0;
let end = "";
let dismissed = -1;

// Promptlets that the server has named, where the page has not all of them.
const more = document.getElementById("promptlets")?.dataset.more;
const named = new Set();
const PAUSE = 150;
let asked = "";
let asking = null;
let timer = 0;

function ask(begun) {
  if (!more || begun === "" || begun === asked) return;
  clearTimeout(timer);
  asking?.abort();
  timer = setTimeout(() => {
    asked = begun;
    asking = new XMLHttpRequest();
    asking.open("GET", `${more}&q=${encodeURIComponent(begun)}`);
    asking.responseType = "document";
    asking.addEventListener("load", ({ target }) => {
      const found = [...target.response?.querySelectorAll("#choices li") ?? []].map((one) => one.dataset.value);
      const fresh = found.filter((name) => !named.has(name));
      fresh.forEach((name) => named.add(name));
      if (fresh.length > 0 && isThere() && document.activeElement === text) offer();
    });
    asking.send();
  }, PAUSE);
}

const known = (id) => [...document.getElementById(id).content.children].map((one) => one.textContent);
const isThere = () => text.selectionStart === caret && text.selectionEnd === caret;

function close() {
  list.hidden = true;
  choose(-1);
  said.textContent = "";
}

function choose(at) {
  active = at;
  [...list.children].forEach((one, index) => one.setAttribute("aria-selected", String(index === at)));
  if (at < 0) text.removeAttribute("aria-activedescendant");
  else text.setAttribute("aria-activedescendant", list.children[at].id);
}

function take(name) {
  close();
  if (!isThere()) return;
  // What follows up to the end of a name that is closed belongs to it.
  const rest = end === "}}" ? /^\w*(?=\s*\}\})/ : /^[\w.-]*(?=(@[^"\n]*)?")/;
  const old = rest.exec(text.value.slice(caret, caret + 400));
  text.setSelectionRange(from, caret + (old?.[0].length ?? 0));
  dismissed = from;
  // What is inserted so can be undone.
  document.execCommand("insertText", false, name + (old ? "" : end));
  dismissed = -1;
}

// Puts the list below the caret, which is where the line numbers have the same text.
// Returns whether the caret is within the field.
function place() {
  const lines = text.value.slice(0, caret).split("\n");
  const shown = document.querySelector(".numbers").children[lines.length - 1];
  const [field, box] = [list.parentElement, text].map((one) => one.getBoundingClientRect());
  const range = document.createRange();
  range.setStart(shown.firstChild, lines.at(-1).length);
  const at = range.getBoundingClientRect();
  const x = at.left - shown.getBoundingClientRect().left - text.scrollLeft;
  list.style.left = `${Math.max(0, Math.min(x + text.offsetLeft, field.width - list.offsetWidth))}px`;
  list.style.top = `${at.bottom - field.top}px`;
  return x >= 0 && x <= text.clientWidth + 1 && at.bottom > box.top && at.top < box.bottom;
}

function offer() {
  caret = text.selectionStart;
  const before = text.value.slice(0, caret);
  const tail = before.slice(-200);
  const imported = PROMPTLET.exec(tail);
  const found = imported ?? VARIABLE.exec(tail);
  if (!found || !isThere()) return close();
  const begun = found[1] ?? "";
  from = before.length - begun.length;
  if (from === dismissed) return close();
  dismissed = -1;
  end = imported ? '" }}' : "}}";
  const used = imported ? [] : [...text.value.matchAll(/\{\{\s*([A-Za-z_]\w*)\s*\}\}/g)].map((one) => one[1]);
  const also = imported ? named : used;
  const names = [...new Set([...known(imported ? "promptlets" : "variables"), ...also])];
  if (imported) ask(begun);
  const low = begun.toLowerCase();
  const at = (name) => name.toLowerCase().indexOf(low);
  options = names.filter((name) => at(name) >= 0 && name !== begun)
    .sort((one, other) => at(one) - at(other)).slice(0, SHOWN);
  if (options.length === 0) return close();
  list.replaceChildren(...options.map((name, index) => {
    const option = document.createElement("li");
    option.id = `name-${index}`;
    option.setAttribute("role", "option");
    option.textContent = name;
    return option;
  }));
  list.hidden = false;
  choose(begun === "" ? -1 : 0);
  said.textContent = `${options.length} names: arrows, Enter, Escape.`;
  place();
}

function press(event) {
  if (list.hidden || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (!isThere()) return close();
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const stops = options.length + 1;
  if (step) choose((active + 1 + step + stops) % stops - 1);
  else if (event.key === "Enter" && active >= 0) take(options[active]);
  else if (event.key === "Escape") {
    dismissed = from;
    close();
  } else return;
  event.preventDefault();
}

if (text) {
  list.id = list.className = "names";
  list.hidden = true;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Names");
  said.className = "hidden";
  said.setAttribute("role", "status");
  text.closest(".field").append(list, said);
  text.setAttribute("aria-autocomplete", "list");
  text.setAttribute("aria-controls", "names");
  text.addEventListener("input", offer);
  text.addEventListener("keydown", press);
  text.addEventListener("blur", close);
  document.addEventListener("selectionchange", () => {
    if (!list.hidden && !isThere()) close();
  });
  // Typing at the end of a long line scrolls, too.
  text.addEventListener("scroll", () => {
    if (!list.hidden && !place()) close();
  }, { passive: true });
  // The field keeps the focus.
  list.addEventListener("mousedown", (event) => event.preventDefault());
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) take(option.textContent);
  });
}
