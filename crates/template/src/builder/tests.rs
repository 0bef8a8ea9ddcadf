use std::cell::RefCell;
use std::os::unix::fs::symlink;

use belljar_domain::{EndReason, Usage};
use expect_test::expect;
use tempfile::{TempDir, tempdir};

use super::*;
use crate::progress::Silent;

/// Stands in for a sandbox: notes the commands, and writes to the writable
/// layer what `write <path> <text>` asks for.
#[derive(Default)]
struct Fake {
    ran: RefCell<Vec<String>>,
}

impl Runner for Fake {
    fn run(
        &self,
        job: &Job<'_>,
        output: &mut dyn FnMut(&[u8]),
    ) -> Result<End, Box<dyn Error + Send + Sync>> {
        assert_eq!(fs::read_dir(job.disk.join("upper"))?.count(), 0);
        assert_eq!(job.env["HOME"], "/root");
        let command = job.argv.last().unwrap();
        self.ran.borrow_mut().push(format!("{} layers: {command}", job.root.layers.len()));
        output(b"working\n");
        let mut words = command.split(' ');
        let (verb, rest) = (words.next(), words.collect::<Vec<_>>());
        let exit_code = match (verb, rest.as_slice()) {
            (Some("write"), [path, text]) => {
                fs::write(job.disk.join("upper").join(path), text)?;
                0
            }
            (Some("fail"), _) => 7,
            _ => return Err("no such command".into()),
        };
        let reason = if exit_code == 0 { EndReason::Done } else { EndReason::Exit };
        Ok(End { reason, exit_code: Some(exit_code), signal: None, usage: Usage::default() })
    }
}

/// Writes down what it is told, without times.
#[derive(Default)]
struct Log(String);

impl Progress for Log {
    fn started(&mut self, step: &StepStart<'_>) {
        self.0 += &format!("[{}/{}] {}\n", step.number, step.total, step.name);
    }
    fn line(&mut self, line: &str) {
        self.0 += &format!("  {line}\n");
    }
    fn bytes(&mut self, done: u64, total: u64) {
        self.0 += &format!("  {done} of {total}\n");
    }
    fn finished(&mut self, outcome: Outcome, _: Duration) {
        self.0 += &format!("  {outcome:?}\n");
    }
}

struct Case {
    dir: TempDir,
    store: Store,
    fake: Fake,
}

impl Case {
    fn new() -> Self {
        let dir = tempdir().unwrap();
        let base = dir.path().join("base");
        fs::create_dir_all(base.join("usr/bin")).unwrap();
        symlink("usr/bin", base.join("bin")).unwrap();
        fs::write(base.join("usr/bin/sh"), "").unwrap();
        let store = Store::open(&dir.path().join("store")).unwrap();
        Self { dir, store, fake: Fake::default() }
    }

    fn recipe(&self, rest: &str) -> Recipe {
        let text = format!("name = \"t\"\nbase = {{ directory = \"base\" }}\n{rest}\n");
        Recipe::parse(&text, "t", self.dir.path()).unwrap()
    }

    fn build_with(
        &self,
        rest: &str,
        options: Options,
        progress: &mut dyn Progress,
    ) -> Result<Built, BuildError> {
        Builder::new(&self.store, &self.fake, options).build(&self.recipe(rest), progress)
    }

    fn build(&self, rest: &str) -> Result<Built, BuildError> {
        self.build_with(rest, Options::default(), &mut Silent)
    }
}

const TWO: &str = "run = [\"write one 1\", \"write two 2\"]\nenv = { A = \"b\" }";

