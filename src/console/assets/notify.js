// The switch for notifications of this browser, on the page of the account. The browser keeps it; live.js
// goes by it.
const KEY = "notify";
const part = document.querySelector("[data-notify]");

function kept() {
  try { return localStorage.getItem(KEY); } catch { return null; }
}

if (part && "Notification" in window && isSecureContext) {
  const button = part.querySelector("button");
  const isOn = () => kept() === "1" && Notification.permission === "granted";
  const show = () => {
    button.textContent = isOn() ? "Switch off" : "Switch on";
    part.querySelector("[data-blocked]").hidden = Notification.permission !== "denied";
  };
  button.addEventListener("click", async () => {
    const isWanted = !isOn();
    if (isWanted) await Notification.requestPermission();
    try { localStorage.setItem(KEY, isWanted ? "1" : "0"); } catch { /* Then it stays off. */ }
    show();
  });
  show();
  part.hidden = false;
}
