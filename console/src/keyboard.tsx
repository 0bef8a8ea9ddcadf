// Shortcuts: `?` lists them, `g` and a letter open a page, `/` goes to the filter.

import { useEffect, useState } from "react";
import { navigate } from "./router";
import { PAGES } from "./pages";
import { areShortcutsOn, isShortcut } from "./shortcuts";
import { Dialog } from "./ui/dialog";

const PATIENCE = 1500;

export function Shortcuts({ shown, show }: { shown: boolean; show: (shown: boolean) => void }) {
  const [, setPrefix] = useState(0);
  useEffect(() => {
    let since = 0;
    const press = (event: KeyboardEvent) => {
      if (!isShortcut(event)) return;
      const page = PAGES.find((it) => it.key === event.key);
      if (Date.now() - since < PATIENCE && page) {
        event.preventDefault();
        navigate(page.path);
      } else if (event.key === "?") {
        show(true);
      } else if (event.key === "n") {
        navigate("/runs/new");
      } else if (event.key === "/") {
        event.preventDefault();
        document.querySelector<HTMLElement>("[data-filter]")?.focus();
      }
      since = event.key === "g" ? Date.now() : 0;
      setPrefix(since);
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [show]);
  if (!shown) return null;
  return (
    <Dialog title="Keyboard" onClose={() => show(false)}>
      {!areShortcutsOn() && <p className="notice">Keys are off. The button ⌨ below the pages turns them on.</p>}
      <table>
        <tbody>
          {PAGES.map((page) => (
            <tr key={page.path}><td className="tight"><kbd>g</kbd> <kbd>{page.key}</kbd></td><td>{page.name}</td></tr>
          ))}
          <tr><td><kbd>n</kbd></td><td>New run</td></tr>
          <tr><td><kbd>/</kbd></td><td>Filter of the list</td></tr>
          <tr><td><kbd>j</kbd> <kbd>k</kbd></td><td>Next and previous turn of a run</td></tr>
          <tr><td><kbd>?</kbd></td><td>This list</td></tr>
          <tr><td><kbd>Esc</kbd></td><td>Close</td></tr>
        </tbody>
      </table>
    </Dialog>
  );
}
