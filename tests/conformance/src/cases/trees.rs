//! Directories: listing, looking, moving, removing.
//!
//! Requirements: S1

use anyhow::ensure;
use belljar_domain::User;
use belljar_node::{EntryKind, Sandbox};

use crate::fixture::Fixture;
use crate::verbs::{at_home, errno, lossy, output, output_of, put, python, refused};
use crate::{cases, same};

cases!["trees":
    a_list_goes_as_deep_as_asked,
    a_list_has_a_limit,
    a_list_of_long_names_arrives,
    kinds_are_told,
    times_are_told,
    make_dir_makes_all_above,
    rename_moves_and_replaces,
    remove_takes_files_and_trees,
    remove_does_not_follow_links,
    a_deep_tree_is_removed needs [Python],
    a_wide_tree_is_removed,
    changes_since_the_start_are_told,
    many_changes_are_told_in_part,
];

async fn listed(sandbox: &Sandbox, name: &str, depth: u32) -> anyhow::Result<Vec<String>> {
    let top = at_home(sandbox, name);
    let listing = sandbox.list(User::User, &top, depth).await?;
    ensure!(listing.complete, "the list was cut");
    let below = |path: &[u8]| lossy(&path[top.len()..]).trim_start_matches('/').to_owned();
    Ok(listing.entries.iter().map(|entry| below(&entry.path)).collect())
}

async fn a_list_goes_as_deep_as_asked(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    output(&sandbox, "mkdir -p top/a/b/c; touch top/1 top/a/2 top/a/b/3 top/a/b/c/4").await?;
    same!(listed(&sandbox, "top", 1).await?, ["1", "a"], "depth 1");
    same!(listed(&sandbox, "top", 2).await?, ["1", "a", "a/2", "a/b"], "depth 2");
    let all = ["1", "a", "a/2", "a/b", "a/b/3", "a/b/c", "a/b/c/4"];
    same!(listed(&sandbox, "top", 4).await?, all, "depth 4");
    same!(listed(&sandbox, "top", 1000).await?, all, "any depth");
    put(&sandbox, &at_home(&sandbox, "file"), b"").await?;
    let file = at_home(&sandbox, "file");
    refused(sandbox.list(User::User, &file, 1).await, "a file", &[errno::ENOTDIR])
}

async fn a_list_has_a_limit(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    output(&sandbox, "mkdir many; cd many; seq 10050 | xargs touch").await?;
    let listing = sandbox.list(User::User, &at_home(&sandbox, "many"), 1).await?;
    ensure!(!listing.complete, "the list of 10,050 files says that it is complete");
    ensure!(listing.entries.len() >= 1000, "only {} files are told", listing.entries.len());
    same!(output(&sandbox, "echo alive").await?, "alive\n", "afterwards");
    Ok(())
}

/// As many as a list may have, with names that make it megabytes long.
async fn a_list_of_long_names_arrives(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "mkdir many; cd many; name=$(head -c 200 /dev/zero | tr '\\0' n); \
        seq -f \"$name%05g\" 9000 | xargs touch";
    output(&sandbox, script).await?;
    let listing = sandbox.list(User::User, &at_home(&sandbox, "many"), 1).await;
    same!(output(&sandbox, "echo alive").await?, "alive\n", "afterwards");
    let listing = listing?;
    ensure!(
        listing.entries.len() == 9000 || !listing.complete,
        "{} of 9000 files are told as if they were all",
        listing.entries.len()
    );
    Ok(())
}

