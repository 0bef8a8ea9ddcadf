//! How many sandboxes a tenant gets.

use anyhow::ensure;
use serde_json::json;
use tokio::task::JoinSet;

use crate::world::World;

/// What the server of this case allows.
pub(crate) const MOST: usize = 5;

/// API-12: a hundred at once, and never one too many.
pub(crate) async fn never_above(world: &World) -> anyhow::Result<String> {
    let mut set = JoinSet::new();
    for round in 0..100 {
        let client = world.a.clone();
        // Half of them through the other surface: there is one quota.
        set.spawn(async move {
            if round % 2 == 0 {
                client.json("POST", "/v1/sandboxes", &json!({})).await
            } else {
                client.json("POST", "/sandboxes", &json!({ "templateID": "base" })).await
            }
        });
    }
    let (mut made, mut refused) = (0, 0);
    while let Some(answer) = set.join_next().await {
        match answer?? {
            answer if answer.status == 201 => made += 1,
            answer if answer.status == 429 => refused += 1,
            answer => anyhow::bail!("{} {}", answer.status, answer.text()),
        }
    }
    ensure!(made == MOST, "{made} were made, {MOST} are allowed");
    let list = world.a.get("/v1/sandboxes").await?.expect(200)?.value()?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    ensure!(items.len() == MOST, "{list}");
    let one = items[0]["id"].as_str().unwrap_or_default().to_owned();
    let fork = format!("/v1/sandboxes/{one}/fork");
    let forks = world.a.json("POST", &fork, &json!({ "count": 3 })).await?.value()?;
    let problem = |item: &serde_json::Value| item["problem"]["code"] == "too_many_sandboxes";
    ensure!(forks["items"].as_array().is_some_and(|all| all.iter().all(problem)), "{forks}");
    // The control: another tenant still may, and so may this one after an end.
    world.b.sandbox(&json!({})).await?;
    world.a.send("DELETE", &format!("/v1/sandboxes/{one}"), "").await?.expect(204)?;
    world.a.sandbox(&json!({})).await?;
    let again = world.a.json("POST", "/v1/sandboxes", &json!({})).await?.expect(429)?;
    ensure!(again.code()? == "too_many_sandboxes");
    ensure!(again.headers.contains_key("retry-after"));
    Ok(format!("{made} made, {refused} refused, forks counted"))
}
