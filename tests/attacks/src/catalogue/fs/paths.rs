//! Transfers by paths that do not lead where they seem to.

use anyhow::Context as _;
use belljar_domain::User;
use belljar_node::Command;

use crate::attack::{Seen, verdict};
use crate::harness::files::{self, LIMIT};
use crate::harness::findings::Findings;
use crate::harness::on_host::{self, Resolved};
use crate::harness::stage::Stage;

/// The list that the payloads come with.
fn listed(name: &str) -> anyhow::Result<String> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/payloads/fs/");
    std::fs::read_to_string(format!("{dir}{name}")).context("a list of paths is missing")
}

/// `\xNN` is a byte, `\\` a backslash, `{n}` repeats the byte before it.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = |at: usize| std::str::from_utf8(rest.get(at..at + 2)?).ok();
        let repeat = || text_until(after, b'}')?.parse::<usize>().ok();
        if first == b'\\' && after.first() == Some(&b'x') {
            let byte = hex(2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
            bytes.push(byte.unwrap_or(b'?'));
            rest = rest.get(4..).unwrap_or_default();
        } else if first == b'\\' && after.first() == Some(&b'\\') {
            bytes.push(b'\\');
            rest = &after[1..];
        } else if let (b'{', Some(count), Some(&last)) = (first, repeat(), bytes.last()) {
            bytes.resize(bytes.len() + count - 1, last);
            let end = after.iter().position(|&byte| byte == b'}').unwrap_or(0);
            rest = &after[end + 1..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    bytes
}

fn text_until(bytes: &[u8], end: u8) -> Option<&str> {
    let at = bytes.iter().position(|&byte| byte == end)?;
    std::str::from_utf8(&bytes[..at]).ok()
}

/// Root of the sandbox may write where its user may not: the control.
pub(super) async fn hostile(stage: Stage, user: User) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|_| {}).await?;
    let mut tried = 0;
    for line in listed("fs_01_paths.txt")?.lines().filter(|line| !line.starts_with('#')) {
        let (expected, path) = line.split_once('\t').context("a line without a tab")?;
        let path = unescape(path);
        let up = files::upload_as(user, &sandbox, &path, b"fs01-mark").await?;
        let down = files::download_as(user, &sandbox, &path, LIMIT).await?;
        let shown = path[..path.len().min(60)].escape_ascii();
        if expected == "refuse" {
            findings.expect(up.is_err(), "refused", format!("upload to {shown} worked"));
        }
        if let Ok(bytes) = down {
            let own = up.is_ok() && bytes == b"fs01-mark";
            findings.expect(own, "read back", format!("download of {shown} gave something else"));
        }
        tried += 1;
    }
    let mut findings = concise(findings, format!("{tried} paths answered as they must"));
    findings.verdict(&stage.run(&sandbox, "fs/fs_01.c", &["check"]).await?)?;
    Ok(findings.seen())
}

/// The same findings, in one line if all is well.
fn concise(findings: Findings, held: String) -> Findings {
    let mut short = Findings::default();
    match findings.seen() {
        Seen::Held(_) | Seen::NotHere(_) => short.held(held),
        other => short.add(other),
    }
    short
}

/// Whether something that looks like the host's secret is planted inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decoy {
    No,
    Yes,
}

