//! Files in and out: binary-safe, of any name and size; the base is never written.
//!
//! Requirements: S1, S4, S11

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use belljar_domain::limits::MIB;
use belljar_domain::{Tier, User};
use belljar_node::{Command, EntryKind, FileError, Sandbox};

use crate::fixture::Fixture;
use crate::random::Random;
use crate::verbs::{
    Breaking, at_home, errno, get, get_at_most, lossy, output, output_of, patience, put,
    put_with_mode, refused, run,
};
use crate::{cases, same};

cases!["files":
    any_size_goes_in_and_out,
    any_name_will_do,
    impossible_names_are_refused,
    directories_above_are_made,
    modes_are_kept,
    files_belong_to_their_user,
    a_file_is_replaced_in_one_step,
    a_link_is_replaced_not_followed,
    missing_files_are_refused,
    directories_are_no_files,
    a_fifo_does_not_hang,
    devices_are_refused,
    procfs_is_refused,
    links_are_followed_inside,
    links_into_procfs_are_refused,
    link_loops_are_refused,
    sparse_files_are_told_apart needs [Sparse],
    a_download_has_a_limit,
    a_growing_file_ends,
    a_full_disk_leaves_no_half_file needs [SizedDisk],
    a_broken_upload_leaves_no_half_file,
    the_base_cannot_be_written needs [OwnRoot],
    file_rights_are_those_of_the_user needs [RootUser],
    many_transfers_at_once,
    transfers_given_up_harm_nothing needs [GuestProcess],
];

/// S11.
async fn any_size_goes_in_and_out(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    for size in [0, 1, 4095, 4096, 262_143, 262_144, 262_145, 1_048_577, 10_000_000] {
        let bytes = Random::bytes(size as u64 + 3, size);
        let path = at_home(&sandbox, format!("file-{size}"));
        same!(put(&sandbox, &path, &bytes).await?, size as u64, "bytes taken");
        ensure!(get(&sandbox, &path).await? == bytes, "{size} bytes came back differently");
        let inside = output(&sandbox, &format!("wc -c < file-{size}")).await?;
        same!(inside.trim(), size.to_string(), "length inside");
    }
    Ok(())
}

/// S11: names are bytes.
async fn any_name_will_do(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let longest = [b'n'; 255];
    let names: [&[u8]; 9] = [
        b"with space",
        b"new\nline",
        b"-rf",
        b"\xff\xfe not utf-8",
        "\u{65e5}\u{672c}\u{8a9e} \u{1f980}".as_bytes(),
        b"quote'\"`$(touch owned)",
        b"\x1b[31mred",
        b"..hidden..",
        &longest,
    ];
    let dir = at_home(&sandbox, "names");
    for name in names {
        let path = [&dir[..], b"/", name].concat();
        put(&sandbox, &path, name).await?;
        ensure!(get(&sandbox, &path).await? == name, "{:?} came back differently", lossy(name));
        same!(sandbox.stat(User::User, &path).await?.path, path, "the name in stat");
    }
    let listing = sandbox.list(User::User, &dir, 1).await?;
    let mut want: Vec<_> = names.iter().map(|name| [&dir[..], b"/", name].concat()).collect();
    want.sort();
    let got: Vec<_> = listing.entries.into_iter().map(|entry| entry.path).collect();
    same!(got, want, "the list");
    Ok(())
}

async fn impossible_names_are_refused(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let too_long = at_home(&sandbox, [b'n'; 256]);
    let path_too_long = at_home(&sandbox, b"d/".repeat(3000));
    let table: [(&str, &[u8], &[i32]); 6] = [
        ("relative", b"file", &[errno::EINVAL]),
        ("empty", b"", &[errno::EINVAL]),
        ("NUL", b"/tmp/a\0b", &[errno::EINVAL]),
        ("256 bytes", &too_long, &[errno::ENAMETOOLONG]),
        ("path of 6000 bytes", &path_too_long, &[errno::ENAMETOOLONG]),
        ("root", b"/", &[]),
    ];
    for (what, path, errors) in table {
        refused(put(&sandbox, path, b"x").await, what, errors)?;
    }
    same!(output(&sandbox, "echo alive").await?, "alive\n", "afterwards");
    Ok(())
}

async fn directories_above_are_made(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let path = at_home(&sandbox, format!("{}file", "level/".repeat(50)));
    put(&sandbox, &path, b"deep").await?;
    same!(get(&sandbox, &path).await?, b"deep", "content");
    let dir = sandbox.stat(User::User, &at_home(&sandbox, "level/level")).await?;
    same!((dir.kind, dir.mode), (EntryKind::Directory, 0o755), "a directory on the way");
    Ok(())
}

