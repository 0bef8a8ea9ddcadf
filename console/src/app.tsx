// The frame of every page: navigation, theme, log-in, and errors of pages.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Suspense, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { api, session } from "./api/client";
import { every } from "./api/poll";
import { Shortcuts } from "./keyboard";
import { Login } from "./login";
import { PAGES, pageAt } from "./pages";
import { Link, navigate, useLocation } from "./router";
import { areShortcutsOn, setShortcuts } from "./shortcuts";
import { nextTheme, storedTheme } from "./theme";
import { Loading, Title } from "./ui/basics";
import { Boundary } from "./ui/boundary";

function Pending() {
  const { data } = useQuery({
    queryKey: ["approvals"],
    queryFn: ({ signal }) => api("get", "/v1/approvals", { signal }),
    refetchInterval: every(5000),
  });
  const pending = data?.items.length ?? 0;
  return pending > 0 ? <span className="badge" aria-label={`${pending} pending`}>{pending}</span> : null;
}

function Navigation({ path, onHelp }: { path: string; onHelp: () => void }) {
  const [theme, setTheme] = useState(storedTheme);
  const [shortcuts, showShortcuts] = useState(areShortcutsOn);
  const switchShortcuts = () => {
    setShortcuts(!shortcuts);
    showShortcuts(!shortcuts);
  };
  const [open, setOpen] = useState(false);
  useEffect(() => setOpen(false), [path]);
  return (
    <header className="side" data-open={open || undefined}>
      <Link to="/runs" className="brand"><img src={`${import.meta.env.BASE_URL}favicon.svg`} alt="" />Belljar</Link>
      <button className="menu" aria-expanded={open} onClick={() => setOpen(!open)}>Menu</button>
      <nav aria-label="Pages">
        {PAGES.map((page) => (
          <Link key={page.path} to={page.path} aria-current={path.startsWith(page.path) ? "page" : undefined}>
            {page.name}{page.path === "/approvals" && <Pending />}
          </Link>
        ))}
      </nav>
      <div className="foot">
        <button onClick={() => setTheme(nextTheme(theme))} aria-label={`Theme: ${theme}`} title="Light, dark, or as the system has it">
          {{ system: "◐", light: "☀", dark: "☾" }[theme]}
        </button>
        <button onClick={switchShortcuts} aria-pressed={shortcuts} aria-label="Single-key shortcuts" title={`Shortcuts of single keys: ${shortcuts ? "on" : "off"}`}>⌨</button>
        <button onClick={onHelp} aria-label="Keyboard shortcuts" title="Keyboard (?)">?</button>
        <button onClick={session.close}>Log out</button>
      </div>
    </header>
  );
}

function Content({ path }: { path: string }) {
  const found = pageAt(path);
  if (!found) {
    return (
      <>
        <Title title="There is no such page" />
        <Link to="/runs">Runs</Link>
      </>
    );
  }
  const { page: Page, id } = found;
  return <Page id={id} />;
}

export function App() {
  const key = useSyncExternalStore(session.subscribe, session.key);
  const { path } = useLocation();
  const [help, setHelp] = useState(false);
  const main = useRef<HTMLElement>(null);
  const queries = useQueryClient();
  // The next key may be another tenant's: it must not see what this one has loaded.
  useEffect(() => {
    if (!key) queries.clear();
  }, [key, queries]);
  useEffect(() => {
    if (path === "/" || path === "") navigate("/runs", "replace");
    main.current?.scrollTo(0, 0);
  }, [path]);
  if (!key) return <Login />;
  return (
    <div className="page">
      <a className="skip" href="#main">To the content</a>
      <Navigation path={path} onHelp={() => setHelp(true)} />
      <main className="content" id="main" ref={main} tabIndex={-1}>
        <Boundary key={path} what="This page failed">
          <Suspense fallback={<Loading />}>
            <Content path={path === "/" ? "/runs" : path} />
          </Suspense>
        </Boundary>
      </main>
      <Shortcuts shown={help} show={setHelp} />
    </div>
  );
}
