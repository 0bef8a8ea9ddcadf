//! Repositories of a git server, with git's own client and git's own server.
//!
//! Each attack has a control: the same, sent to the server itself, does what the gateway prevents.
//!
//! Requirements: G3, G4

mod server;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use belljar_domain::approval::{ApprovalAction, ApprovalAnswer};
use belljar_domain::network::{Decision, Reason};
use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::Full;

use crate::world::{KEY, Sandbox, World, request};
use server::{Server, git};

/// The server's URL, as clients outside write it.
const URL: &str = "https://git.example.com";

struct Rig {
    world: World,
    server: Server,
    sandbox: Sandbox,
    token: String,
    home: tempfile::TempDir,
}

/// The end of a command of git.
#[derive(Debug)]
struct Done {
    is_ok: bool,
    text: String,
}

impl Rig {
    async fn start(settings: &str) -> Self {
        let server = Server::start().await;
        let home = tempfile::tempdir().unwrap();
        let key = home.path().join("key");
        std::fs::write(&key, KEY).unwrap();
        let address = server.address;
        let operation = format!(
            "[operations.code]\nkind = \"git\"\nplaintext = true\nupstream = \"http://{address}\"\n\
             repositories = [\"acme/*\"]\nforge = \"forgejo\"\n\
             credential = {{ file = {key:?}, as = \"basic\", user = \"bot\" }}\n{settings}"
        );
        let world = World::start("[[turn]]\nsay = \"x\"\n", &operation).await;
        let sandbox = world.sandbox("a");
        let token = world.token_for(&sandbox, &["code"], 300, None);
        Self { world, server, sandbox, token, home }
    }

    /// A command of a client inside, with the variables that a sandbox has.
    fn inside(&self, at: &Path, arguments: &[&str]) -> Command {
        let own = format!("http://{}", self.sandbox.address);
        let helper = "!f() { test \"$1\" = get || exit 0; echo username=belljar; \
                      echo \"password=$BELLJAR_TOKEN\"; }; f";
        let mut command = self.client(at, arguments);
        command.env("BELLJAR_TOKEN", &self.token).env("GIT_CONFIG_COUNT", "2");
        let instead = format!("url.{own}/operations/code/.insteadOf");
        command.env("GIT_CONFIG_KEY_0", instead).env("GIT_CONFIG_VALUE_0", format!("{URL}/"));
        command.env("GIT_CONFIG_KEY_1", format!("credential.{own}.helper"));
        command.env("GIT_CONFIG_VALUE_1", helper);
        command
    }

    /// The same without a gateway: with the key, at the server.
    fn outside(&self, at: &Path, arguments: &[&str]) -> Command {
        let mut command = self.client(at, arguments);
        let direct = format!("url.http://bot:{KEY}@{}/.insteadOf", self.server.address);
        command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", direct);
        command.env("GIT_CONFIG_VALUE_0", format!("{URL}/"));
        command
    }

    fn client(&self, at: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(at).env_clear().stdin(Stdio::null());
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.env("HOME", self.home.path()).env("GIT_CONFIG_NOSYSTEM", "1");
        command.env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
        command
    }

    async fn clone(&self) -> PathBuf {
        let url = format!("{URL}/acme/widget.git");
        let at = self.home.path().join("work");
        let done = run(self.inside(self.home.path(), &["clone", "-q", &url, "work"])).await;
        assert!(done.is_ok, "{}", done.text);
        at
    }

    async fn push(&self, at: &Path, what: &[&str]) -> Done {
        let arguments: Vec<_> = ["push", "origin"].iter().chain(what).copied().collect();
        run(self.inside(at, &arguments)).await
    }

    async fn push_outside(&self, at: &Path, what: &[&str]) -> Done {
        let arguments: Vec<_> = ["push", "origin"].iter().chain(what).copied().collect();
        run(self.outside(at, &arguments)).await
    }

    async fn raw(&self, method: Method, path: &str, body: &[u8]) -> crate::world::Answer {
        let path = format!("/operations/code{path}");
        let mut asked = request(method, &path, &self.token, "");
        *asked.body_mut() = Full::new(Bytes::copy_from_slice(body));
        self.sandbox.ask(asked).await
    }

