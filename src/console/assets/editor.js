// The editor: line numbers, problems at their lines and what changes while one types, and keys that save
// and publish.
const form = document.querySelector("[data-editor]");
const text = form?.elements.namedItem("source");
const box = text?.parentElement;
const PAUSE = 400;

// Each line of the text, unseen and as wide as the field has it, so that its number is where it begins
// however often it is wrapped.
const gutter = document.createElement("div");
const numbers = document.createElement("div");
let lines = [];

// Lines that are as they were stay: most keys change one.
function number() {
  const now = text.value.split("\n");
  let from = 0;
  while (from < Math.min(lines.length, now.length) && lines[from] === now[from]) from += 1;
  let [end, nowEnd] = [lines.length, now.length];
  while (end > from && nowEnd > from && lines[end - 1] === now[nowEnd - 1]) {
    end -= 1;
    nowEnd -= 1;
  }
  const others = document.createRange();
  others.setStart(numbers, from);
  others.setEnd(numbers, end);
  others.deleteContents();
  const fresh = document.createDocumentFragment();
  for (const line of now.slice(from, nowEnd)) {
    const made = document.createElement("div");
    made.textContent = line;
    fresh.append(made);
  }
  numbers.insertBefore(fresh, numbers.children[from] ?? null);
  lines = now;
  follow();
}

function follow() {
  gutter.scrollTop = text.scrollTop;
}

// The width of the text without a bar to scroll it.
function measure() {
  const width = text.getBoundingClientRect().width - (text.offsetWidth - text.clientWidth);
  gutter.style.setProperty("--width", `${width}px`);
  follow();
}

