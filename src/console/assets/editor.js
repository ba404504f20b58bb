// The editor: line numbers, and problems at their lines while one types.
const form = document.querySelector("[data-editor]");
const text = form?.elements.namedItem("source");
const PAUSE = 400;

function lineHeight() {
  return parseFloat(getComputedStyle(text).lineHeight);
}

const gutter = document.createElement("div");
gutter.className = "gutter";
gutter.setAttribute("aria-hidden", "true");
let bad = new Set();

function number() {
  const count = text.value.split("\n").length;
  const lines = [];
  for (let line = 1; line <= count; line += 1) {
    const mark = document.createElement(bad.has(line) ? "b" : "span");
    mark.textContent = `${line}\n`;
    lines.push(mark);
  }
  gutter.replaceChildren(...lines);
  follow();
}

function follow() {
  gutter.scrollTop = text.scrollTop;
}

// Goes to the place of a problem.
function go(line, column) {
  const lines = text.value.split("\n");
  let at = 0;
  for (let index = 0; index < line - 1 && index < lines.length; index += 1) at += lines[index].length + 1;
  // Columns count characters, positions count units of UTF-16.
  at += [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
  text.focus();
  text.setSelectionRange(at, at);
  text.scrollTop = Math.max(0, (line - 4) * lineHeight());
}

function links() {
  const found = [...document.querySelectorAll("#checked [data-line]")];
  bad = new Set(found.map((link) => Number(link.dataset.line)));
  for (const link of found) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      go(Number(link.dataset.line), Number(link.dataset.column));
    });
  }
  number();
}

let asked = null;

function check() {
  asked?.abort();
  const request = new XMLHttpRequest();
  asked = request;
  request.open("POST", form.dataset.check);
  request.responseType = "document";
  request.setRequestHeader("Content-Type", "application/x-www-form-urlencoded");
  request.addEventListener("load", () => {
    const part = request.response?.getElementById("checked");
    const old = document.getElementById("checked");
    if (request.status !== 200 || !part || !old || old.contains(document.activeElement)) return;
    old.replaceWith(document.importNode(part, true));
    links();
  });
  request.send(new URLSearchParams(new FormData(form)).toString());
}

if (form && text) {
  text.wrap = "off";
  const box = text.parentElement;
  box.classList.add("with-gutter");
  box.prepend(gutter);
  links();
  let timer = 0;
  text.addEventListener("input", () => {
    number();
    clearTimeout(timer);
    timer = setTimeout(check, PAUSE);
  });
  form.elements.namedItem("environment")?.addEventListener("change", check);
  text.addEventListener("scroll", follow, { passive: true });
}
