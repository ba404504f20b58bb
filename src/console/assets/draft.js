// Keeps what is typed in this browser until it is sent, and offers it again. Signing out clears it.
const form = document.querySelector("[data-draft]");
const PAUSE = 500;
const PREFIX = "draft:";
// What a draft of a prompt keeps: the model and the message are of what is published.
const SAVED = ["source", "metadata", "version"];

function names() {
  return [...form.elements].filter((field) => field.name && !field.name.startsWith("_")
    && field.type !== "hidden" && field.type !== "password" && field.tagName !== "BUTTON"
    && !field.closest("[data-view]"));
}

function values() {
  return Object.fromEntries(names().map((field) => [field.name, field.value]));
}

if (form) {
  // Whoever signs in here next is not offered the text of another.
  const here = () => `${PREFIX}${form.dataset.draft}:${location.pathname}${location.search}`;
  let key = here();
  let initial = JSON.stringify(values());
  const note = document.createElement("p");
  note.className = "unsaved";
  const store = (value) => {
    try {
      if (value === null) localStorage.removeItem(key);
      else localStorage.setItem(key, value);
    } catch { /* Without storage there is no draft. */ }
  };
  let kept = null;
  try { kept = localStorage.getItem(key); } catch { kept = null; }
  if (kept && kept !== initial) {
    const restore = document.createElement("button");
    restore.type = "button";
    restore.textContent = "Restore what you typed before";
    restore.addEventListener("click", () => {
      const old = JSON.parse(kept);
      for (const field of names()) if (field.name in old) field.value = old[field.name];
      restore.remove();
      form.elements.namedItem("source")?.dispatchEvent(new Event("input", { bubbles: true }));
    });
    form.prepend(restore);
  }
  form.prepend(note);
  note.hidden = true;
  note.textContent = "Not saved yet; this browser keeps it.";
  let timer = 0;
  let isSent = false;
  const isChanged = () => JSON.stringify(values()) !== initial;
  form.addEventListener("input", () => {
    note.hidden = !isChanged();
    clearTimeout(timer);
    timer = setTimeout(() => store(isChanged() ? JSON.stringify(values()) : null), PAUSE);
  });
  form.addEventListener("submit", (event) => {
    isSent = true;
    clearTimeout(timer);
    if (isChanged()) store(JSON.stringify(values()));
    if (event.submitter?.value === "check") return;
    try { sessionStorage.setItem("sent", key); } catch { /* It is offered again. */ }
  });
  // The editor saves by a key, and the page stays, at the address of the draft.
  let saving = initial;
  form.addEventListener("saving", () => { saving = JSON.stringify(values()); });
  form.addEventListener("saved", () => {
    clearTimeout(timer);
    store(null);
    key = here();
    const [sent, now] = [JSON.parse(saving), JSON.parse(initial)];
    for (const name of SAVED) now[name] = sent[name];
    initial = JSON.stringify(now);
    note.hidden = !isChanged();
    if (isChanged()) store(JSON.stringify(values()));
  });
  addEventListener("beforeunload", (event) => {
    if (!isSent && isChanged()) event.preventDefault();
  });
}