async fn modes_are_kept(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    for mode in [0o644, 0o600, 0o755, 0o400, 0o777, 0] {
        let path = at_home(&sandbox, format!("mode-{mode:o}"));
        put_with_mode(&sandbox, &path, b"x", mode).await?;
        same!(sandbox.stat(User::User, &path).await?.mode, mode, "mode");
    }
    // S6: no set-user-id from outside.
    let path = at_home(&sandbox, "special");
    put_with_mode(&sandbox, &path, b"x", 0o7755).await?;
    same!(sandbox.stat(User::User, &path).await?.mode, 0o755, "special bits");
    Ok(())
}

async fn files_belong_to_their_user(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    put(&sandbox, &at_home(&sandbox, "dir/file"), b"x").await?;
    let script =
        "test -O dir && test -O dir/file && echo more >> dir/file && rm -r dir && echo mine";
    same!(output(&sandbox, script).await?, "mine\n", "owner");
    Ok(())
}

/// Whoever reads meanwhile sees the old file or the new one, whole.
async fn a_file_is_replaced_in_one_step(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let path = at_home(&sandbox, "file");
    let content = [vec![b'A'; 1 << 20], vec![b'B'; 1 << 20]];
    put(&sandbox, &path, &content[0]).await?;
    let script = "echo ready; while [ ! -e stop ]; do tr -d A < file | wc -c; done";
    let mut call = sandbox.start(&Command::shell(script)).await?;
    crate::verbs::until_printed(&mut call, "ready\n").await?;
    for round in 1..40 {
        put(&sandbox, &path, &content[round % 2]).await?;
    }
    put(&sandbox, &at_home(&sandbox, "stop"), b"").await?;
    let (stdout, _, _) = crate::verbs::finish(&mut call).await;
    let counts: Vec<_> = lossy(&stdout).lines().map(str::to_owned).collect();
    let torn = counts.iter().find(|count| !["0", "1048576"].contains(&count.as_str()));
    ensure!(torn.is_none(), "half a file was seen: {torn:?} of {} looks", counts.len());
    ensure!(!counts.is_empty(), "nobody looked");
    Ok(())
}

async fn a_link_is_replaced_not_followed(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    output(&sandbox, "echo old > target; ln -s target link; ln -s /etc/passwd link2").await?;
    put(&sandbox, &at_home(&sandbox, "link"), b"new").await?;
    put(&sandbox, &at_home(&sandbox, "link2"), b"new").await?;
    same!(output(&sandbox, "cat target link; test -L link").await.is_err(), true, "a link");
    same!(output(&sandbox, "cat target link link2").await?, "old\nnewnew", "content");
    Ok(())
}

async fn missing_files_are_refused(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    for name in ["missing", "missing/below"] {
        let path = at_home(&sandbox, name);
        let other = at_home(&sandbox, "other");
        let missing = &[errno::ENOENT];
        refused(get(&sandbox, &path).await, "download", missing)?;
        refused(sandbox.stat(User::User, &path).await, "stat", missing)?;
        refused(sandbox.list(User::User, &path, 1).await, "list", missing)?;
        refused(sandbox.remove(User::User, &path).await, "remove", missing)?;
        refused(sandbox.rename(User::User, &path, &other).await, "rename", missing)?;
        refused(sandbox.watch(User::User, &path, false).await, "watch", missing)?;
    }
    Ok(())
}

async fn directories_are_no_files(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let dir = at_home(&sandbox, "dir");
    sandbox.make_dir(User::User, &dir).await?;
    refused(get(&sandbox, &dir).await, "download", &[errno::EISDIR])?;
    refused(put(&sandbox, &dir, b"x").await, "upload", &[errno::EISDIR])?;
    put(&sandbox, &at_home(&sandbox, "file"), b"x").await?;
    let below = at_home(&sandbox, "file/below");
    refused(get(&sandbox, &below).await, "download below a file", &[errno::ENOTDIR])?;
    refused(put(&sandbox, &below, b"x").await, "upload below a file", &[errno::ENOTDIR])
}

async fn a_fifo_does_not_hang(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    output(&sandbox, "mkfifo fifo").await?;
    let path = at_home(&sandbox, "fifo");
    let got = tokio::time::timeout(patience(f), get(&sandbox, &path)).await;
    refused(got.context("the download hangs")?, "download", &[])?;
    let put = tokio::time::timeout(patience(f), put(&sandbox, &path, b"a file now")).await;
    put.context("the upload hangs")??;
    same!(get(&sandbox, &at_home(&sandbox, "fifo")).await?, b"a file now", "content");
    Ok(())
}

