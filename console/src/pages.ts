// The pages of the console. Each is loaded when it is opened.

import { lazy } from "react";
import type { ComponentType } from "react";

/** The pages in the navigation, with the key that opens them after `g`. */
export const PAGES = [
  { path: "/runs", name: "Runs", key: "r" },
  { path: "/approvals", name: "Approvals", key: "a" },
  { path: "/sandboxes", name: "Sandboxes", key: "s" },
  { path: "/workflows", name: "Workflows", key: "w" },
  { path: "/usage", name: "Usage", key: "u" },
  { path: "/data", name: "Data", key: "d" },
  { path: "/templates", name: "Templates", key: "t" },
];

interface Route {
  pattern: RegExp;
  page: ComponentType<{ id: string }>;
}

const ROUTES: Route[] = [
  { pattern: /^\/runs$/, page: lazy(() => import("./runs/list")) },
  { pattern: /^\/runs\/new$/, page: lazy(() => import("./runs/create")) },
  { pattern: /^\/runs\/([^/]+)$/, page: lazy(() => import("./runs/run")) },
  { pattern: /^\/approvals$/, page: lazy(() => import("./approvals/list")) },
  { pattern: /^\/sandboxes$/, page: lazy(() => import("./sandboxes/list")) },
  { pattern: /^\/sandboxes\/([^/]+)$/, page: lazy(() => import("./sandboxes/sandbox")) },
  { pattern: /^\/workflows$/, page: lazy(() => import("./workflows/list")) },
  { pattern: /^\/workflows\/([^/]+)$/, page: lazy(() => import("./workflows/workflow")) },
  { pattern: /^\/usage$/, page: lazy(() => import("./usage/usage")) },
  { pattern: /^\/data$/, page: lazy(() => import("./data/list")) },
  { pattern: /^\/templates$/, page: lazy(() => import("./templates/list")) },
];

/** The page at a path, and the id in it. */
export function pageAt(path: string) {
  for (const { pattern, page } of ROUTES) {
    const found = pattern.exec(path);
    if (found) return { page, id: decodeURIComponent(found[1] ?? "") };
  }
  return undefined;
}
