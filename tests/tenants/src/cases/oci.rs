//! What a tenant may say about a container, and about who runs it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use belljar_api::Content;
use serde_json::{Value, json};

use crate::client::Client;
use crate::routes;
use crate::world::World;

/// Parts of a container's spec, as somebody would write them to get out.
fn parts() -> Vec<(&'static str, Value)> {
    vec![
        ("hooks", json!({ "prestart": [{ "path": "/bin/sh", "args": ["sh", "-c", "id"] }] })),
        ("annotations", json!({ "run.oci.handler": "krun" })),
        ("mounts", json!([{ "source": "/", "destination": "/host", "options": ["rbind"] }])),
        ("rlimits", json!([{ "type": "RLIMIT_NPROC", "hard": 1 << 20, "soft": 1 << 20 }])),
        ("maskedPaths", json!([])),
        ("readonlyPaths", json!([])),
        ("devices", json!([{ "path": "/dev/sda", "type": "b", "major": 8, "minor": 0 }])),
        ("capabilities", json!({ "bounding": ["CAP_SYS_ADMIN"] })),
        ("seccomp", json!({ "defaultAction": "SCMP_ACT_ALLOW" })),
        ("namespaces", json!([{ "type": "network", "path": "/proc/1/ns/net" }])),
        ("linux", json!({ "cgroupsPath": "/" })),
        ("process", json!({ "noNewPrivileges": false })),
        ("root", json!({ "path": "/" })),
        ("privileged", json!(true)),
        ("runtime", json!("/bin/sh")),
        ("runtime_flags", json!(["--network=host"])),
    ]
}

/// OCI-08: whatever is said about a container beyond the API is refused by name,
/// and what may be said does not become part of its spec.
pub(crate) async fn spec_is_ours(world: &World) -> anyhow::Result<String> {
    let mut refused = 0;
    let own = world.a.belongings().await?;
    for (operation, sample) in routes::own() {
        let Content::Json(_) = operation.route().content else { continue };
        for (field, value) in parts() {
            let mut body = routes::body(operation);
            body[field] = value;
            let answer = world.a.json(&sample.method, &sample.at(&own), &body).await?;
            ensure!(answer.status == 422, "{} {field}: {}", sample.name, answer.text());
            ensure!(answer.text().contains(field), "the field is not named: {}", answer.text());
            refused += 1;
        }
    }
    for (field, value) in parts() {
        let mut body = json!({ "templateID": "base" });
        body[field] = value;
        let answer = world.a.json("POST", "/sandboxes", &body).await?;
        ensure!(answer.status == 400, "{field}: {} {}", answer.status, answer.text());
        ensure!(answer.text().contains(field), "{}", answer.text());
        refused += 1;
    }
    world.a.clear(&own).await?;
    // The control: the same words where they may stand are kept, as words.
    let mark = "only-a-word-7f3a";
    let wish = json!({
        "tier": "oci/crun",
        "metadata": { "run.oci.handler": mark, "dev.gvisor.flag.debug": mark },
        "env": { "LISTEN_FDS": mark },
    });
    let answer = world.a.json("POST", "/v1/sandboxes", &wish).await?;
    if answer.status != 201 {
        let answer = answer.expect(422)?;
        ensure!(answer.code()? == "tier_unavailable", "{}", answer.text());
        return Ok(format!("{refused} refused by name; no crun here to see a spec of"));
    }
    let made = answer.value()?;
    ensure!(made["metadata"]["run.oci.handler"] == mark, "{made}");
    let specs = specs(&world.engine)?;
    ensure!(!specs.is_empty(), "no spec lies below {}", world.engine.display());
    for (path, text) in &specs {
        ensure!(text.contains("ociVersion"), "{} is no spec: {text}", path.display());
        ensure!(!text.contains(mark), "{} holds what a tenant said: {text}", path.display());
        ensure!(!text.contains("run.oci.handler"), "{}: {text}", path.display());
    }
    let id = made["id"].as_str().context("no id")?;
    let seen = world.a.run(id, "printf %s \"$LISTEN_FDS\"").await?;
    ensure!(seen["stdout"]["data"] == mark, "{seen}");
    Ok(format!("{refused} refused by name; words stay out of {} spec", specs.len()))
}

/// Every `config.json` below a directory.
fn specs(directory: &Path) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    let mut below = vec![directory.to_owned()];
    while let Some(directory) = below.pop() {
        // What ends meanwhile takes its directory along.
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let kind = entry.file_type()?;
            if kind.is_dir() {
                below.push(entry.path());
            } else if entry.file_name() == "config.json" {
                found.push((entry.path(), fs::read_to_string(entry.path())?));
            }
        }
    }
    Ok(found)
}

/// Variables by which a program is made to run what somebody else wrote.
const LOADED: [&str; 10] = [
    "LD_PRELOAD",
    "LD_AUDIT",
    "PATH",
    "BASH_ENV",
    "ENV",
    "GCONV_PATH",
    "NODE_OPTIONS",
    "PYTHONSTARTUP",
    "GODEBUG",
    "IFS",
];