async fn devices_are_refused(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    output(&sandbox, "ln -s /dev/zero endless").await?;
    for path in [b"/dev/zero".to_vec(), b"/dev/null".to_vec(), at_home(&sandbox, "endless")] {
        refused(get(&sandbox, &path).await, &lossy(&path), &[])?;
    }
    refused(put(&sandbox, b"/dev/null", b"x").await, "upload to /dev/null", &[])?;
    same!(output(&sandbox, "test -c /dev/null && echo device").await?, "device\n", "/dev/null");
    Ok(())
}

/// The guest's own entries are there: its memory, its descriptors.
async fn procfs_is_refused(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let paths =
        ["self/environ", "self/mem", "1/environ", "self/root/etc/passwd", "self/fd/3", "version"];
    for name in paths {
        let path = format!("/proc/{name}");
        refused(get(&sandbox, path.as_bytes()).await, &path, &[])?;
        refused(sandbox.stat(User::User, path.as_bytes()).await, &path, &[])?;
        refused(put(&sandbox, path.as_bytes(), b"x").await, &path, &[])?;
    }
    refused(sandbox.list(User::User, b"/proc/self/fd", 1).await, "list", &[])
}

async fn links_are_followed_inside(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "mkdir real; echo content > real/file; ln -s real/file link; ln -s real dir; \
        ln -s \"$PWD/real/file\" absolute; ln -s dir/../link chain; ln -s /etc/passwd passwd";
    output(&sandbox, script).await?;
    for name in ["link", "dir/file", "absolute", "chain"] {
        same!(get(&sandbox, &at_home(&sandbox, name)).await?, b"content\n", "{name}");
    }
    put(&sandbox, &at_home(&sandbox, "dir/new"), b"through a link").await?;
    same!(output(&sandbox, "cat real/new").await?, "through a link", "upload");
    if f.has(crate::features::Feature::OwnRoot).is_ok() {
        let inside = run(&sandbox, "cat /etc/passwd").await?.stdout.bytes();
        same!(get(&sandbox, &at_home(&sandbox, "passwd")).await?, inside, "the sandbox's own");
    }
    Ok(())
}

async fn links_into_procfs_are_refused(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "ln -s /proc/self/environ a; ln -s /proc/self/root/etc/hostname b; \
        ln -s /proc/self/fd/0 c; ln -s /proc/1 d; ln -s /proc/self/cwd e; ln -s /proc/self/exe g";
    output(&sandbox, script).await?;
    for name in ["a", "b", "c", "d/environ", "e/file", "g"] {
        refused(get(&sandbox, &at_home(&sandbox, name)).await, name, &[])?;
    }
    refused(put(&sandbox, &at_home(&sandbox, "e/file"), b"x").await, "upload", &[])?;
    refused(sandbox.list(User::User, &at_home(&sandbox, "d"), 1).await, "list", &[])
}

async fn link_loops_are_refused(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    output(&sandbox, "ln -s loop loop; ln -s . here; ln -s b a; ln -s a b").await?;
    for name in ["loop", "a", "loop/file"] {
        refused(get(&sandbox, &at_home(&sandbox, name)).await, name, &[])?;
    }
    // A link to its own directory does not make a list endless.
    let listing = sandbox.list(User::User, &at_home(&sandbox, ""), 60).await?;
    same!(listing.entries.len(), 4, "entries");
    Ok(())
}

async fn sparse_files_are_told_apart(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    output(&sandbox, "truncate -s 100M sparse; head -c 1048576 /dev/zero > dense").await?;
    let sparse = sandbox.stat(User::User, &at_home(&sandbox, "sparse")).await?;
    same!(sparse.size, 100 * MIB, "size");
    ensure!(sparse.allocated < MIB, "{} bytes are allocated for a hole", sparse.allocated);
    let dense = sandbox.stat(User::User, &at_home(&sandbox, "dense")).await?;
    ensure!(dense.allocated >= MIB, "{} bytes are allocated for 1 MiB", dense.allocated);
    Ok(())
}

async fn a_download_has_a_limit(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let path = at_home(&sandbox, "file");
    put(&sandbox, &path, &[7; 1000]).await?;
    same!(get_at_most(&sandbox, &path, 1000).await?.len(), 1000, "at the limit");
    match get_at_most(&sandbox, &path, 999).await {
        Err(FileError::TooLarge { size: 1000, limit: 999 }) => Ok(()),
        other => bail!("over the limit: {other:?}"),
    }
}