async fn kinds_are_told(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "echo 12345 > file; mkdir dir; ln -s file link; mkfifo fifo; ln -s nowhere lost; \
        chmod 640 file; chmod 700 dir";
    output(&sandbox, script).await?;
    let table = [
        ("file", EntryKind::File, None),
        ("dir", EntryKind::Directory, None),
        ("link", EntryKind::Symlink, Some(b"file".to_vec())),
        ("lost", EntryKind::Symlink, Some(b"nowhere".to_vec())),
        ("fifo", EntryKind::Fifo, None),
    ];
    for (name, kind, target) in table {
        let entry = sandbox.stat(User::User, &at_home(&sandbox, name)).await?;
        same!((entry.kind, entry.target), (kind, target), "{name}");
    }
    let file = sandbox.stat(User::User, &at_home(&sandbox, "file")).await?;
    same!((file.size, file.mode), (6, 0o640), "file");
    same!(sandbox.stat(User::User, &at_home(&sandbox, "dir")).await?.mode, 0o700, "directory");
    same!(sandbox.stat(User::User, b"/dev/null").await?.kind, EntryKind::Device, "/dev/null");
    same!(sandbox.stat(User::User, b"/").await?.kind, EntryKind::Directory, "/");
    Ok(())
}

async fn times_are_told(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    output(&sandbox, "touch -d '2001-02-03 04:05:06.5 UTC' old").await?;
    let entry = sandbox.stat(User::User, &at_home(&sandbox, "old")).await?;
    let modified = (entry.modified_seconds, entry.modified_nanos);
    same!(modified, (981_173_106, 500_000_000), "time");
    Ok(())
}

async fn make_dir_makes_all_above(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let path = at_home(&sandbox, "a/b/c");
    sandbox.make_dir(User::User, &path).await?;
    // Again is no error: it is there.
    sandbox.make_dir(User::User, &path).await?;
    same!(output(&sandbox, "touch a/b/c/file && stat -c %a a/b").await?, "755\n", "mode");
    let over_file = at_home(&sandbox, "a/b/c/file");
    let errors = &[errno::EEXIST, errno::ENOTDIR];
    refused(sandbox.make_dir(User::User, &over_file).await, "over a file", errors)?;
    let below = at_home(&sandbox, "a/b/c/file/below");
    refused(sandbox.make_dir(User::User, &below).await, "below a file", errors)
}

async fn rename_moves_and_replaces(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let at = |name: &str| at_home(&sandbox, name);
    output(&sandbox, "echo 1 > one; echo 2 > two; mkdir -p dir full/x; ln -s one link").await?;
    sandbox.rename(User::User, &at("one"), &at("dir/uno")).await?;
    same!(output(&sandbox, "cat dir/uno; test ! -e one").await?, "1\n", "moved");
    sandbox.rename(User::User, &at("dir/uno"), &at("two")).await?;
    same!(output(&sandbox, "cat two").await?, "1\n", "replaced");
    sandbox.rename(User::User, &at("dir"), &at("other")).await?;
    sandbox.rename(User::User, &at("link"), &at("renamed")).await?;
    same!(output(&sandbox, "test -d other; readlink renamed").await?, "one\n", "link");
    let moved = sandbox.rename(User::User, &at("other"), &at("full")).await;
    refused(moved, "over a full directory", &[errno::ENOTEMPTY, errno::EEXIST])?;
    let moved = sandbox.rename(User::User, &at("two"), &at("other")).await;
    refused(moved, "a file over a directory", &[errno::EISDIR])?;
    let moved = sandbox.rename(User::User, &at("full"), &at("full/x/y")).await;
    refused(moved, "a directory into itself", &[errno::EINVAL])?;
    let moved = sandbox.rename(User::User, &at("two"), &at("missing/two")).await;
    refused(moved, "into a missing directory", &[errno::ENOENT])
}

async fn remove_takes_files_and_trees(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "touch file; mkdir empty; mkdir -p tree/a/b; mkfifo tree/fifo; touch tree/a/1 \
        tree/a/b/2; ln -s a tree/link; mkdir -p closed/below; touch closed/below/file; \
        chmod 500 closed/below";
    output(&sandbox, script).await?;
    for name in ["file", "empty", "tree"] {
        sandbox.remove(User::User, &at_home(&sandbox, name)).await?;
    }
    same!(output(&sandbox, "ls").await?, "closed\n", "what is left");
    // As rm -r would: what the user may not remove stays, and is an error.
    let closed = sandbox.remove(User::User, &at_home(&sandbox, "closed")).await;
    refused(closed, "a closed directory", &[errno::EACCES])?;
    refused(sandbox.remove(User::User, b"/").await, "/", &[])
}