// Goes to the place of a problem.
function go(line, column) {
  let at = 0;
  for (let index = 0; index < line - 1 && index < lines.length; index += 1) at += lines[index].length + 1;
  // Columns count characters, positions count units of UTF-16.
  at += [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
  text.focus();
  text.setSelectionRange(at, at);
  const shown = numbers.children[line - 1];
  if (shown) text.scrollTop = shown.offsetTop - text.clientHeight / 4;
}

function links() {
  for (const one of numbers.querySelectorAll(".bad")) one.classList.remove("bad");
  for (const link of document.querySelectorAll("#checked [data-line]")) {
    numbers.children[link.dataset.line - 1]?.classList.add("bad");
    link.addEventListener("click", (event) => {
      event.preventDefault();
      go(Number(link.dataset.line), Number(link.dataset.column));
    });
  }
}

// What was said when the form was sent goes once the text compiles.
function mend() {
  if (form.dataset.mends === undefined || !document.querySelector("#checked [data-compiles]")) return;
  delete form.dataset.mends;
  for (const said of form.querySelectorAll("[id='e-source']")) said.remove();
  text.removeAttribute("aria-invalid");
  text.removeAttribute("aria-errormessage");
  const summary = form.querySelector(".problems");
  for (const link of summary?.querySelectorAll("a[href='#f-source']") ?? []) link.parentElement.remove();
  if (!summary || summary.querySelector("li")) return;
  summary.remove();
  document.title = document.title.replace("Error: ", "");
}

function post(path, fields, done, failed) {
  const request = new XMLHttpRequest();
  request.open("POST", path);
  request.responseType = "document";
  request.setRequestHeader("Content-Type", "application/x-www-form-urlencoded");
  request.addEventListener("load", () => done(request));
  request.addEventListener("error", () => failed?.());
  request.send(fields.toString());
  return request;
}

const fieldsOf = () => new URLSearchParams(new FormData(form));
let asked = null;

function check() {
  asked?.abort();
  const fields = fieldsOf();
  // What nobody looks at is not compared.
  if (!form.querySelector(".against")?.open) fields.delete("against");
  asked = post(form.dataset.check, fields, (request) => {
    if (request.status !== 200) return;
    for (const id of ["checked", "difference"]) {
      const part = request.response?.getElementById(id);
      const old = document.getElementById(id);
      if (part && old && !old.contains(document.activeElement)) old.replaceWith(document.importNode(part, true));
    }
    links();
    mend();
  });
}

function say(words) {
  document.getElementById("said").textContent = words;
}

// The server remembers it, and the next page has it so.
function wrap(action) {
  box.classList.toggle("whole-lines", action !== "wrap");
  for (const button of form.querySelectorAll(".lines button")) {
    button.setAttribute("aria-pressed", String(button.value === action));
  }
  const body = new URLSearchParams({ _token: form.elements.namedItem("_token").value, action });
  // It arrives even if the page is left at once.
  fetch(form.getAttribute("action"), { method: "POST", body, keepalive: true, redirect: "manual" }).catch(() => {});
}

// What was said of a form that was refused: the draft is saved.
function settle() {
  delete form.dataset.mends;
  for (const said of form.querySelectorAll(".conflict, .problems, [id^='e-']")) said.remove();
  for (const field of form.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-errormessage");
  }
  document.title = document.title.replace("Error: ", "");
}

let isSaving = false;
// The button that was pressed while the draft is saved.
let next = null;

function finish() {
  isSaving = false;
  const button = next;
  next = null;
  return button;
}

// Sent meanwhile, the form would be in conflict with the draft that it has just saved.
function wait(event) {
  if (!isSaving || event.target !== form || event.submitter?.value === "try") return;
  event.preventDefault();
  event.stopImmediatePropagation();
  next = event.submitter;
}

// Saves the draft, and goes on in it. What is refused is sent as the button sends it: the answer says why.
function save() {
  if (isSaving || !form.reportValidity()) return;
  isSaving = true;
  form.dispatchEvent(new Event("saving"));
  const fields = fieldsOf();
  fields.set("action", "draft");
  fields.set("then", "stay");
  post(form.getAttribute("action"), fields, (request) => {
    const button = finish();
    const fresh = request.response;
    if (!fresh?.querySelector("[data-accepted]")) {
      form.requestSubmit(form.querySelector("button[value=draft]"));
      return;
    }
    for (const name of ["_token", "_key", "_return"]) {
      const own = form.elements.namedItem(name);
      if (own) own.value = fresh.querySelector(`#save [name='${name}']`)?.value ?? own.value;
    }
    // The page may have what somebody else has saved since: that is another draft than this one.
    const url = new URL(request.responseURL);
    form.elements.namedItem("was").value = url.searchParams.get("saved");
    url.searchParams.delete("saved");
    history.replaceState(null, "", url);
    settle();
    form.dispatchEvent(new Event("saved"));
    say("The draft was saved.");
    if (button) form.requestSubmit(button);
  }, () => {
    finish();
    say("The draft was not saved: the server cannot be reached.");
  });
}

function press(event) {
  const isOurs = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
  if (!isOurs || document.querySelector("dialog[open]")) return;
  if (event.key.toLowerCase() === "s") {
    event.preventDefault();
    save();
  } else if (event.key === "Enter" && form.contains(event.target) && !event.target.closest("a")) {
    event.preventDefault();
    form.requestSubmit(form.querySelector("button[value=publish]"));
  }
}

if (form && text) {
  gutter.className = "gutter";
  gutter.setAttribute("aria-hidden", "true");
  numbers.className = "numbers";
  gutter.append(numbers);
  box.prepend(gutter);
  number();
  links();
  new ResizeObserver(measure).observe(text);
  let timer = 0;
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(check, PAUSE);
  };
  text.addEventListener("input", () => {
    number();
    say("");
    later();
  });
  for (const name of ["environment", "against"]) form.elements.namedItem(name)?.addEventListener("change", check);
  form.elements.namedItem("model")?.addEventListener("input", later);
  form.querySelector(".against")?.addEventListener("toggle", (event) => event.target.open && check());
  text.addEventListener("scroll", follow, { passive: true });
  for (const button of form.querySelectorAll(".lines button")) {
    button.addEventListener("click", (event) => {
      event.preventDefault();
      wrap(button.value);
    });
  }
  addEventListener("keydown", press);
  addEventListener("submit", wait, true);
}
