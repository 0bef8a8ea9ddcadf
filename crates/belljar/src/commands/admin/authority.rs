//! `belljar admin authority`: generations of the keys that control signs with.

use anyhow::Context as _;
use belljar_identity::{Authority, ControlKeys, PlatformClock};
use serde_json::json;

use super::table::Table;
use super::{Office, explained, stamp};
use crate::cli::AuthorityAction;
use crate::output::{Hint as _, hinted};

pub(super) async fn run(office: &Office, action: &AuthorityAction) -> anyhow::Result<()> {
    match action {
        AuthorityAction::List => list(office).await,
        AuthorityAction::Rotate { control_key, after } => {
            let secret = ControlKeys::read(control_key)?;
            let (rows, now) = office.store.authorities().await.map_err(explained)?;
            let current = rows.iter().find(|row| row.is_current);
            let current = current.context("the platform has no signing keys yet").hint(STARTED)?;
            // A key that does not open the old one would make one that no replica opens.
            Authority::open(&current.certificate, &current.sealed, &secret)
                .hint("use the same control key as the replicas of control")?;
            let clock = PlatformClock::default();
            clock.set(now);
            let next = Authority::generate(&clock)?;
            let sealed = next.seal(&secret)?;
            let added = office.store.add_authority(next.certificate(), &sealed, *after).await;
            let generation = added.map_err(explained)?;
            let subject = generation.to_string();
            office.wrote(None, "authority.rotate", &subject, &json!({})).await?;
            office.say(
                format_args!(
                    "generation {generation} is trusted now and signs in {} s",
                    after.as_secs()
                ),
                &json!({ "generation": generation, "after_seconds": after.as_secs() }),
            )
        }
        AuthorityAction::Drop { generation } => {
            if !office.store.drop_authority(*generation).await.map_err(explained)? {
                let error = anyhow::anyhow!(
                    "generation {generation} does not exist, or is the one that signs"
                );
                let hint = "`belljar admin authority list` shows generations; rotate first, and \
                            drop the old one once the new one signs";
                return Err(hinted(error, hint));
            }
            let subject = generation.to_string();
            office.wrote(None, "authority.drop", &subject, &json!({})).await?;
            office.say(
                format_args!("generation {generation} is no longer trusted"),
                &json!({ "dropped": generation }),
            )
        }
    }
}

/// What to do if there is no authority.
pub(super) const STARTED: &str = "start control first: it creates the signing keys";

async fn list(office: &Office) -> anyhow::Result<()> {
    let (rows, _) = office.store.authorities().await.map_err(explained)?;
    let fingerprint = |certificate: &[u8]| {
        let digest = belljar_identity::digest(certificate);
        digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    if office.printer.is_json() {
        let document = rows.iter().map(|row| {
            json!({
                "generation": row.generation, "is_current": row.is_current,
                "made_at": stamp(row.made_at), "active_from": stamp(row.active_from),
                "certificate": fingerprint(&row.certificate),
            })
        });
        return office.printer.document(&document.collect::<Vec<_>>());
    }
    let mut table = Table::new(["GENERATION", "SIGNS", "CREATED", "ACTIVE FROM", "CERTIFICATE"]);
    for row in rows {
        table.row([
            row.generation.to_string(),
            if row.is_current { "yes" } else { "no" }.to_owned(),
            stamp(row.made_at),
            stamp(row.active_from),
            fingerprint(&row.certificate),
        ]);
    }
    Ok(office.printer.data(table)?)
}
