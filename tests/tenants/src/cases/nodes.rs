//! Two servers that share objects: what one builds, the other has, for its owner
//! alone and whole or not at all.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use belljar_sandboxes::Config;
use serde_json::json;

use crate::small::{SmallServer, make_base, until};
use crate::world::World;

/// API-14/nodes: a template of one node on another.
pub(crate) async fn templates_are_on_every_node(_: &World) -> anyhow::Result<String> {
    let dir = tempfile::tempdir()?;
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o711))?;
    make_base(dir.path(), &dir.path().join("one-store"))?;
    let one = SmallServer::start(dir.path(), "one", share_objects).await?;
    let two = SmallServer::start(dir.path(), "two", share_objects).await?;
    let seen = Box::pin(share(dir.path(), &one, &two)).await;
    one.stop().await?;
    two.stop().await?;
    seen
}

async fn share(dir: &Path, one: &SmallServer, two: &SmallServer) -> anyhow::Result<String> {
    let id = one.a.build("small", "app:v1", "echo first > /home/user/made").await?;

    // Of the other node, and only for its owner; asked for twice at once.
    for name in ["app:v1", "a/app:v1", &id] {
        let stranger = two.b.json("POST", "/v1/sandboxes", &json!({ "template": name })).await?;
        ensure!(!stranger.is_success(), "{name}: {}", stranger.text());
    }
    ensure!(two.b.get("/templates").await?.expect(200)?.value()? == json!([]));
    ensure!(two.kept()?.is_empty(), "a stranger had it fetched: {:?}", two.kept()?);
    let listed = two.a.get("/templates").await?.expect(200)?.value()?;
    ensure!(listed[0]["templateID"] == id.as_str(), "{listed}");
    let wish = json!({ "template": "app:v1" });
    let (first, second) = tokio::join!(two.a.sandbox(&wish), two.a.sandbox(&wish));
    for sandbox in [first?, second?] {
        let seen = two.a.run(&sandbox, "cat /home/user/made").await?;
        ensure!(seen["stdout"]["data"] == "first\n", "{seen}");
    }

    // Tags that one gives, the other has.
    let tags = json!({ "target": "app:v1", "tags": ["stable"] });
    two.a.json("POST", "/templates/tags", &tags).await?.expect(201)?;
    let path = format!("/templates/{id}/tags");
    until("the tag on the first node", async || {
        Ok(one.a.get(&path).await?.expect(200)?.text().contains("stable"))
    })
    .await?;

    // What is damaged on its way is not used, and nothing of it.
    let before = blobs(dir);
    one.a.build("small", "app:v2", "echo second > /home/user/made").await?;
    let fresh: Vec<_> = blobs(dir).difference(&before).cloned().collect();
    ensure!(!fresh.is_empty(), "nothing was shared");
    let kept = two.kept()?;
    let wish = json!({ "template": "app:v2" });
    for blob in &fresh {
        let whole = std::fs::read(blob)?;
        std::fs::write(blob, &whole[..whole.len() / 2])?;
        let damaged = two.a.json("POST", "/v1/sandboxes", &wish).await?;
        ensure!(damaged.status >= 500, "{}: {}", damaged.status, damaged.text());
        std::fs::write(blob, whole)?;
    }
    // The record's own blob comes first: with it damaged, no layer is fetched at all.
    let left: Vec<_> = two.kept()?.difference(&kept).cloned().collect();
    ensure!(left.iter().all(|path| !is_version(path)), "a version of it is kept: {left:?}");
    let sandbox = two.a.sandbox(&wish).await?;
    let seen = two.a.run(&sandbox, "cat /home/user/made").await?;
    ensure!(seen["stdout"]["data"] == "second\n", "{seen}");

    // A build on the other node belongs to the same template.
    let there = two.a.build("app:v2", "app:v3", "echo third > /home/user/made").await?;
    ensure!(there == id, "two templates of one name");
    until("what was built on the second node", async || {
        let wish = json!({ "template": "app:v3" });
        Ok(one.a.json("POST", "/v1/sandboxes", &wish).await?.is_success())
    })
    .await?;

    // What one deletes is gone on the other, and from its disk; strangers delete nothing.
    let path = format!("/templates/{id}");
    ensure!(two.b.send("DELETE", &path, "").await?.status == 404);
    two.a.send("DELETE", &path, "").await?.expect(204)?;
    until("the end of the template on the first node", async || {
        let asked = one.a.json("POST", "/v1/sandboxes", &json!({ "template": "app:v1" })).await?;
        Ok(asked.status == 404)
    })
    .await?;
    ensure!(one.a.get("/templates").await?.expect(200)?.value()? == json!([]));
    until("the end of its versions", async || {
        Ok(!one.kept()?.iter().any(|path| path.ends_with(format!("built-{id}"))))
    })
    .await?;
    Ok("built on one node, used, tagged, damaged, deleted on another".to_owned())
}

fn is_version(path: &Path) -> bool {
    path.parent().is_some_and(|parent| parent.ends_with("templates"))
}

fn blobs(dir: &Path) -> BTreeSet<PathBuf> {
    let shelves = std::fs::read_dir(dir.join("objects/blobs")).into_iter().flatten().flatten();
    let blobs = shelves.flat_map(|shelf| std::fs::read_dir(shelf.path()).into_iter().flatten());
    blobs.flatten().map(|blob| blob.path()).collect()
}

/// Nodes of one platform share what tenants build.
fn share_objects(dir: &Path, config: &mut Config) -> anyhow::Result<()> {
    let objects = dir.join("objects");
    config.objects = Some(objects.to_str().context("an odd directory")?.parse()?);
    Ok(())
}
