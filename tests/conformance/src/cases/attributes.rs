//! What is told about files besides their content: where links lead, extended
//! attributes, and errors that can be told apart.

use std::io::ErrorKind;

use anyhow::{Context as _, ensure};
use belljar_domain::User;
use belljar_node::{Attribute, EntryKind, FileError, Sandbox};

use crate::fixture::Fixture;
use crate::verbs::{at_home, errno, get, lossy, output, output_of, put, python, refused};
use crate::{cases, same};

cases!["attributes":
    links_tell_where_they_lead,
    links_lead_nowhere_that_their_reader_may_not_go needs [RootUser],
    attributes_are_set_and_told needs [UserXattrs],
    a_new_file_has_only_its_own_attributes needs [UserXattrs],
    attributes_have_bounds needs [UserXattrs],
    code_sees_the_attributes needs [UserXattrs, Python],
    new_directories_belong_to_their_user needs [RootUser],
    errors_can_be_told_apart,
    a_full_disk_is_told_apart needs [SizedDisk],
];

fn attribute(name: &str, value: &[u8]) -> Attribute {
    (name.as_bytes().to_vec(), value.to_vec())
}

async fn put_with(
    sandbox: &Sandbox,
    path: &[u8],
    attributes: &[Attribute],
) -> Result<u64, FileError> {
    sandbox.upload_with(User::User.into(), path, 0o444, attributes, &mut &b"content"[..]).await
}

/// Path, kind and mode of what a link leads to.
type Led<'a> = Option<(&'a [u8], EntryKind, u32)>;

