// Pages and parsers are loaded when they are needed. After an upgrade, an open tab asks for files that the server no
// longer has.

const RELOADED = "belljar.reloaded";
/** A second failure so soon after a reload is not an upgrade. */
const AGAIN = 60_000;

/** Returns true if text in a field of the page would be lost. */
const hasDraft = () => Array.from(document.querySelectorAll("textarea")).some((field) => field.value !== "");

/** Reloads the page, unless it just did. Returns true if it does. */
export function reloadOnce(store: Pick<Storage, "getItem" | "setItem">, reload: () => void, now = Date.now()) {
  if (now - Number(store.getItem(RELOADED)) < AGAIN) return false;
  store.setItem(RELOADED, String(now));
  reload();
  return true;
}

export function reloadAfterUpgrade() {
  addEventListener("vite:preloadError", () => {
    if (!hasDraft()) reloadOnce(sessionStorage, () => location.reload());
  });
}