async fn remove_does_not_follow_links(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    output(&sandbox, "mkdir kept tree; touch kept/file; ln -s ../kept tree/link; ln -s kept link")
        .await?;
    sandbox.remove(User::User, &at_home(&sandbox, "link")).await?;
    sandbox.remove(User::User, &at_home(&sandbox, "tree")).await?;
    same!(output(&sandbox, "ls; ls kept").await?, "kept\nfile\n", "what is left");
    Ok(())
}

/// Deeper than a path can name and than a stack or descriptors would reach.
async fn a_deep_tree_is_removed(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    // Its path is longer than any that the kernel takes (4,096 bytes). Making it costs
    // the square of its depth where Landlock looks at every directory above.
    let script = "import os\nos.mkdir('deep'); os.chdir('deep')\n\
        for i in range(2500):\n    open('f', 'w').close(); os.mkdir('d'); os.chdir('d')";
    output_of(&sandbox, &python(script)).await?;
    // Looking at it does no harm either.
    let listing = sandbox.list(User::User, &at_home(&sandbox, "deep"), u32::MAX).await?;
    ensure!(!listing.entries.is_empty(), "nothing is listed");
    sandbox.remove(User::User, &at_home(&sandbox, "deep")).await?;
    same!(output(&sandbox, "ls -A").await?, "", "what is left");
    Ok(())
}

async fn a_wide_tree_is_removed(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "mkdir wide; cd wide; mkdir $(seq -f d%g 100); seq 20000 | xargs touch; \
        for d in d*; do (cd $d; seq 20 | xargs touch); done";
    output(&sandbox, script).await?;
    sandbox.remove(User::User, &at_home(&sandbox, "wide")).await?;
    same!(output(&sandbox, "ls -A").await?, "", "what is left");
    Ok(())
}

/// What a run produced: asked for after each turn of an agent.
async fn changes_since_the_start_are_told(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let home = sandbox.home(User::User);
    let changed = async || {
        let listing = sandbox.changed(User::User, &[&home]).await?;
        let names = listing.entries.iter().map(|entry| {
            lossy(&entry.path).trim_start_matches(&home).trim_start_matches('/').to_owned()
        });
        anyhow::Ok(names.collect::<Vec<_>>())
    };
    same!(changed().await?, Vec::<String>::new(), "at the start");
    put(&sandbox, &at_home(&sandbox, "uploaded"), b"x").await?;
    // A set back clock of the file does not hide it.
    output(&sandbox, "mkdir dir; echo x > dir/made; touch -d 2001-01-01 dir/old").await?;
    same!(changed().await?, ["dir/made", "dir/old", "uploaded"], "files");
    output(&sandbox, "rm dir/made").await?;
    same!(changed().await?, ["dir/old", "uploaded"], "after a removal");
    let nowhere = sandbox.changed(User::User, &["/nowhere"]).await?;
    same!(nowhere.entries.len(), 0, "a missing directory");
    Ok(())
}

async fn many_changes_are_told_in_part(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script =
        "name=$(head -c 200 /dev/zero | tr '\\0' n); seq -f \"$name%05g\" 12000 | xargs touch";
    output(&sandbox, script).await?;
    let home = sandbox.home(User::User);
    let listing = sandbox.changed(User::User, &[&home]).await;
    same!(output(&sandbox, "echo alive").await?, "alive\n", "afterwards");
    ensure!(!listing?.complete, "12,000 changes are told as if they were all");
    Ok(())
}
