// Tasks are moved by their handles: dragged to a column, or with the arrow keys. Without this script
// each card has a list and a button.
const main = document.getElementById("main");
let held = null;

const column = (element) => element?.closest("[data-status]") ?? null;

function mark(target) {
  for (const one of document.querySelectorAll("[data-status]")) one.classList.toggle("over", one === target);
}

function move(number, status) {
  const form = document.getElementById("board");
  const fields = new URLSearchParams(new FormData(form));
  fields.set("task", number);
  fields.set(`to-${number}`, status);
  const request = new XMLHttpRequest();
  request.open("POST", form.getAttribute("action"));
  request.responseType = "document";
  request.setRequestHeader("Content-Type", "application/x-www-form-urlencoded");
  request.addEventListener("load", () => {
    for (const id of ["board", "status", "tabs"]) {
      const fresh = request.response?.getElementById(id);
      const old = document.getElementById(id);
      if (!fresh || !old) return location.reload();
      // A region that is announced stays; its content changes.
      old.replaceChildren(...document.importNode(fresh, true).childNodes);
    }
    main.dispatchEvent(new Event("changed", { bubbles: true }));
    document.querySelector(`[data-grip="${number}"]`)?.focus();
  });
  request.addEventListener("error", () => {
    const said = document.createElement("p");
    said.className = "flash";
    said.textContent = "The task was not moved: the server cannot be reached. Try again.";
    document.getElementById("status").replaceChildren(said);
  });
  request.send(fields.toString());
}

function drop(number, from, to) {
  if (to && from !== to) move(number, to.dataset.status);
}

main.addEventListener("pointerdown", (event) => {
  const grip = event.target.closest("[data-grip]");
  if (!grip || event.button !== 0) return;
  held = grip;
  grip.setPointerCapture(event.pointerId);
  grip.closest("li").classList.add("held");
});
main.addEventListener("pointermove", (event) => {
  if (held) mark(column(document.elementFromPoint(event.clientX, event.clientY)));
});
function release(event) {
  if (!held) return;
  const grip = held;
  held = null;
  grip.closest("li").classList.remove("held");
  mark(null);
  if (event.type !== "pointerup") return;
  drop(grip.dataset.grip, column(grip), column(document.elementFromPoint(event.clientX, event.clientY)));
}
main.addEventListener("pointerup", release);
main.addEventListener("pointercancel", release);
main.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const grip = event.target.closest("[data-grip]");
  if (!step || !grip) return;
  event.preventDefault();
  const all = [...document.querySelectorAll("[data-status]")];
  drop(grip.dataset.grip, column(grip), all[all.indexOf(column(grip)) + step]);
});
main.classList.add("with-grips");
