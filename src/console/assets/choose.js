// A field in which something is chosen is a combobox: what fits what is typed is listed below it. Arrows walk
// through the list, Enter takes one, Escape closes it. Whoever reads it by ear is told how many there are.
const PAUSE = 150;
let numbered = 0;

function setUp(field) {
  const id = `choices-${numbered += 1}`;
  const list = document.createElement("ul");
  const told = document.createElement("span");
  Object.assign(list, { id, className: "choices", hidden: true, role: "listbox" });
  list.setAttribute("aria-label", "Choices");
  told.className = "hidden";
  told.role = "status";
  field.after(list, told);
  const set = (name, value) => field.setAttribute(`aria-${name}`, value);
  field.role = "combobox";
  field.autocomplete = "off";
  set("autocomplete", "list");
  set("controls", id);
  set("expanded", "false");
  let timer = 0;
  let asked = null;
  let at = -1;

  const options = () => [...list.children];
  const typed = () => "many" in field.dataset ? field.value.slice(field.value.lastIndexOf(",") + 1) : field.value;

  function close() {
    clearTimeout(timer);
    asked?.abort();
    list.hidden = true;
    unmark();
    set("expanded", "false");
  }

  function unmark() {
    at = -1;
    options().forEach((one) => one.setAttribute("aria-selected", "false"));
    field.removeAttribute("aria-activedescendant");
  }

  function mark(to) {
    const all = options();
    if (all.length === 0) return;
    at = (to + all.length) % all.length;
    all.forEach((one, i) => one.setAttribute("aria-selected", String(i === at)));
    all[at].scrollIntoView({ block: "nearest" });
    field.setAttribute("aria-activedescendant", all[at].id);
  }

  function take(option) {
    const kept = field.value.slice(0, field.value.length - typed().length);
    field.value = `${kept && `${kept.trim()} `}${option.dataset.value}`;
    told.textContent = `${option.dataset.value} chosen`;
    close();
    field.dispatchEvent(new Event("change", { bubbles: true }));
  }

  function show(answer) {
    const found = [...answer?.querySelectorAll("#choices li") ?? []];
    list.replaceChildren(...found.map((one, i) => {
      const option = document.importNode(one, true);
      Object.assign(option, { id: `${id}-${i}`, role: "option" });
      option.setAttribute("aria-selected", "false");
      option.addEventListener("pointerdown", (event) => event.preventDefault());
      option.addEventListener("click", () => take(option));
      return option;
    }));
    at = -1;
    field.removeAttribute("aria-activedescendant");
    list.hidden = found.length === 0;
    set("expanded", String(found.length > 0));
    told.textContent = found.length === 1 ? "1 choice" : `${found.length || "No"} choices`;
  }

  function ask() {
    asked?.abort();
    const query = new URLSearchParams({ q: typed().trim() });
    const [registry, prompt] = (field.dataset.from ?? " ").split(" ");
    const of = (name) => field.form?.elements.namedItem(name)?.value ?? "";
    if (registry) query.set("registry", of(registry));
    if (prompt) query.set("prompt", of(prompt));
    asked = new XMLHttpRequest();
    asked.open("GET", `${field.dataset.choose}&${query}`);
    asked.responseType = "document";
    const request = asked;
    request.addEventListener("load", () => {
      if (request === asked && document.activeElement === field) show(request.status === 200 ? request.response : null);
    });
    request.send();
  }

  const later = () => {
    clearTimeout(timer);
    asked?.abort();
    // What was marked fits what was typed before: Enter is not to take it.
    unmark();
    timer = setTimeout(ask, PAUSE);
  };
  field.addEventListener("input", later);
  field.addEventListener("click", () => { if (list.hidden) later(); });
  field.addEventListener("blur", close);
  field.addEventListener("keydown", (event) => {
    if (event.isComposing || event.ctrlKey || event.metaKey) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      if (list.hidden) ask();
      else mark(at < 0 && step < 0 ? -1 : at + step);
    } else if (event.key === "Enter" && at >= 0) {
      event.preventDefault();
      take(options()[at]);
    } else if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      event.stopPropagation();
      close();
    }
  });
}

document.querySelectorAll("[data-choose]").forEach(setUp);
