//! Requests that ask for what they must not get.

use anyhow::ensure;
use belljar_api::Content;
use serde_json::{Value, json};

use crate::routes;
use crate::world::World;

/// What somebody would like to set and nobody may.
const DESIRES: [&str; 9] =
    ["tenant", "tenant_id", "owner", "id", "backend", "max_limits", "node", "epoch", "token"];

/// API-05: a field that is not described is refused, by name, everywhere.
pub(crate) async fn unknown_fields(world: &World) -> anyhow::Result<String> {
    let mut refused = 0;
    for (operation, sample) in routes::own() {
        let Content::Json(_) = operation.route().content else { continue };
        let own = world.a.belongings().await?;
        for field in DESIRES {
            let mut body = routes::body(operation);
            body[field] = json!("b");
            let answer = world.a.json(&sample.method, &sample.at(&own), &body).await?;
            ensure!(answer.status == 422, "{} {field}: {}", sample.name, answer.text());
            ensure!(answer.code()? == "invalid_body", "{}", answer.text());
            ensure!(answer.text().contains(field), "the field is not named: {}", answer.text());
            refused += 1;
        }
        // The same field twice is none of ours, either.
        let twice = "{\"timeout_seconds\":1,\"timeout_seconds\":2}";
        let answer = world.a.send(&sample.method, &sample.at(&own), twice).await?;
        ensure!(answer.status == 422, "{}: {}", sample.name, answer.text());
        // The control: without it, the request is understood.
        let answer =
            world.a.json(&sample.method, &sample.at(&own), &routes::body(operation)).await?;
        let fits = answer.is_success() || answer.status == 409;
        ensure!(fits, "{}: {} {}", sample.name, answer.status, answer.text());
        world.a.clear(&own).await?;
    }
    let query = world.a.get("/v1/sandboxes?tenant=b").await?.expect(422)?;
    ensure!(query.code()? == "invalid_query");
    ensure!(refused > 100, "only {refused} were tried");
    Ok(format!("{refused} refused by name"))
}

/// API-06: values that a careless server would hand on.
pub(crate) async fn hostile_values(world: &World) -> anyhow::Result<String> {
    let canary = tempfile::tempdir()?;
    let touched = canary.path().join("touched");
    let touch = format!("touch {}", touched.display());
    let many: Value = (0..10_000)
        .map(|n| (format!("V{n}"), json!("x")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let wide = json!({ "A": "x".repeat(1 << 20) });
    let hostile = [
        json!({ "template": "../../x" }),
        json!({ "template": format!("$({touch})") }),
        json!({ "template": format!("base;{touch}") }),
        json!({ "template": "base\n" }),
        json!({ "template": "" }),
        json!({ "template": "x".repeat(10_000) }),
        json!({ "template": null }),
        json!({ "env": { "A=B": "x" } }),
        json!({ "env": { "A\u{0}": "x" } }),
        json!({ "env": { "A\nB": "x" } }),
        json!({ "env": { "": "x" } }),
        json!({ "env": { "A": "\u{0}" } }),
        json!({ "env": { "A": 1 } }),
        json!({ "env": many.clone() }),
        json!({ "env": wide.clone() }),
        json!({ "metadata": many }),
        json!({ "metadata": wide }),
        json!({ "timeout_seconds": -1 }),
        json!({ "timeout_seconds": 0 }),
        json!({ "timeout_seconds": 1.5 }),
        json!({ "timeout_seconds": 9_223_372_036_854_775_808_u64 }),
        json!({ "timeout_seconds": 31_536_000 }),
        json!({ "timeout_seconds": "60" }),
        json!({ "on_timeout": "never" }),
        json!({ "auto_resume": "yes" }),
        json!({ "hostname": "$(id)" }),
        json!([]),
        json!("base"),
        json!(null),
    ];
    for body in &hostile {
        let answer = world.a.json("POST", "/v1/sandboxes", body).await?;
        let shown: String = body.to_string().chars().take(60).collect();
        ensure!(answer.status == 422, "{shown}: {} {}", answer.status, answer.text());
        answer.code()?;
    }
    for body in ["{\"timeout_seconds\": NaN}", "{\"timeout_seconds\": 1e999}", "\u{1}", "{\"a\":"] {
        let answer = world.a.send("POST", "/v1/sandboxes", body).await?;
        ensure!([400, 422].contains(&answer.status), "{body}: {}", answer.status);
        answer.code()?;
    }
    let huge = world.a.send("POST", "/v1/sandboxes", " ".repeat(9 << 20)).await?;
    ensure!(huge.status == 413 && huge.code()? == "body_too_large", "{}", huge.status);
    ensure!(!touched.exists(), "a shell of the host ran");
    let list = world.a.get("/v1/sandboxes").await?.expect(200)?.value()?;
    ensure!(list["items"] == json!([]), "one was made: {list}");
    // The control: values that only look odd are handed on as they are.
    let odd = json!({ "env": { "A": format!("$({touch})\nx=y") }, "timeout_seconds": 60 });
    let sandbox = world.a.sandbox(&odd).await?;
    let told = world.a.run(&sandbox, "printf %s \"$A\"").await?;
    ensure!(told["stdout"]["data"] == format!("$({touch})\nx=y"), "{told}");
    ensure!(!touched.exists(), "a shell of the host ran");
    Ok(format!("{} refused; what only looks odd arrives unchanged", hostile.len()))
}