/// A file that grows while it is read gives what it had at the start.
async fn a_growing_file_ends(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let script = "head -c 8000000 /dev/zero > file; echo ready; \
        while [ ! -e stop ]; do echo more >> file; done";
    let mut call = sandbox.start(&Command::shell(script)).await?;
    crate::verbs::until_printed(&mut call, "ready").await?;
    let got = get(&sandbox, &at_home(&sandbox, "file")).await?;
    ensure!((8_000_000..50_000_000).contains(&got.len()), "{} bytes", got.len());
    call.kill();
    // One that shrinks is an error, not a short file.
    output(&sandbox, "head -c 60000000 /dev/zero > big").await?;
    let script = "while [ ! -e go ]; do :; done; : > big";
    let mut call = sandbox.start(&Command::shell(script)).await?;
    let mut target = Truncating { sandbox: &sandbox, got: 0, told: false };
    let path = at_home(&sandbox, "big");
    let downloaded = target.download(&path).await;
    call.kill();
    crate::verbs::finish(&mut call).await;
    match downloaded {
        Err(FileError::Shrunk { .. }) | Ok(60_000_000) => Ok(()),
        other => bail!("a shrinking file: {other:?}"),
    }
}

/// Downloads a file and has it cut short on the way.
struct Truncating<'a> {
    sandbox: &'a belljar_node::Sandbox,
    got: u64,
    told: bool,
}

impl Truncating<'_> {
    async fn download(&mut self, path: &[u8]) -> Result<u64, FileError> {
        let (mut near, mut far) = tokio::io::duplex(1 << 16);
        let sandbox = self.sandbox;
        let reading = sandbox.download(User::User, path, 1 << 30, &mut near);
        tokio::pin!(reading);
        let mut buffer = vec![0; 1 << 16];
        loop {
            tokio::select! {
                result = &mut reading => return result,
                count = tokio::io::AsyncReadExt::read(&mut far, &mut buffer) => {
                    self.got += count.map_err(FileError::Target)? as u64;
                }
            }
            if self.got > 1_000_000 && !self.told {
                self.told = true;
                put(sandbox, &at_home(sandbox, "go"), b"").await?;
            }
        }
    }
}

async fn names_at_home(sandbox: &belljar_node::Sandbox) -> anyhow::Result<Vec<String>> {
    let listing = sandbox.list(User::User, &at_home(sandbox, ""), 9).await?;
    Ok(listing.entries.iter().map(|entry| lossy(&entry.path)).collect())
}

async fn a_full_disk_leaves_no_half_file(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.limited(|limits| limits.disk_bytes = 16 * MIB).await?;
    let path = at_home(&sandbox, "file");
    put(&sandbox, &path, b"the old one").await?;
    let before = names_at_home(&sandbox).await?;
    let large = vec![1; 40 << 20];
    refused(put(&sandbox, &path, &large).await, "40 MiB", &[errno::ENOSPC])?;
    same!(names_at_home(&sandbox).await?, before, "files");
    same!(get(&sandbox, &path).await?, b"the old one", "the old file");
    // The room is free again.
    put(&sandbox, &at_home(&sandbox, "next"), &large[..10 << 20]).await?;
    Ok(())
}

async fn a_broken_upload_leaves_no_half_file(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let path = at_home(&sandbox, "file");
    put(&sandbox, &path, b"the old one").await?;
    let mut source = Breaking { left: 3_000_000 };
    match sandbox.upload(User::User, &path, 0o644, &mut source).await {
        Err(FileError::Source(_)) => {}
        other => bail!("a source that breaks: {other:?}"),
    }
    same!(names_at_home(&sandbox).await?, vec![lossy(&path)], "files");
    // Nor does one whose owner just went away.
    let (near, _far) = tokio::io::duplex(1 << 10);
    let mut stuck = near;
    let upload = sandbox.upload(User::User, &path, 0o644, &mut stuck);
    let given_up = tokio::time::timeout(Duration::from_millis(50), upload).await;
    ensure!(given_up.is_err(), "an upload without an end ended: {given_up:?}");
    crate::verbs::until("only the old file", patience(f), async || {
        Ok((names_at_home(&sandbox).await? == [lossy(&path)]).then_some(()))
    })
    .await?;
    same!(get(&sandbox, &path).await?, b"the old one", "the old file");
    Ok(())
}

/// S4.
async fn the_base_cannot_be_written(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    for path in ["/usr/bin/new", "/etc/new", "/usr/bin/true"] {
        if path.starts_with("/etc/") && has_own_base(f) {
            continue;
        }
        refused(put(&sandbox, path.as_bytes(), b"x").await, path, &[])?;
        let script = format!("echo x > {path}");
        ensure!(run(&sandbox, &script).await?.end.exit_code != Some(0), "{path} was written");
    }
    refused(sandbox.remove(User::User, b"/usr/bin/true").await, "remove", &[])?;
    if has_own_base(f) {
        return changes_stay_in_the_sandbox(f, &sandbox).await;
    }
    refused(sandbox.rename(User::User, b"/etc/passwd", b"/etc/p").await, "rename", &[])
}