pub(super) async fn symlinks(stage: Stage, decoy: Decoy) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let (file, dir) = {
        let canaries = stage.canaries();
        (canaries.file().display().to_string(), canaries.dir().display().to_string())
    };
    let secret = std::fs::read(&file)?;
    let sandbox = stage.sandbox(|_| {}).await?;
    if decoy == Decoy::Yes {
        let script = "/bin/mkdir -p \"$0\"";
        stage.exec(&sandbox, &Command::new(["/bin/sh", "-c", script, &*dir])).await?;
        stage.write(&sandbox, &file, secret.clone()).await?;
    }
    let args = ["plant", "/tmp/fs02", &*file, &*dir];
    let planted = stage.run(&sandbox, "fs/fs_02.c", &args).await?;
    verdict(&planted)?;
    let links = planted.after("NOTE LINK ");
    for link in &links {
        if let Ok(bytes) = files::download(&sandbox, link.as_bytes(), LIMIT).await? {
            let leaked = bytes == secret;
            findings.expect(!leaked, "no secret", format!("{link} gives the canary"));
        }
        for below in [format!("{link}/new"), link.clone()] {
            let _ = files::upload(&sandbox, below.as_bytes(), b"fs02").await?;
        }
    }
    let mut findings = concise(findings, format!("{} links lead nowhere", links.len()));
    let mut check = stage.place(&sandbox, "fs/fs_02.c", &["check", "/tmp/fs02"]).await?;
    check.cwd = Some(b"/".to_vec());
    findings.verdict(&stage.exec(&sandbox, &check).await?)?;
    let host = std::fs::read(&file)?;
    findings.expect(host == secret, "the host's file is as it was", "it changed");
    Ok(findings.seen())
}

pub(super) async fn magic(stage: Stage, resolved: Resolved) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|_| {}).await?;
    let planted = stage.run(&sandbox, "fs/fs_04.c", &["/tmp/fs04"]).await?;
    let list = listed("fs_04_paths.txt")?;
    let fixed = list.lines().filter(|line| !line.starts_with('#')).map(str::to_owned);
    let links = planted.after("NOTE LINK ");
    for path in links.iter().cloned().chain(fixed) {
        if resolved == Resolved::OnHost {
            let down = on_host::download(&sandbox, path.as_bytes(), LIMIT);
            findings.expect(down.is_err(), "refused", format!("{path} was read"));
            continue;
        }
        let down = files::download(&sandbox, path.as_bytes(), LIMIT).await?;
        findings.expect(down.is_err(), "refused", format!("{path} was read"));
        let up = files::upload(&sandbox, path.as_bytes(), b"fs04").await?;
        // A link of one's own is replaced, not followed.
        let own = links.contains(&path);
        findings.expect(up.is_err() || own, "refused", format!("{path} was written"));
    }
    let mut findings = concise(findings, "no magic path is served".to_owned());
    findings.verdict(&planted)?;
    Ok(findings.seen())
}

/// Whether somebody does read from the FIFO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    No,
    Yes,
}

pub(super) async fn no_files(stage: Stage, reader: Reader) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|_| {}).await?;
    let mut command = stage.place(&sandbox, "fs/fs_05.c", &["plant", "/tmp/fs05"]).await?;
    let planted = stage.exec(&sandbox, &command).await?;
    findings.verdict(&planted)?;
    for file in planted.after("NOTE FILE ") {
        let down = files::download(&sandbox, file.as_bytes(), LIMIT).await?;
        findings.expect(down.is_err(), "refused", format!("{file} was read"));
    }
    command.argv[1] = b"feed".to_vec();
    command.argv.push(b"1".to_vec());
    let mut feeding = stage.start(&sandbox, &command).await?;
    feeding.until("NOTE feeding").await?;
    if reader == Reader::Yes {
        let cat = Command::new(["/usr/bin/head", "-c", "4", "/tmp/fs05/fed-fifo"]);
        stage.exec(&sandbox, &cat).await?;
    }
    for _ in 0..5 {
        let down = files::download(&sandbox, b"/tmp/fs05/fed-fifo", LIMIT).await?;
        findings.expect(down.is_err(), "refused", "a fed FIFO was read");
    }
    let mut findings = concise(findings, "nothing but files is read".to_owned());
    findings.verdict(&feeding.finish().await?)?;
    for name in ["fifo", "socket"] {
        // An error or a replacement: both are answers.
        let path = format!("/tmp/fs05/{name}");
        let _ = files::upload(&sandbox, path.as_bytes(), b"fs05").await?;
    }
    Ok(findings.seen())
}
