// The switch for shortcuts of a single key, and the keys that count as one.

const STORED = "belljar.shortcuts";

/** Speech input and shaky hands press letters by accident: the shortcuts can be turned off. */
export const areShortcutsOn = () => localStorage.getItem(STORED) !== "off";

export function setShortcuts(on: boolean) {
  if (on) localStorage.removeItem(STORED);
  else localStorage.setItem(STORED, "off");
}

function isTyping(target: EventTarget | null) {
  const element = target as Partial<HTMLElement> | null;
  return element?.isContentEditable === true || /^(INPUT|TEXTAREA|SELECT)$/.test(element?.tagName ?? "");
}

/** Returns true if a key may act as a shortcut: without a modifier, outside of fields and dialogs. */
export function isShortcut(event: KeyboardEvent) {
  return areShortcutsOn() && !event.metaKey && !event.ctrlKey && !event.altKey && !isTyping(event.target) && !document.querySelector("dialog[open]");
}
