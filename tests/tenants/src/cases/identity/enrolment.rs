//! How a machine becomes a node: what a token opens, and what the files must look like.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use belljar_identity::{ControlKeys, EnrolmentToken, NodeIdentity, private_file};
use belljar_server::{EnrolError, enrol};

use crate::client::HANG_LIMIT;
use crate::platform::{NODE, Platform, token};
use crate::world::World;

/// BUS-03/token: tokens that are guessed, late, used, or another's.
pub(crate) async fn tokens_are_for_one_node_once(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let seen = Box::pin(redeem(&platform)).await;
    platform.stop().await?;
    seen
}

async fn redeem(platform: &Platform) -> anyhow::Result<String> {
    let control = [format!("https://{}", platform.node_port)];
    let directory = tempfile::tempdir()?;
    let place = |name: &str| directory.path().join(name);
    let refused = async |machine: &str, name: &str, token: &EnrolmentToken, why: &str| match enrol(
        &control,
        &place(machine),
        name,
        token,
    )
    .await
    {
        Err(EnrolError::Refused(said)) if said.contains(why) => Ok(()),
        other => anyhow::bail!("{machine}: {other:?} instead of {why:?}"),
    };
    let (rows, _) = platform.store.authorities().await?;
    let authority = &rows.first().context("no authority")?.certificate;
    refused("guesser", "two", &EnrolmentToken::generate(authority)?, "no such").await?;
    let good = token(&platform.store, "two", HANG_LIMIT).await?;
    refused("thief", NODE, &good, "another name").await?;
    // The control: the same token, by the machine that it is for.
    let two = enrol(&control, &place("two"), "two", &good).await?;
    refused("thief", "two", &good, "was used").await?;
    // Whoever did not hear the answer asks again with the same key.
    let again = enrol(&control, &place("two"), "two", &good).await?;
    ensure!(again.number() == two.number() && again.number() != platform.identity.number());
    let late = token(&platform.store, "three", Duration::ZERO).await?;
    refused("late", "three", &late, "has expired").await?;
    // Whoever listens at control's address without its authority learns no token.
    let trap = EnrolmentToken::generate(b"another platform's certificate")?;
    let trapped = enrol(&control, &place("trapped"), "two", &trap).await;
    ensure!(matches!(trapped, Err(EnrolError::Reach(..))), "{trapped:?}");
    // A token of a platform that is another's is of no use here, whoever is asked.
    let nodes = platform.store.nodes().await?;
    let up = nodes.iter().filter(|node| node.lease_left.is_positive()).count();
    ensure!(up == 1, "{up} nodes are up");
    Ok("guessed, used, late and others' tokens are refused; one enrolled".to_owned())
}

/// BUS-03/files: a key that other users of the host can read is refused, with the remedy.
pub(crate) async fn open_files_are_refused(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let seen = open_up(&platform);
    platform.stop().await?;
    seen
}

fn open_up(platform: &Platform) -> anyhow::Result<String> {
    let identity = platform.directory.path().join("identity");
    let secret = platform.directory.path().join("control.key");
    ControlKeys::create(&secret)?;
    let load = || NodeIdentity::load(&identity, NODE).map(drop).map_err(anyhow::Error::new);
    let read = || ControlKeys::read(&secret).map(drop).map_err(anyhow::Error::new);
    let token = || private_file::read(&secret).map(drop).map_err(anyhow::Error::new);
    type Load<'a> = &'a dyn Fn() -> anyhow::Result<()>;
    let files: [(&std::path::Path, Load<'_>); 4] = [
        (&identity.join("node.key"), &load),
        (&identity.join("certificate.json"), &load),
        (&secret, &read),
        (&secret, &token),
    ];
    for (path, load) in files {
        // The control: as they were made, they are read.
        load().with_context(|| format!("{} as it was made", path.display()))?;
        for mode in [0o644, 0o660, 0o602] {
            fs::set_permissions(path, Permissions::from_mode(mode))?;
            let error = load().err().with_context(|| format!("{mode:o} is read"))?;
            let remedy = format!("chmod 600 {}", path.display());
            ensure!(format!("{error:#}").contains(&remedy), "{error:#}");
        }
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        load()?;
    }
    Ok("node key, certificate, control key and token: refused when open".to_owned())
}
