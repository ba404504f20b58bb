// Shows how long ago times are, and distant ones in the reader's zone, with the year if it is another one.
// The exact one is in the title. The server counts the same (ago.rs).
const parts = { month: "short", day: "2-digit", hour: "2-digit", minute: "2-digit" };
const ofThisYear = new Intl.DateTimeFormat(undefined, parts);
const ofAnother = new Intl.DateTimeFormat(undefined, { year: "numeric", ...parts });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
const thisYear = new Date().getFullYear();
const MINUTE = 60;
const HOUR = 3600;
const DAY = 86400;

function near(date) {
  const seconds = (Date.now() - date) / 1000;
  const away = Math.abs(seconds);
  if (away >= 14 * DAY) return "";
  if (away < MINUTE) return "just now";
  const [unit, word] = away < HOUR ? [MINUTE, "min"] : away < DAY ? [HOUR, "h"] : [DAY, away < 2 * DAY ? "day" : "days"];
  const text = `${Math.floor(away / unit)} ${word}`;
  return seconds < 0 ? `in ${text}` : `${text} ago`;
}

function localize(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    const format = date.getFullYear() === thisYear ? ofThisYear : ofAnother;
    const text = (time.dataset.exact === undefined && near(date)) || format.format(date);
    if (time.textContent !== text) time.textContent = text;
    time.title = exact.format(date);
  }
}

localize(document);
setInterval(() => localize(document), MINUTE * 1000);
// A part of the page was replaced.
document.addEventListener("changed", (event) => localize(event.target));
