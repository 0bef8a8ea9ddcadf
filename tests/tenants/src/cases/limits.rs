//! Limits of sandboxes: no tenant gets more than the operator's maximum, by any route.

use anyhow::{Context as _, ensure};
use belljar_domain::MaxLimits;
use belljar_store::Scope;
use serde_json::{Value, json};

use super::builds::new_directory;
use crate::client::{Answer, Client};
use crate::platform::Platform;
use crate::small::{SmallServer, make_base};
use crate::world::World;

const MIB: u64 = 1 << 20;

/// API-12/limits, S5: on a server; and what was made while the maximum was higher.
pub(crate) async fn hold(world: &World) -> anyhow::Result<String> {
    let refused = Box::pin(nothing_exceeds(&world.a)).await?;
    let kept = Box::pin(copies_keep_theirs(&world.a)).await?;
    let late = Box::pin(a_lower_maximum_holds()).await?;
    Ok(format!("{refused} requests refused; {kept}; {late} after the maximum was lowered"))
}

/// API-12/limits/platform: the same by control, which places by limits.
pub(crate) async fn hold_on_a_platform(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let scopes = [Scope::Read, Scope::Sandboxes, Scope::Templates];
    let (key, _) = platform.key("a", &scopes, None).await?;
    let a = platform.client(Some(&key));
    let seen = async {
        let refused = Box::pin(nothing_exceeds(&a)).await?;
        let kept = Box::pin(copies_keep_theirs(&a)).await?;
        anyhow::Ok(format!("{refused} requests refused; {kept}"))
    };
    let seen = seen.await;
    platform.stop().await?;
    seen
}

async fn sandboxes(a: &Client) -> anyhow::Result<usize> {
    let list = a.get("/v1/sandboxes").await?.expect(200)?.value()?;
    Ok(list["items"].as_array().context("no list")?.len())
}

