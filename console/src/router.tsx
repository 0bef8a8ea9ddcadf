// The address of the page. Every view has one, so that it can be linked and reloaded.

import { useSyncExternalStore } from "react";
import type { AnchorHTMLAttributes, MouseEvent } from "react";

const BASE = import.meta.env.BASE_URL.replace(/\/$/, "");
const CHANGED = "belljar:navigated";

function subscribe(listener: () => void) {
  addEventListener("popstate", listener);
  addEventListener(CHANGED, listener);
  return () => {
    removeEventListener("popstate", listener);
    removeEventListener(CHANGED, listener);
  };
}

const current = () => location.pathname.slice(BASE.length) + location.search + location.hash;

export function useLocation() {
  const url = new URL(useSyncExternalStore(subscribe, current) || "/", "http://console");
  return { path: url.pathname, query: url.searchParams, hash: url.hash.slice(1) };
}

export function navigate(to: string, how: "push" | "replace" = "push") {
  if (how === "push") history.pushState(null, "", BASE + to);
  else history.replaceState(null, "", BASE + to);
  dispatchEvent(new Event(CHANGED));
}

/** Changes parts of the query; empty values are removed. */
export function setQuery(changes: Record<string, string>) {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(changes)) {
    if (value) url.searchParams.set(name, value);
    else url.searchParams.delete(name);
  }
  navigate(url.pathname.slice(BASE.length) + url.search, "replace");
}

type LinkProps = AnchorHTMLAttributes<HTMLAnchorElement> & { to: string };

export function Link({ to, ...rest }: LinkProps) {
  const open = (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(to);
  };
  return <a href={BASE + to} onClick={open} {...rest} />;
}