/// Returns true if the one user that a sandbox has is the owner of its base: an engine that is
/// not root maps its own user, who made the template.
fn has_own_base(f: &Fixture) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let is_own = |layer: &PathBuf| layer.metadata().is_ok_and(|metadata| metadata.uid() == own);
    f.tier == Tier::Jail
        && !f.node.engine().facts().privileged
        && f.template.root.layers.iter().any(is_own)
}

/// The owner of the base changes the sandbox's own layer, and not the base.
async fn changes_stay_in_the_sandbox(f: &Fixture, sandbox: &Sandbox) -> anyhow::Result<()> {
    output(sandbox, "echo x > /etc/new; echo x >> /etc/group; mv /etc/passwd /etc/p").await?;
    for layer in &f.template.root.layers {
        let is_there = |name: &str| layer.join(name).exists();
        ensure!(!is_there("etc/new") && !is_there("etc/p"), "made in {}", layer.display());
        ensure!(is_there("etc/passwd"), "removed from {}", layer.display());
        let groups = std::fs::read_to_string(layer.join("etc/group"))?;
        ensure!(!groups.lines().any(|line| line == "x"), "written in {}", layer.display());
    }
    let other = f.sandbox().await?;
    let script = "ls /etc/new /etc/p 2> /dev/null; grep -x x /etc/group; test -e /etc/passwd";
    same!(output(&other, script).await?, "", "of another sandbox");
    Ok(())
}

async fn file_rights_are_those_of_the_user(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    let secret = b"/root/secret";
    sandbox.upload(User::Root, secret, 0o600, &mut &b"for root"[..]).await?;
    let closed = &[errno::EACCES];
    refused(get(&sandbox, secret).await, "download", closed)?;
    refused(put(&sandbox, secret, b"x").await, "upload", closed)?;
    let mut bytes = Vec::new();
    sandbox.download(User::Root, secret, 100, &mut bytes).await?;
    same!(bytes, b"for root", "root's own");
    // A link does not lend rights.
    output(&sandbox, "ln -s /root/secret link").await?;
    refused(get(&sandbox, &at_home(&sandbox, "link")).await, "a link", closed)?;
    let command = Command { user: User::Root, ..Command::shell("stat -c %u:%g /root/secret") };
    same!(output_of(&sandbox, &command).await?, "0:0\n", "owner");
    Ok(())
}

async fn many_transfers_at_once(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = std::sync::Arc::new(f.sandbox().await?);
    let mut transfers = tokio::task::JoinSet::new();
    for number in 0..16u64 {
        let sandbox = sandbox.clone();
        transfers.spawn(async move {
            let bytes = Random::bytes(number, 1_500_000);
            let path = at_home(&sandbox, format!("file-{number}"));
            put(&sandbox, &path, &bytes).await?;
            ensure!(get(&sandbox, &path).await? == bytes, "file {number} came back differently");
            Ok(())
        });
    }
    while let Some(result) = transfers.join_next().await {
        result??;
    }
    Ok(())
}

/// Owners go away in the middle of whatever they do.
async fn transfers_given_up_harm_nothing(f: &Fixture) -> anyhow::Result<()> {
    let sandbox = f.sandbox().await?;
    put(&sandbox, &at_home(&sandbox, "large"), &vec![1; 20_000_000]).await?;
    let open = || crate::residue::descriptor_count(sandbox.pid());
    let before = open();
    let mut random = Random::new(9);
    let content = vec![2; 8_000_000];
    for round in 0..60 {
        let patience = Duration::from_micros(random.below(6000));
        let path = at_home(&sandbox, "given-up");
        let large = at_home(&sandbox, "large");
        // Whether it was done in time does not matter.
        if round % 2 == 0 {
            drop(tokio::time::timeout(patience, put(&sandbox, &path, &content)).await);
        } else {
            drop(tokio::time::timeout(patience, get(&sandbox, &large)).await);
        }
    }
    let answer = tokio::time::timeout(patience(f), output(&sandbox, "echo alive")).await;
    same!(answer.context("the sandbox does not answer")??, "alive\n", "afterwards");
    crate::verbs::until("as many descriptors as before", patience(f), async || {
        Ok((open() <= before).then_some(()))
    })
    .await
    .with_context(|| format!("{before} before, {} after", open()))
}