/// Asks for too much, too little and nonsense in every request that makes sandboxes, or
/// something to make them of. Answers how many requests were refused.
async fn nothing_exceeds(a: &Client) -> anyhow::Result<usize> {
    let offers = a.get("/v1/templates").await?.expect(200)?.value()?;
    let max = &offers["max_limits"];
    let before = sandboxes(a).await?;
    let mut count = 0;
    let mut refuse = |answer: &Answer, what: &str| {
        count += 1;
        let is_refused = (400..500).contains(&answer.status);
        ensure!(is_refused, "{what}: {} {}", answer.status, answer.text());
        anyhow::Ok(())
    };
    let question = json!({ "question": "How much?" });
    for field in ["memory_bytes", "cpu_millis", "pids", "disk_bytes", "wall_ms"] {
        let most = match field {
            "wall_ms" => 86_400_000,
            _ => max[field].as_u64().with_context(|| format!("no largest {field} in {offers}"))?,
        };
        for asked in [0, most + 1, most * 2, (1 << 32) + most, (1 << 53) - 1] {
            for (path, body) in [("/v1/sandboxes", json!({})), ("/v1/runs", question.clone())] {
                let mut body = body;
                body["limits"] = json!({ field: asked });
                let answer = a.json("POST", path, &body).await?;
                refuse(&answer, &format!("{path} {body}"))?;
                ensure!(answer.status == 422, "{path} {body}: {}", answer.status);
                ensure!(answer.code()? == "limit_out_of_range", "{}", answer.text());
                for part in [field.to_owned(), asked.to_string(), most.to_string()] {
                    ensure!(answer.text().contains(&part), "no {part} in {}", answer.text());
                }
            }
        }
        for asked in ["-1", "1.5", "18446744073709551616", "1e300", "\"1G\"", "[1]", "true"] {
            for (path, rest) in [("/v1/sandboxes", ""), ("/v1/runs", r#""question": "?", "#)] {
                let body = format!(r#"{{ {rest}"limits": {{ "{field}": {asked} }} }}"#);
                refuse(&a.send("POST", path, body.clone()).await?, &body)?;
            }
        }
    }
    // Other names for the same, a name twice, and limits that cannot be chosen.
    for limits in [
        r#""limits": { "memory": "64G" }"#,
        r#""limits": { "memoryMB": 65536 }"#,
        r#""limits": { "inodes": 1000000000 }"#,
        r#""limits": { "output_bytes": 1 }"#,
        r#""limits": { "open_files": 1000000 }"#,
        r#""limits": { "pids": 64, "pids": 99999 }"#,
        r#""limits": { "pids": 64 }, "limits": { "pids": 99999 }"#,
        r#""limits": { "pids": 99999 }, "limits": { "pids": 64 }"#,
        r#""limits": [99999]"#,
        r#""limits": "none""#,
        r#""memory_bytes": 68719476736"#,
        r#""max_limits": { "memory_bytes": 68719476736 }"#,
    ] {
        refuse(&a.send("POST", "/v1/sandboxes", format!("{{ {limits} }}")).await?, limits)?;
        let run = format!(r#"{{ "question": "?", {limits} }}"#);
        refuse(&a.send("POST", "/v1/runs", run).await?, limits)?;
        let e2b = format!(r#"{{ "templateID": "base", {limits} }}"#);
        refuse(&a.send("POST", "/sandboxes", e2b).await?, limits)?;
    }
    // E2B's clients choose a machine's size when they build a template, and at no other time.
    let built = MaxLimits::default();
    let (cpus, memory, disk) =
        (built.cpu_millis / 1000 + 1, built.memory_bytes / MIB + 1, built.disk_bytes / MIB + 1);
    for size in [
        json!({ "cpuCount": cpus }),
        json!({ "memoryMB": memory }),
        json!({ "memoryMB": memory, "cpuCount": cpus }),
        json!({ "minFreeDiskMb": disk }),
    ] {
        let requests = [("/sandboxes", "templateID", "base"), ("/v3/templates", "name", "large")];
        for (path, field, name) in requests {
            let mut body = size.clone();
            body[field] = json!(name);
            refuse(&a.json("POST", path, &body).await?, &format!("{path} {body}"))?;
        }
    }
    ensure!(sandboxes(a).await? == before, "a sandbox was made all the same");
    Ok(count)
}

/// Has a sandbox with limits of its own, and copies of it in every way: each has the same, and
/// none has others. Answers what was looked at.
async fn copies_keep_theirs(a: &Client) -> anyhow::Result<String> {
    let limits = json!({
        "memory_bytes": 256 * MIB, "cpu_millis": 1000, "pids": 64, "disk_bytes": 32 * MIB,
        "wall_ms": 30_000,
    });
    let more = json!({ "memory_bytes": 512 * MIB });
    // The control: what is allowed is given, and the code has it.
    let made = a.json("POST", "/v1/sandboxes", &json!({ "limits": limits })).await?.expect(201)?;
    let made = made.value()?;
    let original = made["id"].as_str().context("no id")?.to_owned();
    has(a, &original, &limits).await?;
    let plain = a.sandbox(&json!({})).await?;
    let shown = a.get(&format!("/v1/sandboxes/{plain}")).await?.expect(200)?.value()?;
    ensure!(shown["limits"]["pids"] != limits["pids"], "a sandbox without a choice: {shown}");

    let at = |rest: &str| format!("/v1/sandboxes/{original}/{rest}");
    let kept = a.json("POST", &at("checkpoints"), &json!({})).await?.expect(201)?.value()?;
    let kept = kept["id"].as_str().context("no checkpoint")?;
    let of_checkpoint = format!("/v1/checkpoints/{kept}/fork");
    // No copy is asked for with more.
    for (method, path, body) in [
        ("POST", at("fork"), json!({ "count": 1, "limits": more })),
        ("POST", of_checkpoint.clone(), json!({ "limits": more })),
        ("POST", at("pause"), json!({ "limits": more })),
        ("POST", at("resume"), json!({ "limits": more })),
        ("PATCH", at("").trim_end_matches('/').to_owned(), json!({ "limits": more })),
        ("POST", "/v1/sandboxes".to_owned(), json!({ "template": kept, "limits": more })),
        ("POST", "/v1/sandboxes".to_owned(), json!({ "template": kept, "limits": { "pids": 65 } })),
    ] {
        let answer = a.json(method, &path, &body).await?;
        ensure!(answer.status == 422, "{path} {body}: {} {}", answer.status, answer.text());
        if path == "/v1/sandboxes" {
            ensure!(answer.code()? == "limits_fixed", "{}", answer.text());
        }
    }
    // Each copy has what its original had.
    let forks = a.json("POST", &at("fork"), &json!({ "count": 1 })).await?.expect(201)?.value()?;
    let mut copies = vec![id(&forks["items"][0]["sandbox"]["id"])?];
    for (path, body) in [
        (of_checkpoint.as_str(), json!({})),
        ("/v1/sandboxes", json!({ "template": kept })),
        ("/v1/sandboxes", json!({ "template": kept, "limits": limits })),
        ("/sandboxes", json!({ "templateID": kept })),
    ] {
        let copy = a.json("POST", path, &body).await?.expect(201)?.value()?;
        copies.push(id(&copy["id"]).or_else(|_| id(&copy["sandboxID"]))?);
    }
    for keep in ["memory", "files"] {
        a.json("POST", &at("pause"), &json!({ "keep": keep })).await?.expect(200)?;
        a.json("POST", &at("resume"), &json!({})).await?.expect(200)?;
        has(a, &original, &limits).await?;
    }
    for copy in &copies {
        has(a, copy, &limits).await?;
    }
    Ok(format!("{} copies and 2 returns as they were", copies.len()))
}

fn id(value: &Value) -> anyhow::Result<String> {
    value.as_str().map(str::to_owned).context("no id")
}

/// Looks at a sandbox from outside and from inside.
async fn has(a: &Client, sandbox: &str, limits: &Value) -> anyhow::Result<()> {
    let shown = a.get(&format!("/v1/sandboxes/{sandbox}")).await?.expect(200)?.value()?;
    for (field, value) in limits.as_object().into_iter().flatten() {
        ensure!(shown["limits"][field] == *value, "{field}: {shown}");
    }
    let seen =
        a.run(sandbox, "while read -r line; do echo \"$line\"; done < /proc/meminfo").await?;
    let text = seen["stdout"]["data"].as_str().unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let total =
        total.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    let given = limits["memory_bytes"].as_u64().context("no memory")? / 1024;
    ensure!(total == Some(given), "{given} kB were given: {seen}");
    Ok(())
}

/// Sandboxes from before an operator lowered the maximum give no tenant more than that.
/// Answers how many requests were refused.
async fn a_lower_maximum_holds() -> anyhow::Result<usize> {
    let dir = new_directory()?;
    make_base(dir.path(), &dir.path().join("limits-store"))?;
    let server = SmallServer::start(dir.path(), "limits", |_, _| Ok(())).await?;
    let made = Box::pin(make_large(&server.a)).await;
    server.stop().await?;
    let made = made?;
    let server = SmallServer::start(dir.path(), "limits", |_, config| {
        config.max_limits = MaxLimits { memory_bytes: 1024 * MIB, ..MaxLimits::default() };
        Ok(())
    });
    let server = server.await?;
    let seen = Box::pin(ask_for_large(&server.a, &made)).await;
    server.stop().await?;
    seen
}

/// The limits of a sandbox with 2 GiB of memory.
#[derive(Debug)]
struct Large {
    /// A sandbox of the template, and one that chose so; both on disk.
    of_template: String,
    chosen: String,
    checkpoint: String,
}

const LARGE: &str = "large:v1";

async fn make_large(a: &Client) -> anyhow::Result<Large> {
    let size = json!({ "name": LARGE, "memoryMB": 2048, "cpuCount": 2 });
    let (template, path) = a.ask_build_of(&size).await?;
    let steps = json!([{ "type": "RUN", "args": ["echo so > /home/user/so", "user"] }]);
    let told = json!({ "fromTemplate": "small", "steps": steps });
    a.json("POST", &path, &told).await?.expect(202)?;
    let built = a.built(template, &path).await?;
    ensure!(built.status == "ready", "the build failed: {built:?}");
    let of_template = a.sandbox(&json!({ "template": LARGE })).await?;
    let limits = json!({ "memory_bytes": 2048 * MIB });
    let chosen = a.sandbox(&json!({ "template": "small", "limits": limits })).await?;
    let files = json!({ "keep": "files" });
    let kept = a.json("POST", &format!("/v1/sandboxes/{chosen}/checkpoints"), &files).await?;
    let checkpoint = id(&kept.expect(201)?.value()?["id"])?;
    for sandbox in [&of_template, &chosen] {
        a.json("POST", &format!("/v1/sandboxes/{sandbox}/pause"), &files).await?.expect(200)?;
    }
    Ok(Large { of_template, chosen, checkpoint })
}

async fn ask_for_large(a: &Client, made: &Large) -> anyhow::Result<usize> {
    let Large { of_template, chosen, checkpoint } = made;
    let before = sandboxes(a).await?;
    ensure!(before == 2, "{before} sandboxes are there again instead of 2");
    let of = |sandbox: &str, rest: &str| format!("/v1/sandboxes/{sandbox}/{rest}");
    let create = || "/v1/sandboxes".to_owned();
    let asked = [
        (create(), json!({ "template": LARGE })),
        (create(), json!({ "template": LARGE, "limits": { "cpu_millis": 1000 } })),
        (create(), json!({ "template": checkpoint })),
        (create(), json!({ "template": checkpoint, "limits": { "memory_bytes": 2048 * MIB } })),
        ("/sandboxes".to_owned(), json!({ "templateID": LARGE })),
        ("/sandboxes".to_owned(), json!({ "templateID": checkpoint })),
        (format!("/v1/checkpoints/{checkpoint}/fork"), json!({})),
        (of(of_template, "resume"), json!({})),
        (of(chosen, "resume"), json!({})),
        (format!("/sandboxes/{chosen}/connect"), json!({ "timeout": 60 })),
    ];
    for (path, body) in &asked {
        let answer = a.json("POST", path, body).await?;
        let status = if path.starts_with("/v1/") { 422 } else { 400 };
        ensure!(answer.status == status, "{path} {body}: {} {}", answer.status, answer.text());
        ensure!(answer.text().contains("limit_out_of_range"), "{path}: {}", answer.text());
        ensure!(answer.text().contains("1073741824"), "{path}: {}", answer.text());
    }
    // The control: with less, the same template is as good as ever.
    let limits = json!({ "memory_bytes": 512 * MIB });
    let smaller = json!({ "template": LARGE, "limits": limits });
    let smaller = a.sandbox(&smaller).await?;
    has(a, &smaller, &limits).await?;
    ensure!(sandboxes(a).await? == before + 1, "more than one was made");
    Ok(asked.len())
}
