// Copies what a button names. Without scripts, or over plain http, the button is not there.
if (navigator.clipboard) {
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.dataset.copy);
      const status = document.getElementById("status");
      if (status) status.textContent = "Copied.";
    });
  }
}
