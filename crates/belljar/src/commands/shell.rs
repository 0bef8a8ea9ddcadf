//! `belljar shell`: a terminal inside.

use std::io::{self, IsTerminal as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::Context as _;
use belljar_domain::{End, Limits};
use belljar_node::{Call, Event, Input};
use tokio::signal::unix::{SignalKind, signal};

use super::language;
use crate::cli::Shell;
use crate::config::Config;
use crate::output::{Printer, hinted};
use crate::session::{self, SHELL_TIME, Session};
use crate::terminal::Raw;
use crate::{limits, relay, terminal};

pub(crate) async fn run(options: &Shell, config: &Config, printer: &Printer) -> anyhow::Result<u8> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let error = anyhow::anyhow!("a shell needs a terminal on standard input and output");
        return Err(hinted(error, "`belljar exec -- sh` reads commands from a pipe"));
    }
    let limits = Limits { wall: SHELL_TIME, output_bytes: 1 << 50, ..Limits::default() };
    session::within(&options.sandbox, limits, config, printer, async |session| {
        session.prepare(&options.sandbox, printer).await?;
        let end = converse(session, options).await?;
        let collected = session.collect(&options.sandbox, &end, printer).await;
        if let Some((what, hint)) = limits::explain(&end, &session.limits) {
            printer.always(what);
            if let Some(hint) = hint {
                printer.always(format_args!("hint: {hint}"));
            }
        }
        collected.map(|()| end.status())
    })
    .await
}

/// Connects our terminal with the one inside until the shell ends.
async fn converse(session: &Session, options: &Shell) -> anyhow::Result<End> {
    let argv: Vec<&[u8]> = match options.command.as_slice() {
        [] => vec![b"/bin/sh", b"-l"],
        words => words.iter().map(|word| word.as_bytes()).collect(),
    };
    let mut command = session.command(argv, &options.sandbox);
    if options.command.is_empty() {
        let shell = language::named("bash")?.interpreter(&session.template);
        let shell = shell.unwrap_or_else(|_| "/bin/sh".into());
        command.argv[0] = shell.as_os_str().as_bytes().to_vec();
        if shell == Path::new("/bin/sh") {
            command.argv.truncate(1);
        }
    }
    command.input = Input::Stream;
    command.pty = Some(terminal::size());
    let mut resized = signal(SignalKind::window_change()).context("cannot listen for signals")?;
    let mut call = session.sandbox.start(&command).await.context("cannot start the shell")?;
    let _raw = Raw::enter().context("cannot set up the terminal")?;
    relay::feed(call.writer());
    loop {
        tokio::select! {
            event = call.next() => match event {
                Event::Stdout(bytes) | Event::Stderr(bytes) => show(&call, &bytes),
                Event::End(end) => return Ok(end),
            },
            _ = resized.recv() => {
                // A shell that has just ended has no size to set.
                let _ = call.resize(terminal::size()).await;
            }
        }
    }
}

/// The terminal is read by a person or has gone; if it has gone, so has the
/// reason for the shell.
fn show(call: &Call, bytes: &[u8]) {
    if relay::to_terminal(bytes).is_err() {
        call.kill();
    }
}
