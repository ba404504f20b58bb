// Shows the answer of a model as it comes. What is no stream is a page, which is shown: what it says has been
// asked, and is not asked again.
let form, answer, stop, button;
let asking = null;

function fact(list, name, value) {
  const term = document.createElement("dt");
  term.textContent = name;
  const text = document.createElement("dd");
  text.textContent = value ?? "not said";
  list.append(term, text);
}

function figures(done) {
  const list = document.createElement("dl");
  list.className = "facts";
  fact(list, "Model", done.model);
  fact(list, "Ended", done.stopReason);
  fact(list, "Input tokens", done.inputTokens ?? "not counted");
  fact(list, "Output tokens", done.outputTokens ?? "not counted");
  fact(list, "Time", `${(done.tookMs / 1000).toFixed(1)} s`);
  fact(list, "Cost", done.costUsd === null ? done.costNote : `$${done.costUsd}`);
  if (done.missing.length > 0) fact(list, "Without a value", done.missing.join(", "));
  return list;
}

function problem(message) {
  const line = document.createElement("p");
  line.className = "error";
  line.textContent = message;
  answer.append(line);
}

// Takes an event; returns whether it is the last one.
function take(event, shown) {
  const lines = event.split("\n");
  const name = lines.find((line) => line.startsWith("event: "))?.slice(7);
  const data = lines.find((line) => line.startsWith("data: "))?.slice(6);
  if (!name || !data) return false;
  const said = JSON.parse(data);
  if (name === "delta") shown.append(said.text);
  if (name === "done") {
    shown.textContent = said.text;
    answer.append(figures(said));
  }
  if (name === "error") problem(said.message);
  return name !== "delta";
}

async function read(response) {
  const shown = document.createElement("pre");
  shown.className = "source plain";
  shown.tabIndex = 0;
  shown.setAttribute("aria-labelledby", "s-answer");
  answer.replaceChildren(shown);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let isOver = false;
  while (!isOver) {
    const { value, done } = await reader.read();
    if (done) break;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) isOver = take(event, shown) || isOver;
  }
  if (!isOver) problem("The connection broke off.");
}

// What is no stream: to sign in, for example; nothing was asked.
function show(response) {
  if (response.redirected) return location.assign(response.url);
  answer.replaceChildren();
  problem(`The server refuses it (status ${response.status}).`);
}

async function ask(event) {
  event.preventDefault();
  delete form.dataset.sent;
  if (asking) return;
  asking = new AbortController();
  button.disabled = true;
  stop.hidden = false;
  const fields = new URLSearchParams(new FormData(form));
  fields.set("stream", "yes");
  try {
    const headers = { Accept: "text/event-stream, text/html" };
    const response = await fetch(form.action, { method: "POST", body: fields, headers, signal: asking.signal });
    if (!response.headers.get("content-type")?.startsWith("text/event-stream")) {
      show(response);
      return;
    }
    await read(response);
  } catch (error) {
    problem(error.name === "AbortError" ? "Stopped." : "The server cannot be reached.");
  } finally {
    asking = null;
    if (button) button.disabled = false;
    if (stop) stop.hidden = true;
  }
}

function start() {
  form = document.querySelector("form[data-try]");
  answer = document.getElementById("answer");
  stop = form?.querySelector("[data-stop]");
  button = form?.querySelector("button.primary");
  if (!form || !answer || !stop) return;
  form.addEventListener("submit", ask);
  stop.addEventListener("click", () => asking?.abort());
}

start();
