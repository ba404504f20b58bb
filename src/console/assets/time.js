// Shows times in the reader's zone; the exact one is in the title.
const format = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "2-digit", hour: "2-digit", minute: "2-digit",
});
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

function localize(root) {
  for (const time of root.querySelectorAll("time[datetime]:not([data-local])")) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    time.textContent = format.format(date);
    time.title = exact.format(date);
    time.dataset.local = "";
  }
}

localize(document);
// A part of the page was replaced.
document.addEventListener("changed", (event) => localize(event.target));