/// OCI-09: a tenant's environment is that of its calls, and of nothing else.
pub(crate) async fn environment_stays_inside(world: &World) -> anyhow::Result<String> {
    let mut said = Vec::new();
    for tier in ["jail", "oci/crun", "oci/runsc", "microvm"] {
        // A value of its own, so that nothing of the tier before is found, nor of others.
        let mark = format!("/tmp/mark-{}-{}", std::process::id(), tier.replace('/', "-"));
        let env: BTreeMap<&str, &str> = LOADED.into_iter().map(|name| (name, &*mark)).collect();
        let wish = json!({ "tier": tier, "env": env });
        let answer = world.a.json("POST", "/v1/sandboxes", &wish).await?;
        if answer.status != 201 && tier != "jail" {
            let answer = answer.expect(422)?;
            ensure!(answer.code()? == "tier_unavailable", "{tier}: {}", answer.text());
            continue;
        }
        let made = answer.expect(201)?.value()?;
        let id = made["id"].as_str().context("no id")?;
        // The control: the call itself has all of it.
        let call = json!({ "argv": ["/usr/bin/env"], "env": env });
        let path = format!("/v1/sandboxes/{id}/calls");
        let seen = world.a.json("POST", &path, &call).await?.expect(200)?.value()?;
        let text = seen["stdout"]["data"].as_str().unwrap_or_default();
        for name in LOADED {
            let line = format!("{name}={mark}");
            ensure!(text.lines().any(|found| found == line), "{tier}: no {line} in {text}");
        }
        let stays = json!({ "argv": ["/bin/sleep", "300"], "background": true, "env": env });
        world.a.json("POST", &path, &stays).await?.expect(201)?;
        let bearers = bearers(&mark)?;
        let shares = ["jail", "oci/crun"].contains(&tier);
        ensure!(!shares || !bearers.is_empty(), "{tier}: not even the call has it");
        for (pid, command) in &bearers {
            let is_call = command.starts_with("/bin/sleep") && shares;
            ensure!(is_call, "{tier}: process {pid} ({command}) has a tenant's environment");
        }
        world.a.send("DELETE", &format!("/v1/sandboxes/{id}"), "").await?;
        said.push(tier);
    }
    Ok(format!("{} variables; seen by calls only in {}", LOADED.len(), said.join(", ")))
}

/// The host's processes, whosever they are, that have this in their environment
/// or on their command line.
fn bearers(mark: &str) -> anyhow::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        if !pid.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
        let (environment, command) = (read("environ"), read("cmdline"));
        let bears = [&environment, &command]
            .iter()
            .any(|text| text.windows(mark.len()).any(|part| part == mark.as_bytes()));
        if bears {
            found.push((pid, String::from_utf8_lossy(&command).replace('\0', " ")));
        }
    }
    Ok(found)
}

/// What a file holds, and its mode.
type File = (Vec<u8>, u32);

/// OCI-14: without a runtime that is good there is no sandbox, least of all one
/// behind another wall.
pub(crate) async fn no_good_runtime(world: &World) -> anyhow::Result<String> {
    let answers = |text: &str| format!("#!/bin/sh\n{text}\n").into_bytes();
    let current =
        "runc version 1.3.3\ncommit: v1.3.3-0-g0\nspec: 1.2.1\ngo: go1.24.9\nlibseccomp: 2.5.6";
    let old = "runc version 1.0.0-rc5\ncommit: 4fc53a8\nspec: 1.0.0";
    // Says the right thing, and then does nothing.
    let lame = format!("[ \"$1\" = --version ] && {{ echo '{current}'; exit 0; }}; exit 0");
    let dies = format!("[ \"$1\" = --version ] && {{ echo '{current}'; exit 0; }}; kill -9 $$");
    let typed = &["tier_unavailable"][..];
    let failed = &["tier_unavailable", "internal"][..];
    let runtimes: [(&str, Option<File>, &[&str]); 9] = [
        ("missing", None, typed),
        ("not executable", Some((answers("echo runc version 1.3.3"), 0o644)), typed),
        ("no program", Some((b"\x7fELF nonsense".to_vec(), 0o755)), typed),
        ("failing", Some((answers("exit 1"), 0o755)), typed),
        ("silent", Some((answers("exit 0"), 0o755)), typed),
        ("of no version", Some((answers("echo hello"), 0o755)), typed),
        ("too old", Some((answers(&format!("echo '{old}'")), 0o755)), typed),
        ("lame", Some((answers(&lame), 0o755)), failed),
        ("dying", Some((answers(&dies), 0o755)), failed),
    ];
    let count = runtimes.len();
    for (what, runtime, codes) in runtimes {
        match runtime {
            Some((content, mode)) => world.planted.plant(&content, mode)?,
            None => world.planted.clear()?,
        }
        let answer = world.a.json("POST", "/v1/sandboxes", &json!({ "tier": "oci/runc" })).await?;
        ensure!(!answer.is_success(), "{what}: a sandbox was made: {}", answer.text());
        let code = answer.code()?;
        ensure!(codes.contains(&&*code), "{what}: {} {}", answer.status, answer.text());
        let place = world.planted.path().display().to_string();
        ensure!(!answer.text().contains(&place), "{what}: what is the host's: {}", answer.text());
        none_of(&world.a).await.with_context(|| what.to_owned())?;
    }
    world.planted.clear()?;
    // The control: one that is there is used, beside one that is not.
    let good = world.a.json("POST", "/v1/sandboxes", &json!({ "tier": "jail" })).await?;
    ensure!(good.expect(201)?.value()?["tier"] == "jail");
    let crun = world.a.json("POST", "/v1/sandboxes", &json!({ "tier": "oci/crun" })).await?;
    let crun = match crun.status {
        201 => crun.value()?["tier"].as_str().unwrap_or_default().to_owned(),
        _ => format!("no crun: {}", crun.code()?),
    };
    Ok(format!("{count} kinds of no good; beside them jail and {crun}"))
}

async fn none_of(client: &Client) -> anyhow::Result<()> {
    let list = client.get("/v1/sandboxes").await?.expect(200)?.value()?;
    ensure!(list["items"] == json!([]), "one was made all the same: {list}");
    Ok(())
}
