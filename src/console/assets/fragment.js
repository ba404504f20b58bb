// Moves the token of a setup or invitation link into the form, and out of the address bar.
const token = location.hash.slice(1);
const field = document.querySelector("[data-fragment]");
const input = field?.querySelector("input");
if (token && input) {
  input.value = token;
  field.hidden = true;
  history.replaceState(null, "", location.pathname + location.search);
  const form = field.closest("[data-at-once]");
  form?.requestSubmit(form.querySelector("button.primary"));
}
