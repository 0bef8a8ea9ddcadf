//! Code that acts while it is compiled.

use anyhow::ensure;
use serde_json::json;

use crate::world::World;

/// API-09: whatever reads code does so inside the sandbox.
pub(crate) async fn stays_inside(world: &World) -> anyhow::Result<String> {
    let canary = tempfile::tempdir()?;
    // The same path exists on the host, writable for everyone; and inside.
    let place = canary.path().join("canary");
    let sandbox = world.a.sandbox(&json!({})).await?;
    world.a.run(&sandbox, &format!("mkdir -p {}", canary.path().display())).await?;
    open_for_all(canary.path())?;
    let place = place.display().to_string();
    // Each acts before, or without, being called.
    let codes = [
        format!("@open('{place}1', 'w').write\ndef f(): pass"),
        format!("def f(x=open('{place}2', 'w').write('x')): pass"),
        format!("class C(metaclass=lambda *a: open('{place}3', 'w').write('x')): pass"),
        format!("# -*- coding: utf-8 -*-\nimport ast; ast.literal_eval('1'); open('{place}4','w')"),
        format!("assert [open('{place}5', 'w').write('x')]"),
    ];
    let path = format!("/v1/sandboxes/{sandbox}/contexts/python/cells");
    for code in &codes {
        world.a.json("POST", &path, &json!({ "code": code })).await?.expect(200)?;
    }
    let names = ["validate", "lint", "compile", "check", "dry-run", "format"];
    for name in names {
        for path in [format!("/v1/{name}"), format!("/v1/sandboxes/{sandbox}/{name}")] {
            world.a.json("POST", &path, &json!({ "code": codes[0] })).await?.expect(404)?;
        }
    }
    let left: Vec<_> = std::fs::read_dir(canary.path())?.flatten().map(|e| e.file_name()).collect();
    ensure!(left.is_empty(), "written on the host: {left:?}");
    // The control: inside, each of them did act.
    let inside = world.a.run(&sandbox, &format!("ls {place}* | wc -l")).await?;
    ensure!(inside["stdout"]["data"] == "5\n", "{inside}");
    Ok("five ways to act while being read; all inside, none outside".to_owned())
}

fn open_for_all(path: &std::path::Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777))?)
}
