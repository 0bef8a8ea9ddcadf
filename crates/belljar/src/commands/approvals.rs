//! `belljar approvals`: requests of a server or a platform that wait until a human has decided.

use anyhow::{Context as _, anyhow};
use belljar_api::approval::{Approval, ApprovalDecision, DecideApproval};
use belljar_client::Client;

use super::server;
use crate::cli::{Approvals, ApprovalsAction};
use crate::config::Config;
use crate::output::{Hint as _, Printer, printable};
use crate::page::{Align, Grid, Page};

const LIST: &str = "`belljar approvals list --server URL` shows the requests that wait";
const COLUMNS: [&str; 5] = ["APPROVAL", "OPERATION", "REPOSITORY", "ACTION", "UNTIL"];

pub(crate) async fn run(
    options: &Approvals,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let client = server::client(&options.server, options.server_key.as_deref(), config)?;
    match &options.action {
        ApprovalsAction::List => list(&client, config, printer).await?,
        ApprovalsAction::Approve { approval } => {
            decide(&client, approval, ApprovalDecision::Approve, None).await?;
            printer.note(format_args!("approved {approval}"));
        }
        ApprovalsAction::Deny { approval, message } => {
            decide(&client, approval, ApprovalDecision::Deny, message.as_deref()).await?;
            printer.note(format_args!("denied {approval}"));
        }
    }
    Ok(0)
}

async fn decide(
    client: &Client,
    approval: &str,
    decision: ApprovalDecision,
    message: Option<&str>,
) -> anyhow::Result<()> {
    let message = message.map(|text| text.to_owned().try_into()).transpose();
    let message = message.map_err(|error| anyhow!("--message: {error}"))?;
    client.decide_approval(approval, &DecideApproval { decision, message }).await.hint(LIST)
}

async fn list(client: &Client, config: &Config, printer: &Printer) -> anyhow::Result<()> {
    let found = client.approvals().await.context("cannot list approvals")?;
    if printer.is_json() {
        return printer.document(&found.items);
    }
    if found.items.is_empty() {
        printer.note("no request waits");
        return Ok(());
    }
    let columns: Vec<_> = COLUMNS.iter().map(|name| (*name, Align::Left)).collect();
    let mut grid = Grid::new(&columns);
    for approval in &found.items {
        grid.row(row(approval));
    }
    let page = Page::of_terminal(config);
    let (width, has_colour) =
        page.map_or((None, false), |page| (Some(page.width), page.has_colour));
    printer.data(grid.to_text(width, has_colour).trim_end())?;
    for approval in &found.items {
        if let Some(tool) = &approval.tool {
            let cut = if tool.bytes > tool.input.len() as u64 { " (cut)" } else { "" };
            let (name, input) = (printable(&tool.tool), printable(&tool.input));
            printer.data(format_args!("{}: {name} {input}{cut}", approval.id))?;
        }
        for change in &approval.changes {
            printer.data(format_args!("{}: {}", approval.id, printable(change)))?;
        }
    }
    Ok(())
}

fn row(approval: &Approval) -> Vec<String> {
    vec![
        approval.id.clone(),
        approval.operation.clone(),
        printable(&approval.repository),
        approval.action.as_str().to_owned(),
        approval.expires_at.0.clone(),
    ]
}
