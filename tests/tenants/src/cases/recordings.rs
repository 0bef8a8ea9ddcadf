//! Recordings and skills of another tenant's runs.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::authorization::EVERYTHING;
use crate::client::Client;
use crate::platform::Platform;
use crate::world::World;

/// API-04/recordings: a recording and an uploaded skill are their owner's alone.
pub(crate) async fn are_ones_own(world: &World) -> anyhow::Result<String> {
    hold(&world.a, &world.b).await
}

/// API-04/recordings/platform: the same, by control and from the shared objects.
pub(crate) async fn are_ones_own_by_control(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let (a, _) = platform.key("a", &EVERYTHING, None).await?;
    let (b, _) = platform.key("b", &EVERYTHING, None).await?;
    let (a, b) = (platform.client(Some(&a)), platform.client(Some(&b)));
    let seen = Box::pin(hold(&a, &b)).await;
    platform.stop().await?;
    seen
}

async fn hold(a: &Client, b: &Client) -> anyhow::Result<String> {
    let mut wish = json!({ "question": "How much is it?", "record": "mine" });
    let run = a.json("POST", "/v1/runs", &wish).await?.expect(201)?.value()?;
    ensure!(run["recording"] == json!({ "name": "mine" }), "{run}");
    let id = run["id"].as_str().context("no id")?;
    // The control: its owner finds it, by both names. It is not over, so there is nothing yet.
    for name in ["mine", id] {
        refuse(a, &json!({ "question": "How much is it?", "replay": name }), "run_not_recorded")
            .await?;
        // Another tenant is told what it is told of one that never was.
        let theirs = json!({ "question": "How much is it?", "replay": name });
        refuse(b, &theirs, "recording_not_found").await?;
    }
    for name in ["never", "../a/mine", "mine/../mine", "%6dine"] {
        let wish = json!({ "question": "How much is it?", "replay": name });
        refuse(b, &wish, "recording_not_found").await?;
    }
    // A name is taken for its owner, and free for others.
    refuse(a, &wish, "recording_exists").await?;
    b.json("POST", "/v1/runs", &wish).await?.expect(201)?;

    let kept = a.send("POST", "/v1/data", "no archive").await?.expect(201)?.value()?;
    wish = json!({ "question": "How much is it?", "skills": [{ "sha256": kept["sha256"] }] });
    refuse(a, &wish, "skill_invalid").await?;
    refuse(b, &wish, "data_not_found").await?;
    Ok("a recording and a skill, found by their owner alone".to_owned())
}

async fn refuse(who: &Client, wish: &Value, code: &str) -> anyhow::Result<()> {
    let answer = who.json("POST", "/v1/runs", wish).await?;
    ensure!((400..500).contains(&answer.status), "{wish}: {} {}", answer.status, answer.text());
    ensure!(answer.code()? == code, "{wish}: not {code}, but {}", answer.text());
    Ok(())
}
