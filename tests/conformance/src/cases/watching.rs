//! Telling when files change.
//!
//! Requirements: S8

use std::time::Duration;

use anyhow::{Context as _, ensure};
use belljar_domain::User;
use belljar_node::{Changes, Sandbox, WatchKind};

use crate::fixture::Fixture;
use crate::verbs::{at_home, lossy, output, patience, put, until};
use crate::{cases, same};

cases!["watching":
    making_writing_and_removing_are_told,
    renaming_is_told,
    uploads_are_told,
    only_the_directory_itself_unless_asked,
    a_tree_is_watched_as_it_grows,
    a_file_in_a_directory_just_made_is_told,
    unread_events_do_not_end_the_sandbox,
    a_watch_ends_when_it_is_dropped needs [GuestProcess],
    watches_are_apart,
];

/// Reads events until one is about `name`, of one of these kinds.
async fn until_told(changes: &mut Changes, name: &str, kinds: &[WatchKind]) -> anyhow::Result<()> {
    let found = async {
        let mut others = Vec::new();
        loop {
            let event = changes.next().await?;
            if lossy(&event.path).ends_with(&format!("/{name}")) && kinds.contains(&event.kind) {
                return anyhow::Ok(());
            }
            others.push((event.kind, lossy(&event.path)));
            ensure!(others.len() < 100, "{name} is not told, but {others:?}");
        }
    };
    // An event comes by itself or not at all; after this long it does not.
    let found = tokio::time::timeout(Duration::from_secs(60), found).await;
    found.with_context(|| format!("{name}: {kinds:?} is not told"))?
}

async fn making_writing_and_removing_are_told(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let mut changes = sandbox.watch(User::User, &at_home(&sandbox, ""), false).await?;
    output(&sandbox, "echo x > file").await?;
    until_told(&mut changes, "file", &[WatchKind::Created]).await?;
    until_told(&mut changes, "file", &[WatchKind::Written]).await?;
    output(&sandbox, "echo more >> file").await?;
    until_told(&mut changes, "file", &[WatchKind::Written]).await?;
    output(&sandbox, "chmod 600 file").await?;
    until_told(&mut changes, "file", &[WatchKind::Attributes]).await?;
    output(&sandbox, "rm file; mkdir dir").await?;
    until_told(&mut changes, "file", &[WatchKind::Removed]).await?;
    until_told(&mut changes, "dir", &[WatchKind::Created]).await
}

async fn renaming_is_told(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    output(&sandbox, "touch old").await?;
    let mut changes = sandbox.watch(User::User, &at_home(&sandbox, ""), false).await?;
    sandbox.rename(User::User, &at_home(&sandbox, "old"), &at_home(&sandbox, "new")).await?;
    until_told(&mut changes, "old", &[WatchKind::Renamed]).await?;
    until_told(&mut changes, "new", &[WatchKind::Renamed]).await
}

async fn uploads_are_told(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let mut changes = sandbox.watch(User::User, &at_home(&sandbox, ""), false).await?;
    put(&sandbox, &at_home(&sandbox, "file"), b"content").await?;
    let kinds = &[WatchKind::Created, WatchKind::Written, WatchKind::Renamed];
    until_told(&mut changes, "file", kinds).await
}

async fn only_the_directory_itself_unless_asked(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    output(&sandbox, "mkdir dir").await?;
    let mut changes = sandbox.watch(User::User, &at_home(&sandbox, ""), false).await?;
    output(&sandbox, "touch dir/below; touch beside").await?;
    let first = changes.next().await?;
    same!(first.path, at_home(&sandbox, "beside"), "the first event");
    Ok(())
}

async fn a_tree_is_watched_as_it_grows(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    output(&sandbox, "mkdir -p a/b").await?;
    let mut changes = sandbox.watch(User::User, &at_home(&sandbox, ""), true).await?;
    output(&sandbox, "touch a/b/old").await?;
    until_told(&mut changes, "a/b/old", &[WatchKind::Created]).await?;
    output(&sandbox, "mkdir a/b/c").await?;
    until_told(&mut changes, "a/b/c", &[WatchKind::Created]).await?;
    output(&sandbox, "touch a/b/c/new").await?;
    until_told(&mut changes, "a/b/c/new", &[WatchKind::Created]).await
}

/// What was made before the watch could follow is told all the same.
async fn a_file_in_a_directory_just_made_is_told(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let mut changes = sandbox.watch(User::User, &at_home(&sandbox, ""), true).await?;
    for round in 0..10 {
        output(&sandbox, &format!("mkdir -p r{round}/x/y && echo hi > r{round}/x/y/file")).await?;
        let kinds = &[WatchKind::Created, WatchKind::Written];
        until_told(&mut changes, &format!("r{round}/x/y/file"), kinds).await?;
    }
    Ok(())
}

/// A watch that nobody reads loses events, and says so; it ends nothing.
async fn unread_events_do_not_end_the_sandbox(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let mut changes = sandbox.watch(User::User, &at_home(&sandbox, ""), false).await?;
    output(&sandbox, "seq 20000 | xargs touch").await?;
    same!(output(&sandbox, "echo alive").await?, "alive\n", "afterwards");
    changes.next().await?;
    Ok(())
}

async fn a_watch_ends_when_it_is_dropped(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    output(&sandbox, "true").await?;
    let pid = sandbox.pid();
    let open = || crate::residue::descriptor_count(pid);
    let before = open();
    if before == 0 {
        // The guest lets root alone look at what it has open.
        return dropped_watches_make_room(f, &sandbox).await;
    }
    let changes = sandbox.watch(User::User, &at_home(&sandbox, ""), true).await?;
    ensure!(open() > before, "the guest does not watch");
    drop(changes);
    until("as many descriptors as before", patience(f), async || {
        Ok((open() <= before).then_some(()))
    })
    .await
}

/// More watches, one after the other, than may be open at the same time.
async fn dropped_watches_make_room(f: &Fixture, sandbox: &Sandbox) -> anyhow::Result<()> {
    let text = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_instances")?;
    let most: usize = text.trim().parse().context("the host's limit")?;
    let home = at_home(sandbox, "");
    for nth in 0..most + 8 {
        until(&format!("watch number {nth}"), patience(f), async || {
            Ok(sandbox.watch(User::User, &home, true).await.ok().map(drop))
        })
        .await?;
    }
    Ok(())
}

async fn watches_are_apart(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    output(&sandbox, "mkdir a b").await?;
    let mut of_a = sandbox.watch(User::User, &at_home(&sandbox, "a"), false).await?;
    let mut of_b = sandbox.watch(User::User, &at_home(&sandbox, "b"), false).await?;
    output(&sandbox, "touch a/1 b/2").await?;
    same!(of_a.next().await?.path, at_home(&sandbox, "a/1"), "the watch of a");
    same!(of_b.next().await?.path, at_home(&sandbox, "b/2"), "the watch of b");
    Ok(())
}
