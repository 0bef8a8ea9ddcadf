//! Disks that are full, have no files left, or cannot be written.

use anyhow::ensure;

use crate::case::Case;
use crate::client::Client;
use crate::evidence::Outcome;
use crate::rig::disk::Disk;
use crate::rig::server::Options;

/// What must be so while nothing can be written: nobody gets a sandbox that is not
/// on record, those that run go on, and can be ended.
async fn without_room(case: &mut Case, client: &Client, runs: &[String]) -> anyhow::Result<String> {
    let outcome = client.create(None).await;
    let refused = matches!(&outcome, Outcome::Refused { .. });
    case.probe("a sandbox that cannot be put on record", !refused);
    let said = client.run(&runs[0], "echo still here > /tmp/f; cat /tmp/f").await?;
    ensure!(said == "still here\n", "one that runs said {said}");
    let ended = client.delete(&runs[0]).await;
    Ok(format!("a create: {outcome:?}; a delete: {ended:?}"))
}

async fn on_disk(case: &mut Case, disk: &Disk) -> anyhow::Result<(Client, Vec<String>)> {
    let data = disk.path().join("data");
    let client = case.serve(Options { data: Some(data), ..Options::default() }).await?;
    let runs = vec![client.make().await?, client.make().await?];
    Ok((client, runs))
}

/// F-28: the disk with the daemon's records is full.
pub(crate) async fn full(case: &mut Case) -> anyhow::Result<String> {
    let disk = Disk::make(&case.rig, "disk", 24, None)?;
    let (client, runs) = on_disk(case, &disk).await?;
    let pid = case.server()?.pid();
    let before = Case::settled(pid).await;
    let bytes = disk.fill()?;
    let said = without_room(case, &client, &runs).await?;
    disk.free()?;
    case.heal(&client).await?;
    let after = Case::settled(pid).await;
    case.compare(before, after, 20 << 10);
    Ok(format!("{} MiB of ballast; {said}", bytes >> 20))
}

/// F-29: no file can be made.
pub(crate) async fn no_inodes(case: &mut Case) -> anyhow::Result<String> {
    let disk = Disk::make(&case.rig, "disk", 24, Some(128))?;
    let (client, runs) = on_disk(case, &disk).await?;
    let pid = case.server()?.pid();
    let before = Case::settled(pid).await;
    let files = disk.fill_inodes()?;
    let said = without_room(case, &client, &runs).await?;
    disk.free()?;
    case.heal(&client).await?;
    let after = Case::settled(pid).await;
    case.compare(before, after, 20 << 10);
    Ok(format!("{files} files of ballast; {said}"))
}

/// F-30: the disk went read-only, as after an error.
pub(crate) async fn read_only(case: &mut Case) -> anyhow::Result<String> {
    let disk = Disk::make(&case.rig, "disk", 24, None)?;
    let (client, runs) = on_disk(case, &disk).await?;
    disk.abort()?;
    let said = without_room(case, &client, &runs).await?;
    // Its operator stops it, repairs the disk, and starts it.
    case.history.may_break(true);
    case.server()?.program.kill();
    disk.repair()?;
    case.server()?.again().await?;
    case.history.may_break(false);
    case.heal(&client).await?;
    Ok(said)
}
