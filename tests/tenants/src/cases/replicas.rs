//! Replicas of control: each serves every sandbox, from its first request on.

use anyhow::ensure;
use belljar_store::Scope;
use serde_json::json;

use crate::client::Client;
use crate::platform::Platform;
use crate::world::World;

/// How often a replica starts. One that has not read the nodes yet must not say that a sandbox
/// does not exist: clients believe it.
const STARTS: usize = 20;

/// API-14/replicas: a sandbox through a replica that has just started.
pub(crate) async fn a_new_replica_knows_every_sandbox(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let (key, _) = platform.key("a", &[Scope::Read, Scope::Sandboxes], None).await?;
    let sandbox = platform.client(Some(&key)).sandbox(&json!({})).await?;
    for start in 0..STARTS {
        let replica = platform.replica()?;
        let client = Client { address: replica.address, key: Some(key.clone()) };
        let seen = client.get(&format!("/v1/sandboxes/{sandbox}")).await?;
        ensure!(seen.status == 200, "start {start}: {} {}", seen.status, seen.text());
        // The control: an id of a node that does not exist is still not found.
        let stranger = client.get("/v1/sandboxes/zzzzzzzzzzzzzzzzzzzzzzzzzz").await?;
        ensure!(stranger.status == 404, "start {start}: {} {}", stranger.status, stranger.text());
        replica.stop().await?;
    }
    platform.stop().await?;
    Ok(format!("{STARTS} starts"))
}
