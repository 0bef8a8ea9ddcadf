// Dialogs on the browser's own `<dialog>`: it traps the focus, makes the rest inert and closes with Escape.

import { useEffect, useId, useRef, useState } from "react";
import type { FormEvent, MouseEvent, ReactNode } from "react";
import { Problem } from "./basics";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ReactNode;
  /** The button that does it. Without one, there is only a button that closes. */
  action?: string;
  danger?: boolean;
  onAction?: (form: FormData) => Promise<unknown>;
}

/** The second click of a double click was meant for the opener, and decides nothing. */
function refuseDoubleClick(event: MouseEvent) {
  if (event.detail > 1) event.preventDefault();
}

export function Dialog({ title, onClose, children, action, danger, onAction }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const id = useId();
  useEffect(() => element.current?.showModal(), []);
  // The browser gives the focus back to the opener, but only on `close`: not if the element is removed.
  const close = () => {
    if (element.current?.open) element.current.close();
    else onClose();
  };
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    setBusy(true);
    try {
      await onAction?.(new FormData(event.currentTarget));
      close();
    } catch (cause) {
      setError(cause);
      setBusy(false);
    }
  };
  return (
    <dialog ref={element} aria-labelledby={id} onClose={onClose}>
      <form onSubmit={submit}>
        <h2 id={id}>{title}</h2>
        {children}
        {error !== undefined && <Problem error={error} />}
        <div className="buttons">
          <button type="button" onClick={close}>{action ? "Back" : "Close"}</button>
          {action && <button className={danger ? "danger" : "primary"} disabled={busy} aria-busy={busy} onClick={refuseDoubleClick}>{action}</button>}
        </div>
      </form>
    </dialog>
  );
}

/** A labelled field of a form. */
export function Field({ label, hint, children }: { label: string; hint?: string; children: ReactNode }) {
  return (
    <div className="field">
      <label>
        <span>{label}{hint && <> — {hint}</>}</span>
        {children}
      </label>
    </div>
  );
}

/** The text of a field, or nothing if it is empty. */
export function text(form: FormData, name: string) {
  const value = form.get(name);
  return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
}

/** The number in a field, or nothing if it is empty. */
export function numeral(form: FormData, name: string) {
  const value = text(form, name);
  return value === undefined ? undefined : Number(value);
}
