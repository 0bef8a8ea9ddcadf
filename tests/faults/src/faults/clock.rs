//! The host's clock jumps.

use std::time::Instant;

use anyhow::ensure;
use serde_json::json;

use super::daemon::{show, token_of};
use crate::case::{Case, until};
use crate::rig::host;
use crate::rig::server::Options;

/// F-34: an hour forward, an hour back, a leap: deadlines stay what they were.
pub(crate) async fn jumps(case: &mut Case) -> anyhow::Result<String> {
    let file = case.rig.dir.join("clock");
    std::fs::write(&file, "0")?;
    let variables = vec![("BELLJAR_FAULT_CLOCK".to_owned(), file.display().to_string())];
    let client = case.serve(Options { variables, ..Options::default() }).await?;
    let state = case.server()?.state.clone();
    // The defence that is tested must be there to be tested.
    let probe = client.make().await?;
    std::fs::write(&file, "3600")?;
    let (_, early) = client.plain("GET", &format!("/v1/sandboxes/{probe}"), None).await?;
    let other = client.make().await?;
    let (_, late) = client.plain("GET", &format!("/v1/sandboxes/{other}"), None).await?;
    let moved = early["started_at"].as_str() < late["started_at"].as_str();
    let hour =
        |value: &serde_json::Value| value["started_at"].to_string().get(12..14).map(str::to_owned);
    ensure!(
        moved && hour(&early) != hour(&late),
        "the clock did not jump: built without `faults`?"
    );
    client.delete(&probe).await;
    client.delete(&other).await;
    let mut said = Vec::new();
    for jump in [3600_i64, -3600, 1, -7200] {
        std::fs::write(&file, "0")?;
        let (token, kept) = token_of(&client).await?;
        let short = client.make_with(&json!({ "template": "base", "timeout_seconds": 3 })).await?;
        let began = Instant::now();
        std::fs::write(&file, jump.to_string())?;
        until(&format!("it ends, {jump} s off"), async || {
            !host::inhabited(&state).iter().any(|(id, _)| *id == short)
        })
        .await?;
        let took = began.elapsed().as_secs_f64();
        ensure!(took >= 2.0, "{jump} s off: a life of 3 s took {took:.1} s");
        // What had five minutes has them still, and its token opens it.
        let shown = show(&client, &kept, &token, false).await?;
        ensure!(shown.opened, "{jump} s off: all expired");
        client.delete(&kept).await;
        case.tokens.push(show(&client, &kept, &token, true).await?);
        said.push(format!("{jump:+} s: {took:.1} s"));
    }
    std::fs::write(&file, "0")?;
    Ok(format!("a life of 3 s took {}", said.join(", ")))
}
