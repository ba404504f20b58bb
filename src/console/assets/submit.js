// A page that was sent for after signing in again, or in answer to a form of another, has its own address.
const at = document.getElementById("main")?.dataset.at;
if (at) history.replaceState(null, "", at);
// A form is sent once: its buttons rest until the next page, or until it is shown again by Back.
for (const form of document.querySelectorAll("form[method=post]")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent !== undefined) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "";
  });
}
addEventListener("pageshow", (event) => {
  // The browser has kept the page as it was; who looks at it may have signed out since.
  if (event.persisted) location.reload();
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});
// The summary of problems is read first.
document.querySelector(".problems")?.focus();
// A draft is of no use once the server says, on the next page, that it has accepted what was sent.
// Any other page (an error, signing in) leaves the draft where it is.
try {
  const sent = sessionStorage.getItem("sent");
  sessionStorage.removeItem("sent");
  if (sent && document.querySelector("[data-accepted]")) localStorage.removeItem(sent);
} catch { /* Without storage there is no draft. */ }
