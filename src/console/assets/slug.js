// Proposes the short name while the name is typed, until somebody types it.
const target = document.querySelector('[name="slug"], [name="stableKey"]');
const fields = target?.form?.elements;
const source = fields?.namedItem("orgName") ?? fields?.namedItem("name");
const MOST = 64;

function proposed(name) {
  const plain = name.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().replaceAll("ß", "ss");
  return plain.replace(/[^a-z0-9]+/g, "-").replace(/^-/, "").slice(0, MOST).replace(/-$/, "");
}

if (source) {
  let isTyped = target.value !== "";
  target.addEventListener("input", () => { isTyped = target.value !== ""; });
  source.addEventListener("input", () => { if (!isTyped) target.value = proposed(source.value); });
}
