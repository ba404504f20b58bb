// The palette: a dialog with what the page of the search has for what is typed. Arrows walk through it, Enter
// goes there, Escape closes it.
const PAUSE = 120;
const MOST = 12;

export function open(find) {
  const dialog = document.createElement("dialog");
  const field = document.createElement("input");
  const list = document.createElement("ul");
  const told = document.createElement("p");
  dialog.className = "palette";
  dialog.setAttribute("aria-label", "Find or do");
  Object.assign(field, { type: "search", placeholder: "Find or do: promote, new task in …", autocomplete: "off" });
  field.role = "combobox";
  Object.assign(list, { id: "palette", className: "choices" });
  list.role = "listbox";
  list.setAttribute("aria-label", "What was found");
  told.role = "status";
  told.className = "muted";
  for (const [name, value] of [["label", "Find or do"], ["autocomplete", "list"], ["controls", "palette"], ["expanded", "true"]]) {
    field.setAttribute(`aria-${name}`, value);
  }
  dialog.append(field, list, told);
  let timer = 0;
  let asked = null;
  let at = 0;
  // Whether Enter was pressed before what was typed is answered.
  let isAwaited = false;

  function mark(to) {
    const all = [...list.children];
    at = all.length === 0 ? -1 : (to + all.length) % all.length;
    all.forEach((one, i) => one.setAttribute("aria-selected", String(i === at)));
    if (at < 0) field.removeAttribute("aria-activedescendant");
    else {
      field.setAttribute("aria-activedescendant", all[at].id);
      all[at].scrollIntoView({ block: "nearest" });
    }
  }

  function go() {
    const path = list.children[at]?.dataset.path;
    isAwaited = !path;
    if (path) location.assign(path);
  }

  function show(answer) {
    const links = [...answer?.querySelectorAll("main .hits a") ?? []].slice(0, MOST);
    list.replaceChildren(...links.map((link, i) => {
      const option = document.createElement("li");
      const group = link.closest("section")?.querySelector("h2")?.textContent ?? "";
      const kind = document.createElement("small");
      const detail = link.parentElement.querySelector("code")?.textContent ?? "";
      kind.textContent = ` ${group}${detail && ` · ${detail}`}`;
      option.append(link.textContent, kind);
      Object.assign(option, { id: `palette-${i}`, role: "option" });
      option.dataset.path = link.getAttribute("href");
      option.addEventListener("click", () => location.assign(option.dataset.path));
      return option;
    }));
    told.textContent = links.length === 0 ? "Nothing was found." : `${links.length} found`;
    told.classList.toggle("hidden", links.length > 0);
    mark(0);
    if (isAwaited) go();
  }

  function ask() {
    asked?.abort();
    asked = new XMLHttpRequest();
    asked.open("GET", `${find}?${new URLSearchParams({ q: field.value.trim() })}`);
    asked.responseType = "document";
    const request = asked;
    request.addEventListener("load", () => {
      if (request === asked) show(request.status === 200 ? request.response : null);
    });
    request.send();
  }

  field.addEventListener("input", () => {
    clearTimeout(timer);
    asked?.abort();
    // What is listed fits what was typed before: Enter is not to go there.
    isAwaited = false;
    list.replaceChildren();
    mark(0);
    timer = setTimeout(ask, PAUSE);
  });
  field.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      mark(at + step);
    } else if (event.key === "Enter") {
      event.preventDefault();
      go();
    }
  });
  dialog.addEventListener("close", () => {
    clearTimeout(timer);
    asked?.abort();
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
  field.focus();
  ask();
}