#[test]
fn each_step_is_a_layer_over_the_last() {
    let case = Case::new();
    let mut log = Log::default();
    let built = case.build_with(TWO, Options::default(), &mut log).unwrap();
    expect![[r#"
        [1/3] directory base
          Made
        [2/3] run: write one 1
          working
          Made
        [3/3] run: write two 2
          working
          Made
    "#]]
    .assert_eq(&log.0);
    assert_eq!(*case.fake.ran.borrow(), ["1 layers: write one 1", "2 layers: write two 2"]);
    let layers = &built.template.root.layers;
    assert_eq!(fs::read_to_string(layers[0].join("two")).unwrap(), "2");
    assert_eq!(fs::read_to_string(layers[1].join("one")).unwrap(), "1");
    assert!(layers[2].join("home/user").is_dir());
    assert_eq!(built.template.env["A"], "b");
    assert_eq!(case.store.resolve("t").unwrap(), built.template);
    assert_eq!(fs::read_dir(case.store.root().join("tmp")).unwrap().count(), 0);
}

#[test]
fn a_rebuild_repeats_only_what_changed() {
    let case = Case::new();
    let first = case.build(TWO).unwrap();
    let again = case.build(TWO).unwrap();
    assert_eq!((again.cached, &again.manifest.version), (3, &first.manifest.version));
    let changed = case.build(&TWO.replace("two 2", "two 3")).unwrap();
    assert_eq!(changed.cached, 2);
    assert_ne!(changed.manifest.version, first.manifest.version);
    assert_eq!(case.fake.ran.borrow().len(), 3);

    let options = Options { cache: Cache::Refresh, ..Options::default() };
    let fresh = case.build_with(TWO, options, &mut Silent).unwrap();
    assert_eq!(fresh.cached, 0);
    assert_eq!(fresh.manifest.version, first.manifest.version, "the same came out");
}

#[test]
fn a_change_of_the_base_repeats_everything() {
    let case = Case::new();
    case.build(TWO).unwrap();
    fs::write(case.dir.path().join("base/new"), "").unwrap();
    assert_eq!(case.build(TWO).unwrap().cached, 0);
}

#[test]
fn files_follow_the_links_of_the_layers_under_them() {
    let case = Case::new();
    fs::write(case.dir.path().join("tool.sh"), "#!/bin/sh\n").unwrap();
    let files = "files = [{ source = \"tool.sh\", target = \"/bin/tool\", mode = \"0755\" }, \
                 { content = \"hi\", target = \"/etc/motd\" }]";
    let built = case.build(files).unwrap();
    let layer = &built.template.root.layers[0];
    assert!(layer.join("usr/bin/tool").is_file() && !layer.join("bin").exists());
    assert_eq!(fs::read_to_string(layer.join("etc/motd")).unwrap(), "hi");
    fs::write(case.dir.path().join("tool.sh"), "#!/bin/sh\ntrue\n").unwrap();
    assert_eq!(case.build(files).unwrap().cached, 1);
}

#[test]
fn a_command_that_fails_leaves_no_version_but_earlier_layers() {
    let case = Case::new();
    let error = case.build("run = [\"write one 1\", \"fail\"]").unwrap_err();
    expect!["cannot build the template `t`: run: fail failed"].assert_eq(&error.to_string());
    expect![[r#"
        `fail` ended with status 7; its last output was:
        working"#]]
    .assert_eq(&error.source.to_string());
    assert!(case.store.list().unwrap().is_empty());
    assert_eq!(case.build("run = [\"write one 1\"]").unwrap().cached, 2);

    let error = case.build("run = [\"explode\"]").unwrap_err();
    assert!(matches!(*error.source, StepError::Runner(_)));
}

#[test]
fn a_template_without_python_cannot_take_pip_packages() {
    let case = Case::new();
    let error = case.build("packages.pip = [\"numpy\"]").unwrap_err();
    assert!(matches!(*error.source, StepError::Runner(_) | StepError::NoPython(_)), "{error:?}");
}

#[test]
fn a_missing_tool_is_named() {
    let case = Case::new();
    let options = Options {
        tools: Tools { npm: "/nonexistent/npm".into(), ..Tools::default() },
        ..Options::default()
    };
    let error = case.build_with("packages.npm = [\"x\"]", options, &mut Silent).unwrap_err();
    expect!["`/nonexistent/npm` is not installed on this host"]
        .assert_eq(&error.source.to_string());
}

#[test]
fn the_bases_own_setuid_files_and_secrets_of_the_host_stay_out() {
    let case = Case::new();
    let su = case.dir.path().join("base/usr/bin/su");
    fs::write(&su, "").unwrap();
    fs::set_permissions(&su, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).unwrap();
    symlink("/etc/shadow", case.dir.path().join("base/shadow")).unwrap();
    let built = case.build("").unwrap();
    let base = &built.template.root.layers[0];
    let mode =
        std::os::unix::fs::MetadataExt::mode(&fs::metadata(base.join("usr/bin/su")).unwrap());
    assert_eq!(mode & 0o7777, 0o755);
    assert_eq!(fs::read_link(base.join("shadow")).unwrap(), Path::new("/etc/shadow"));
}
