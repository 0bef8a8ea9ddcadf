// Light, dark, or as the system has it.

export type Theme = "system" | "light" | "dark";

const STORED = "belljar.theme";
const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };

export function storedTheme(): Theme {
  const stored = localStorage.getItem(STORED);
  return stored === "light" || stored === "dark" ? stored : "system";
}

export function applyTheme(theme: Theme) {
  if (theme === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = theme;
}

export function nextTheme(theme: Theme): Theme {
  const next = NEXT[theme];
  localStorage.setItem(STORED, next);
  applyTheme(next);
  return next;
}
