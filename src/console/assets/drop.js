// Takes files that are dropped anywhere on the page, and says which are chosen.
const input = document.querySelector("input[type=file]");

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

if (input) {
  const list = document.createElement("ul");
  list.className = "plain-list";
  const hint = element("p", "Or drop them on this page.");
  hint.className = "hint";
  const said = document.createElement("div");
  said.setAttribute("role", "status");
  said.append(list);
  input.after(hint, said);
  const say = () => list.replaceChildren(...[...input.files].map((file) => element("li", file.name)));
  input.addEventListener("change", say);
  document.addEventListener("dragover", (event) => {
    if (event.dataTransfer.types.includes("Files")) event.preventDefault();
  });
  document.addEventListener("drop", (event) => {
    const files = [...event.dataTransfer.files];
    if (files.length === 0) return;
    event.preventDefault();
    const taken = new DataTransfer();
    for (const file of input.multiple ? files : files.slice(0, 1)) taken.items.add(file);
    input.files = taken.files;
    say();
  });
}
