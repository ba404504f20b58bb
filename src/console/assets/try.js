// Shows what models answer as it comes: the text of one, or the rows of a comparison.
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

// A link to the page on which what was tried is kept as an input; none that would be too long.
function keep() {
  if (!form.dataset.keep) return "";
  const values = {};
  for (const [name, value] of new FormData(form)) {
    if (name.startsWith("v.") && value) values[name.slice(2)] = value;
  }
  const message = form.elements.message.value.trim();
  const query = new URLSearchParams({ variables: JSON.stringify(values, null, 2), message });
  if (`${query}`.length > Number(form.dataset.keepLength)) return "";
  const link = element("a", "button", ["Keep as an input"]);
  link.href = `${form.dataset.keep}?${query}`;
  return element("p", "actions", [link]);
}

// The text of one answer.
function text() {
  const shown = document.createElement("pre");
  shown.className = "source plain";
  shown.tabIndex = 0;
  shown.setAttribute("aria-labelledby", "s-answer");
  answer.replaceChildren(shown);
  return {
    delta: (said) => shown.append(said.text),
    done: (said) => {
      shown.textContent = said.text;
      answer.append(figures(said), keep());
    },
  };
}

function element(name, className, content) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...content);
  return made;
}

// A state as the page writes it.
function state(of) {
  const known = document.querySelector(`template[data-state="${of}"]`);
  return known.content.cloneNode(true);
}

function score({ criterion, passed, reason }) {
  const why = reason === null ? "" : element("span", "muted", [` ${reason}`]);
  return element("li", "", [state(passed), ` ${criterion}`, why]);
}

function sentence(phrase) {
  return `${phrase[0].toUpperCase()}${phrase.slice(1)}.`;
}

function cell(side) {
  if (side === null) return element("td", "text", [element("span", "muted", ["not run"])]);
  const parts = [];
  if (side.error !== null) parts.push(element("p", "error", [sentence(side.error)]));
  parts.push(element("ul", "plain-list", side.scores.map(score)));
  if (side.text !== null) {
    const cut = side.isCut ? [element("p", "muted", ["Its end is left out."])] : [];
    const whole = [element("summary", "", ["The answer"]), element("p", "text", [side.text]), ...cut];
    parts.push(element("details", "", whole));
  }
  const cost = side.costUsd === null ? "" : `, $${side.costUsd}`;
  const tokens = `${side.inputTokens ?? "?"} + ${side.outputTokens ?? "?"} tokens`;
  parts.push(element("p", "muted", [`${tokens}, ${side.tookMs} ms${cost}`]));
  return element("td", "text", parts);
}

function row(input) {
  const head = element("th", "", [input.input, document.createElement("br"), state(input.change)]);
  head.scope = "row";
  return element("tr", "", [head, cell(input.left), cell(input.right)]);
}

// The rows of a comparison; at the end in the order of the answer.
function rows() {
  const made = document.getElementById("compared").content.cloneNode(true);
  const [told, stopped] = [made.querySelector("[data-told]"), made.querySelector("[data-stopped]")];
  const body = made.querySelector("tbody");
  answer.replaceChildren(made);
  return {
    input: (said) => {
      body.append(row(said));
      told.textContent = `${body.children.length} answered`;
    },
    done: (said) => {
      const [left, right] = answer.querySelectorAll("[data-side]");
      left.textContent = said.left.name;
      right.textContent = said.right.name;
      body.replaceChildren(...said.inputs.map(row));
      const counts = `${said.worse} worse, ${said.better} better, ${said.same} the same, ${said.unknown} unknown`;
      const more = said.costNote === null ? "" : ` and more: ${said.costNote}`;
      told.textContent = `${counts}; $${said.costUsd}${more}`;
      if (said.stopped !== null) {
        const why = document.querySelector(`template[data-stop-of="${said.stopped}"]`);
        stopped.replaceChildren(why.content.cloneNode(true));
      }
    },
  };
}

// Takes an event; returns whether it is the last one.
function take(event, shown) {
  const lines = event.split("\n");
  const name = lines.find((line) => line.startsWith("event: "))?.slice(7);
  const data = lines.find((line) => line.startsWith("data: "))?.slice(6);
  if (!name || !data) return false;
  const said = JSON.parse(data);
  if (name === "error") problem(said.message);
  else shown[name]?.(said);
  return name === "done" || name === "error";
}

async function read(response) {
  const shown = form.dataset.try === "rows" ? rows() : text();
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

// What is no stream: nothing was asked. A page to sign in, or to check what another session entered, is come to
// by sending the form as without a script, with what is in it.
function show(response) {
  if (response.redirected) return location.assign(response.url);
  if (response.status === 401 || response.ok) return form.submit();
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