    /// The reasons of refusals, once there are so many.
    async fn refusals(&self, count: usize) -> Vec<Reason> {
        let mut seen = 0;
        loop {
            let rows = self.world.rows(&self.sandbox, seen + 1).await;
            seen = rows.len();
            let denied = rows.into_iter().filter(|row| row.decision == Decision::Denied);
            let reasons: Vec<_> = denied.map(|row| row.reason).collect();
            if reasons.len() >= count {
                return reasons;
            }
        }
    }
}

async fn run(mut command: Command) -> Done {
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let text = [output.stdout, output.stderr].concat();
    Done { is_ok: output.status.success(), text: String::from_utf8(text).unwrap() }
}

/// Commits a file.
fn commit(at: &Path, name: &str, content: &str) -> String {
    std::fs::write(at.join(name), content).unwrap();
    git(at, &["add", name]);
    git(at, &["commit", "-q", "-m", name]);
    git(at, &["rev-parse", "HEAD"]).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn work_is_cloned_pushed_and_proposed() {
    let rig = Rig::start("").await;
    let at = rig.clone().await;
    git(&at, &["checkout", "-q", "-b", "agent/fix"]);
    let first = commit(&at, "a", "1");
    let pushed = rig.push(&at, &["agent/fix"]).await;
    assert!(pushed.is_ok, "{}", pushed.text);
    assert_eq!(rig.server.tip("agent/fix"), Some(first));
    // The branch moves forward: large enough that git packs it in chunks.
    let noise: String = (0..400_000_u64).map(|n| format!("{:x}\n", n * 0x9e37_79b9)).collect();
    commit(&at, "b", &noise);
    let third = commit(&at, "c", "3");
    let pushed = rig.push(&at, &["agent/fix"]).await;
    assert!(pushed.is_ok, "{}", pushed.text);
    assert_eq!(rig.server.tip("agent/fix"), Some(third));
    let fetched = run(rig.inside(&at, &["fetch", "-q", "origin"])).await;
    assert!(fetched.is_ok, "{}", fetched.text);

    let draft = br#"{"title": "Fix it", "source": "agent/fix", "body": "b"}"#;
    let opened = rig.raw(Method::POST, "/acme/widget/merge-requests", draft).await;
    assert_eq!(opened.status, StatusCode::CREATED, "{opened:?}");
    let said = opened.json();
    assert_eq!((&said["number"], &said["target"]), (&1.into(), &"trunk".into()));
    let again = rig.raw(Method::POST, "/acme/widget/merge-requests", draft).await;
    assert_eq!(again.status, StatusCode::OK, "{again:?}");
    assert_eq!((again.json()["number"].clone(), rig.server.pulls()), (1.into(), 1));

    let rows = rig.world.rows(&rig.sandbox, 10).await;
    let wrong = rows.iter().find(|row| row.decision != Decision::Allowed);
    assert!(wrong.is_none(), "the first request of a client is no refusal: {wrong:?}");
    for seen in rig.server.seen() {
        let shown = format!("{seen:?}");
        assert!(!shown.contains(&rig.token), "the token went out: {shown}");
        assert!(seen.headers.contains_key("authorization"), "no credential: {shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_waits_for_its_approval() {
    let rig = Rig::start("approve = \"push\"\napproval_seconds = 5\n").await;
    let at = rig.clone().await;
    git(&at, &["checkout", "-q", "-b", "agent/fix"]);
    let commit = commit(&at, "a", "1");
    for (number, is_approved) in [(1, false), (2, true)] {
        let mut command = rig.inside(&at, &["push", "origin", "agent/fix"]);
        let pushing = tokio::task::spawn_blocking(move || command.output().unwrap());
        let (question, asked) = rig.world.approval(number).await;
        assert_eq!((asked.action, &*asked.repository), (ApprovalAction::Push, "acme/widget"));
        assert_eq!(asked.changes, [format!("create agent/fix at {commit}")]);
        assert_eq!(rig.server.tip("agent/fix"), None, "nothing goes out before");
        let message = Some("add\na test".to_owned()).filter(|_| !is_approved);
        rig.world.gateway.answer_approval(question, ApprovalAnswer { is_approved, message });
        let pushed = pushing.await.unwrap();
        let said = String::from_utf8(pushed.stderr).unwrap();
        assert_eq!(pushed.status.success(), is_approved, "{said}");
        assert_eq!(said.contains("a human denied this: add a test"), !is_approved, "{said}");
    }
    assert_eq!(rig.server.tip("agent/fix"), Some(commit));
    // Without a decision.
    let late = rig.push(&at, &["agent/fix:agent/late"]).await;
    assert!(!late.is_ok && late.text.contains("within 5 seconds"), "{}", late.text);
    assert_eq!(rig.refusals(2).await, [Reason::NotApproved; 2]);
    let rows = rig.world.rows(&rig.sandbox, 7).await;
    assert_eq!(rows.iter().filter(|row| row.reason == Reason::Approved).count(), 1);
}

/// A push to a branch that is protected.
#[tokio::test(flavor = "multi_thread")]
async fn only_allowed_branches_are_pushed() {
    let id = "GW-26";
    let rig = Rig::start("branches = [\"agent/*\", \"tr*\"]\n").await;
    let at = rig.clone().await;
    let before = rig.server.tip("trunk");
    commit(&at, "a", "1");
    for (to, why) in [
        ("trunk", "default branch"),
        ("release", "allowed: agent/*, tr*"),
        ("refs/tags/v1", "is no branch"),
        ("refs/for/trunk", "is no branch"),
    ] {
        let pushed = rig.push(&at, &[&format!("HEAD:{to}")]).await;
        assert!(!pushed.is_ok && pushed.text.contains(why), "{id}/{to}: {}", pushed.text);
    }
    // One that is allowed does not take another one along.
    let both = rig.push(&at, &["HEAD:refs/heads/agent/a", "HEAD:trunk"]).await;
    assert!(!both.is_ok, "{id}: {}", both.text);
    assert_eq!((rig.server.tip("trunk"), rig.server.tip("agent/a")), (before.clone(), None));
    let options = rig.push(&at, &["-o", "merge", "HEAD:refs/heads/agent/a"]).await;
    assert!(!options.is_ok, "{id}: {}", options.text);
    let control = rig.push_outside(&at, &["HEAD:trunk", "HEAD:release"]).await;
    assert!(control.is_ok, "{id}, control: {}", control.text);
    assert_ne!(rig.server.tip("trunk"), before);
}

/// A push after which commits are gone: another history, or none.
#[tokio::test(flavor = "multi_thread")]
async fn commits_are_not_lost() {
    let id = "GW-27";
    let rig = Rig::start("").await;
    let at = rig.clone().await;
    git(&at, &["checkout", "-q", "-b", "agent/fix"]);
    commit(&at, "a", "1");
    let kept = commit(&at, "b", "2");
    assert!(rig.push(&at, &["agent/fix"]).await.is_ok);
    git(&at, &["reset", "-q", "--hard", "HEAD~1"]);
    for what in [&["--force", "agent/fix"][..], &["+agent/fix"]] {
        let back = rig.push(&at, what).await;
        assert!(!back.is_ok && back.text.contains("would lose commits"), "{id}: {}", back.text);
    }
    let other = commit(&at, "c", "3");
    let forced = rig.push(&at, &["--force", "agent/fix"]).await;
    assert!(!forced.is_ok && forced.text.contains("would lose commits"), "{id}: {}", forced.text);
    let deleted = rig.push(&at, &["--delete", "agent/fix"]).await;
    assert!(!deleted.is_ok && deleted.text.contains("may not be deleted"), "{}", deleted.text);
    assert_eq!(rig.server.tip("agent/fix"), Some(kept), "{id}");
    let reasons = rig.refusals(4).await;
    let count = |reason| reasons.iter().filter(|one| **one == reason).count();
    assert_eq!((count(Reason::Force), count(Reason::Deletion)), (3, 1), "{reasons:?}");
    let control = rig.push_outside(&at, &["--force", "agent/fix"]).await;
    assert!(control.is_ok, "{id}, control: {}", control.text);
    assert_eq!(rig.server.tip("agent/fix"), Some(other));
    let control = rig.push_outside(&at, &["--delete", "agent/fix"]).await;
    assert!(control.is_ok && rig.server.tip("agent/fix").is_none(), "{}", control.text);
}

/// Another repository, by a path that the server may read otherwise, or another host.
#[tokio::test(flavor = "multi_thread")]
async fn other_repositories_are_not_reached() {
    let id = "GW-28";
    let rig = Rig::start("").await;
    let refs = "info/refs?service=git-upload-pack";
    for path in [
        "/other/secret",
        "/acme/../other/secret",
        "/acme/%2e%2e/other/secret",
        "/acme/..%2fother/secret",
        "//other/secret",
        "/acme//../other/secret",
        "/acme/widget/../../other/secret",
        "/acme/widget.git/../../other/secret",
        "/acme/./widget",
    ] {
        let answer = rig.raw(Method::GET, &format!("{path}/{refs}"), b"").await;
        let is_told = answer.status.is_client_error() || answer.body.contains("ERR belljar: ");
        assert!(is_told && !answer.body.contains("refs/heads"), "{id} {path}: {answer:?}");
    }
    for path in ["/acme/widget/HEAD", "/acme/widget/objects/info/packs", "/acme/widget/info/refs"] {
        let answer = rig.raw(Method::GET, path, b"").await;
        assert!(answer.status.is_client_error(), "{id} {path}: {answer:?}");
    }
    assert_eq!(rig.server.seen().len(), 0, "{id}: something went out");
    let moved = rig.raw(Method::GET, &format!("/acme/moved/{refs}"), b"").await;
    assert!(moved.body.contains("redirects are not followed"), "{id}: {moved:?}");
    assert!(!moved.headers.contains_key("location"), "{id}");
    let control = rig.raw(Method::GET, &format!("/acme/widget/{refs}"), b"").await;
    assert!(control.body.contains("refs/heads/trunk"), "{id}, control: {control:?}");
    let whole = rig.home.path().join("whole");
    let url = format!("{URL}/other/secret.git");
    let outside = ["clone", "-q", &url, whole.to_str().unwrap()];
    let control = run(rig.outside(rig.home.path(), &outside)).await;
    assert!(control.is_ok, "{id}, control: {}", control.text);
}

/// A packet with a line.
fn packet(line: &str) -> String {
    format!("{:04x}{line}", line.len() + 4)
}

/// A second command where readers may not look for one.
#[tokio::test(flavor = "multi_thread")]
async fn every_command_is_judged() {
    let id = "GW-29";
    let rig = Rig::start("").await;
    let tip = rig.server.tip("trunk").unwrap();
    let zero = "0".repeat(40);
    let first = packet(&format!("{zero} {tip} refs/heads/agent/a\0report-status delete-refs"));
    let empty = "PACK\0\0\0\u{2}\0\0\0\0";
    for second in [
        packet(&format!("{tip} {zero} refs/heads/trunk")),
        packet(&format!("{tip} {zero} refs/heads/trunk\0push-options")),
        packet(&format!("{zero} {tip} refs/heads/b\n{tip} {zero} refs/heads/trunk")),
        packet("push-cert\0"),
    ] {
        let body = format!("{first}{second}0000{empty}");
        let answer = rig.raw(Method::POST, "/acme/widget/git-receive-pack", body.as_bytes()).await;
        let is_refused = answer.status.is_client_error() || answer.body.contains("ng refs/heads/");
        assert!(is_refused, "{id}: {second:?}: {answer:?}");
        assert_eq!(rig.server.tip("trunk").as_ref(), Some(&tip), "{id}: {second:?}");
        assert_eq!(rig.server.tip("agent/a"), None, "{id}: {second:?}");
    }
    let is_push = |seen: &server::Seen| seen.method == "POST";
    assert!(!rig.server.seen().iter().any(is_push), "{id}: a push went out");
    // The same deletion in the one place that is looked at by all, at the server itself.
    let at = rig.home.path();
    git(at, &["init", "-q", "-b", "x", "control"]);
    let url = format!("{URL}/acme/widget.git");
    git(&at.join("control"), &["remote", "add", "origin", &url]);
    let bare = rig.server.root.path().join("acme/widget.git");
    git(&bare, &["symbolic-ref", "HEAD", "refs/heads/other"]);
    let control = rig.push_outside(&at.join("control"), &["--delete", "trunk"]).await;
    assert!(control.is_ok && rig.server.tip("trunk").is_none(), "{id}, control: {}", control.text);
}

/// The gateway's own lookups spend the budget too, and stop when it is spent.
#[tokio::test(flavor = "multi_thread")]
async fn a_lookup_of_the_default_branch_costs_a_request() {
    let rig = Rig::start("budget = { requests = 1 }\n").await;
    let draft = br#"{"title": "Fix it", "source": "agent/fix"}"#;
    let opened = rig.raw(Method::POST, "/acme/widget/merge-requests", draft).await;
    assert_eq!(opened.status, StatusCode::PAYMENT_REQUIRED, "{opened:?}");
    let seen: Vec<_> = rig.server.seen().into_iter().map(|seen| seen.target).collect();
    assert!(seen.len() == 1 && seen[0].contains("/info/refs"), "{seen:?}");
    let again = rig.raw(Method::POST, "/acme/widget/merge-requests", draft).await;
    assert_eq!(again.status, StatusCode::PAYMENT_REQUIRED, "{again:?}");
    assert_eq!(rig.server.seen().len(), 1, "no lookup without a budget");
}

/// Requests that are small outside and large inside, or whose lengths are lies.
#[tokio::test(flavor = "multi_thread")]
async fn requests_are_bounded() {
    let id = "GW-30";
    let rig = Rig::start("max_body = 1000000\n").await;
    let path = "/acme/widget/git-receive-pack";
    let lie = [b"fff1".to_vec(), vec![b'x'; 200_000]].concat();
    let endless: Vec<u8> = packet("shallow 1111").repeat(10_000).into_bytes();
    for body in [lie, endless, b"0001".to_vec(), b"PACK".to_vec()] {
        let answer = rig.raw(Method::POST, path, &body).await;
        assert!(answer.status.is_client_error(), "{id}: {answer:?}");
    }
    let gzip = |bytes: &[u8]| {
        use std::io::Write as _;
        let level = flate2::Compression::default();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let packed = async |bytes: Vec<u8>| {
        let path = format!("/operations/code{path}");
        let mut asked = request(Method::POST, &path, &rig.token, "");
        asked.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
        *asked.body_mut() = Full::new(gzip(&bytes).into());
        rig.sandbox.ask(asked).await
    };
    let tip = rig.server.tip("trunk").unwrap();
    let zero = "0".repeat(40);
    let delete = packet(&format!("{tip} {zero} refs/heads/trunk\0report-status delete-refs"));
    let hidden = packed(format!("{delete}0000").into_bytes()).await;
    assert!(hidden.body.contains("may not be deleted"), "{id}: {hidden:?}");
    let create = packet(&format!("{zero} {tip} refs/heads/a\0report-status"));
    let bomb = packed([format!("{create}0000").into_bytes(), vec![0; 64 << 20]].concat()).await;
    assert!(bomb.body.contains("more than 1000000 bytes"), "{id}: {bomb:?}");
    assert_eq!((rig.server.tip("trunk"), rig.server.tip("a")), (Some(tip), None), "{id}");
    rig.server.forget();
    let control = packed(b"0000".to_vec()).await;
    assert_eq!(control.status, StatusCode::OK, "{id}, control: {control:?}");
    assert!(rig.server.seen().iter().any(|seen| seen.target.ends_with("git-receive-pack")));
}
