// Shows times in the reader's zone, with the year if it is another one; the exact one is in the title.
const parts = { month: "short", day: "2-digit", hour: "2-digit", minute: "2-digit" };
const ofThisYear = new Intl.DateTimeFormat(undefined, parts);
const ofAnother = new Intl.DateTimeFormat(undefined, { year: "numeric", ...parts });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
const thisYear = new Date().getFullYear();

function localize(root) {
  for (const time of root.querySelectorAll("time[datetime]:not([data-local])")) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    const format = date.getFullYear() === thisYear ? ofThisYear : ofAnother;
    time.textContent = format.format(date);
    time.title = exact.format(date);
    time.dataset.local = "";
  }
}

localize(document);
// A part of the page was replaced.
document.addEventListener("changed", (event) => localize(event.target));
