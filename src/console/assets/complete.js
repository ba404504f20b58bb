// Completes names while one types in the editor: promptlets after {{ import ", variables after {{.
const text = document.querySelector("[data-editor] textarea[name=source]");
const SHOWN = 8;
const PROMPTLET = /\{\{\s*import\s+"([\w.-]*)$/;
const VARIABLE = /(?<!\\)\{\{\s*([A-Za-z_]\w*)?$/;
const list = document.createElement("ul");
const said = document.createElement("p");
let options = [];
let active = -1;
// Where the name begins, what follows it, and where one that was dismissed began.
let from = 0;
let end = "";
let dismissed = -1;

const known = (id) => [...document.querySelectorAll(`#${id} option`)].map((option) => option.value);

function close() {
  list.hidden = true;
  active = -1;
  text.removeAttribute("aria-activedescendant");
  said.textContent = "";
}

function choose(at) {
  active = at;
  [...list.children].forEach((one, index) => one.setAttribute("aria-selected", String(index === at)));
  if (at < 0) text.removeAttribute("aria-activedescendant");
  else text.setAttribute("aria-activedescendant", list.children[at].id);
}

function take(name) {
  const caret = text.selectionStart;
  const after = text.value.slice(caret);
  const isClosed = end === "}}" ? /^\s*\}\}/.test(after) : after.startsWith('"');
  close();
  text.setSelectionRange(from, caret);
  // What is inserted so can be undone.
  document.execCommand("insertText", false, name + (isClosed ? "" : end));
}

// Puts the list below the caret, which is where the line numbers have the same text.
function place(before) {
  const lines = before.split("\n");
  const shown = document.querySelector(".numbers").children[lines.length - 1];
  const field = list.parentElement.getBoundingClientRect();
  const range = document.createRange();
  range.setStart(shown.firstChild, lines.at(-1).length);
  const caret = range.getBoundingClientRect();
  const left = caret.left - shown.getBoundingClientRect().left + text.offsetLeft - text.scrollLeft;
  list.style.left = `${Math.max(0, Math.min(left, field.width - list.offsetWidth))}px`;
  list.style.top = `${caret.bottom - field.top}px`;
}

function offer() {
  const before = text.value.slice(0, text.selectionStart);
  const tail = before.slice(-200);
  const imported = PROMPTLET.exec(tail);
  const found = imported ?? VARIABLE.exec(tail);
  if (!found || text.selectionStart !== text.selectionEnd) return close();
  const begun = found[1] ?? "";
  from = before.length - begun.length;
  if (from === dismissed) return close();
  dismissed = -1;
  end = imported ? '" }}' : "}}";
  const used = imported ? [] : [...text.value.matchAll(/\{\{\s*([A-Za-z_]\w*)\s*\}\}/g)].map((one) => one[1]);
  const names = [...new Set([...known(imported ? "promptlets" : "variables"), ...used])];
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
  place(before);
}

function press(event) {
  if (list.hidden || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
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
  text.addEventListener("scroll", close, { passive: true });
  // The field keeps the focus.
  list.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    const option = event.target.closest("[role=option]");
    if (option) take(option.textContent);
  });
}