async fn links_tell_where_they_lead(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    output(
        &sandbox,
        "mkdir -p a/b links; echo x > a/b/file; chmod 640 a/b/file; chmod 710 a/b
        ln -s ../a/b/file links/file; ln -s file links/twice; ln -s \"$PWD/a/b\" links/dir
        ln -s nowhere links/broken; ln -s loop links/loop; ln -s /proc/self/exe links/proc
        ln -s ../a/./b/../b/file links/round; ln -s links through",
    )
    .await?;
    let (file, dir) = (at_home(&sandbox, "a/b/file"), at_home(&sandbox, "a/b"));
    let table: [(&str, Led<'_>); 9] = [
        ("links/file", Some((&file, EntryKind::File, 0o640))),
        ("links/twice", Some((&file, EntryKind::File, 0o640))),
        ("links/round", Some((&file, EntryKind::File, 0o640))),
        ("through/twice", Some((&file, EntryKind::File, 0o640))),
        ("links/dir", Some((&dir, EntryKind::Directory, 0o710))),
        ("links/broken", None),
        ("links/loop", None),
        ("links/proc", None),
        ("a/b/file", None),
    ];
    for (name, want) in table {
        let entry = sandbox.stat(User::User, &at_home(&sandbox, name)).await?;
        let got = entry.points_to.as_ref().map(|end| (&end.path[..], end.kind, end.mode));
        same!(got, want, "{name}");
        same!(entry.kind == EntryKind::Symlink, entry.target.is_some(), "the kind of {name}");
    }
    let listing = sandbox.list(User::User, &at_home(&sandbox, "links"), 1).await?;
    let found = |name: &str| listing.entries.iter().find(|e| e.path.ends_with(name.as_bytes()));
    let twice = found("twice").context("not listed")?;
    same!(twice.points_to.as_ref().map(|end| &end.path), Some(&file), "in a list");
    same!(twice.target.as_deref(), Some(&b"file"[..]), "as it is written");
    ensure!(found("loop").is_some_and(|entry| entry.points_to.is_none()), "a loop leads nowhere");
    Ok(())
}

async fn links_lead_nowhere_that_their_reader_may_not_go(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    sandbox.make_dir(User::Root, b"/root/closed").await?;
    let mut secret = &b"x"[..];
    sandbox.upload(User::Root, b"/root/closed/secret", 0o600, &mut secret).await?;
    let mut close = belljar_node::Command::shell("chmod 700 /root/closed");
    close.user = User::Root;
    output_of(&sandbox, &close).await?;
    output(&sandbox, "ln -s /root/closed/secret link").await?;
    let link = at_home(&sandbox, "link");
    same!(sandbox.stat(User::User, &link).await?.points_to, None, "to the user");
    let entry = sandbox.stat(User::Root, &link).await?;
    let path = entry.points_to.map(|end| lossy(&end.path));
    same!(path.as_deref(), Some("/root/closed/secret"), "to root");
    Ok(())
}

async fn attributes_are_set_and_told(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let path = at_home(&sandbox, "dir/file");
    let given = [
        attribute("user.app.b", b"\x00\xff\n"),
        attribute("user.app.a", b""),
        attribute("user.other", "\u{e9}".as_bytes()),
    ];
    put_with(&sandbox, &path, &given).await?;
    same!(get(&sandbox, &path).await?, b"content", "the content");
    let mut all = given.to_vec();
    all.sort();
    let told = async |prefix: Option<&[u8]>| {
        let entry = sandbox.stat_with(User::User, &path, prefix).await?;
        let dir = at_home(&sandbox, "dir");
        let listing = sandbox.list_with(User::User, &dir, 1, prefix).await?;
        let listed = listing.entries.into_iter().map(|entry| entry.attributes).next();
        same!(listed.as_ref(), Some(&entry.attributes), "list and stat");
        same!(entry.mode, 0o444, "the mode beside them");
        anyhow::Ok(entry.attributes)
    };
    same!(told(None).await?, [], "not asked for");
    same!(told(Some(b"user.")).await?, all, "all");
    same!(told(Some(b"user.app.")).await?, all[..2], "below a prefix");
    same!(told(Some(b"user.none")).await?, [], "below another");
    for prefix in [&b"security."[..], b"", b"trusted.", b"use"] {
        let asked = sandbox.stat_with(User::User, &path, Some(prefix)).await;
        refused(asked, &lossy(prefix), &[errno::EINVAL])?;
    }
    Ok(())
}

async fn a_new_file_has_only_its_own_attributes(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let path = at_home(&sandbox, "file");
    put_with(&sandbox, &path, &[attribute("user.a", b"1"), attribute("user.b", b"2")]).await?;
    put_with(&sandbox, &path, &[attribute("user.b", b"3")]).await?;
    let entry = sandbox.stat_with(User::User, &path, Some(b"user.")).await?;
    same!(entry.attributes, [attribute("user.b", b"3")], "after one");
    put(&sandbox, &path, b"plain").await?;
    let entry = sandbox.stat_with(User::User, &path, Some(b"user.")).await?;
    same!(entry.attributes, [], "after none");
    Ok(())
}

async fn attributes_have_bounds(f: &Fixture) -> anyhow::Result<()> {
    const ERANGE: i32 = 34;
    let sandbox = f.sandbox().await?;
    let path = at_home(&sandbox, "here/file");
    let many: Vec<_> = (0..65).map(|n| attribute(&format!("user.{n}"), b"")).collect();
    let long = format!("user.{}", "n".repeat(251));
    let table: [(&str, &[Attribute], &[i32]); 7] = [
        ("too many", &many, &[errno::E2BIG]),
        ("too large", &[attribute("user.a", &[7; 40_000])], &[errno::E2BIG]),
        ("too long a name", &[attribute(&long, b"")], &[ERANGE]),
        ("no name", &[attribute("user.", b"")], &[errno::EINVAL]),
        ("a capability", &[attribute("security.capability", b"x")], &[errno::EINVAL]),
        ("a trusted one", &[attribute("trusted.a", b"x")], &[errno::EINVAL]),
        ("the overlay's", &[attribute("user.overlay.opaque", b"y")], &[errno::EINVAL]),
    ];
    for (what, attributes, errors) in table {
        refused(put_with(&sandbox, &path, attributes).await, what, errors)?;
    }
    same!(output(&sandbox, "ls -A here | wc -l").await?.trim(), "0", "files left behind");
    put_with(&sandbox, &path, &many[..64]).await?;
    let entry = sandbox.stat_with(User::User, &path, Some(b"user.")).await?;
    same!(entry.attributes.len(), 64, "as many as may be");
    Ok(())
}

async fn code_sees_the_attributes(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    put_with(&sandbox, &at_home(&sandbox, "file"), &[attribute("user.ours", b"1")]).await?;
    let script = "import os\nos.chmod('file', 0o644)\nprint(os.listxattr('file'))\n\
        os.setxattr('file', 'user.theirs', b'2')";
    same!(output_of(&sandbox, &python(script)).await?, "['user.ours']\n", "inside");
    let entry =
        sandbox.stat_with(User::User, &at_home(&sandbox, "file"), Some(b"user.theirs")).await?;
    same!(entry.attributes, [attribute("user.theirs", b"2")], "outside");
    Ok(())
}

async fn new_directories_belong_to_their_user(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let homes = [(User::User, "/home/user"), (User::Root, "/root")];
    for (user, home) in homes {
        let path = format!("{home}/new/deep/file");
        sandbox.upload(user, path.as_bytes(), 0o644, &mut &b"x"[..]).await?;
        for name in ["new", "new/deep", "new/deep/file"] {
            let entry = sandbox.stat(User::Root, format!("{home}/{name}").as_bytes()).await?;
            same!((entry.uid, entry.gid), (user.id(), user.id()), "the owner of {home}/{name}");
        }
    }
    Ok(())
}

async fn errors_can_be_told_apart(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let home = |name: &str| at_home(&sandbox, name);
    put(&sandbox, &home("dir/file"), b"x").await?;
    let closed = output(&sandbox, "mkdir closed; chmod 500 closed; echo ok").await;
    same!(closed?, "ok\n", "a closed directory");
    let kind =
        |error: Option<FileError>| error.map(|error| (error.kind(), error.errno().is_some()));
    let table = [
        ("missing", sandbox.stat(User::User, &home("no")).await.err(), ErrorKind::NotFound),
        ("a list", sandbox.list(User::User, &home("no"), 1).await.err(), ErrorKind::NotFound),
        ("a directory", get(&sandbox, &home("dir")).await.err(), ErrorKind::IsADirectory),
        ("over one", put(&sandbox, &home("dir"), b"x").await.err(), ErrorKind::IsADirectory),
        (
            "below a file",
            put(&sandbox, &home("dir/file/x"), b"").await.err(),
            ErrorKind::NotADirectory,
        ),
        (
            "a list of a file",
            sandbox.list(User::User, &home("dir/file"), 1).await.err(),
            ErrorKind::NotADirectory,
        ),
        (
            "a directory again",
            sandbox.make_new_dir(User::User.into(), &home("dir")).await.err(),
            ErrorKind::AlreadyExists,
        ),
        ("closed", put(&sandbox, &home("closed/x"), b"").await.err(), ErrorKind::PermissionDenied),
    ];
    for (what, error, want) in table {
        same!(kind(error), Some((want, true)), "{what}");
    }
    sandbox.make_new_dir(User::User.into(), &home("one/two/three")).await?;
    same!(output(&sandbox, "ls one/two").await?, "three\n", "a new directory");
    sandbox.make_dir(User::User, &home("dir")).await?;
    Ok(())
}

async fn a_full_disk_is_told_apart(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.disk_bytes = 8 << 20).await?;
    let big = vec![7; 16 << 20];
    let error = put(&sandbox, &at_home(&sandbox, "big"), &big).await.err();
    same!(error.map(|error| error.kind()), Some(ErrorKind::StorageFull), "a full disk");
    Ok(())
}
