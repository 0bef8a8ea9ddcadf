//! Asks for approvals on the terminal, where a command has a gateway of its own.
//!
//! Nothing else could decide: no server has these requests. Without a terminal they are denied.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};

use belljar_model::approval::{ApprovalAnswer, ApprovalRequest};
use belljar_node::Gateway;

use crate::output::printable;

/// Ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Asking(tokio::task::JoinHandle<()>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Asks for each request that waits, one after the other.
pub(crate) fn ask(gateway: &Gateway) -> Asking {
    let gateway = gateway.clone();
    Asking(tokio::spawn(async move {
        let mut changes = gateway.watch_approvals();
        let mut asked = HashSet::new();
        loop {
            let waiting = gateway.approvals();
            asked.retain(|id| waiting.iter().any(|one| &one.id == id));
            for pending in waiting {
                if !asked.insert(pending.id.clone()) {
                    continue;
                }
                let request = pending.request;
                let answer = tokio::task::spawn_blocking(move || on_terminal(&request)).await;
                let answer = answer.ok().and_then(Result::ok).unwrap_or_else(|| ApprovalAnswer {
                    is_approved: false,
                    message: Some("no terminal to ask on".to_owned()),
                });
                gateway.decide(&pending.id, answer);
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }))
}

fn on_terminal(request: &ApprovalRequest) -> io::Result<ApprovalAnswer> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    decide(request, &terminal)
}

fn decide(request: &ApprovalRequest, mut terminal: &File) -> io::Result<ApprovalAnswer> {
    let ApprovalRequest { operation, repository, changes, .. } = request;
    writeln!(terminal, "\n{operation}: {} wants approval:", printable(repository))?;
    for change in changes {
        writeln!(terminal, "  {}", printable(change))?;
    }
    write!(terminal, "approve? [y/N] ")?;
    terminal.flush()?;
    let mut line = String::new();
    BufReader::new(terminal).read_line(&mut line)?;
    let is_approved = matches!(line.trim(), "y" | "Y" | "yes");
    Ok(ApprovalAnswer { is_approved, message: None })
}
