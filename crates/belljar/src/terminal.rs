//! Our own terminal, while it belongs to a shell inside a sandbox.

use std::io;
use std::panic;

use belljar_node::PtySize;
use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// The terminal's size; a common one if it does not say.
pub(crate) fn size() -> PtySize {
    match tcgetwinsize(stdin()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => {
            PtySize { rows: size.ws_row, cols: size.ws_col }
        }
        _ => PtySize { rows: 24, cols: 80 },
    }
}

/// Raw mode: every key goes inside, Ctrl-C included. Dropping it gives the
/// terminal back as it was; so does a panic, which in a release ends the
/// process without dropping anything.
#[derive(Debug)]
pub(crate) struct Raw {
    before: Termios,
}

impl Raw {
    pub(crate) fn enter() -> io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let on_panic = before.clone();
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            restore(&on_panic);
            report(info);
        }));
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Drain, &raw)?;
        Ok(Self { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore(&self.before);
    }
}

fn restore(before: &Termios) {
    // What was typed ahead for the shell inside is not for the one outside.
    let _ = tcsetattr(stdin(), OptionalActions::Flush, before);
}
