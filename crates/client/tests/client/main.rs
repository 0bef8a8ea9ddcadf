//! The client against a real server with real sandboxes, over a network and
//! within the process: the same cases both ways.
//!
//! Has its own `main`: the process that makes sandboxes is this same executable. Takes
//! the arguments of any other test; all cases of one process share a server.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test: it ends where it fails, and says what it lacks"
)]

mod keys;
mod life;
mod once;

use std::cell::RefCell;
use std::process::ExitCode;
use std::time::Duration;

use belljar_api::sandbox::CreateSandbox;
use belljar_client::{Client, Dial, Sandbox, Trust, Within};
use belljar_testkit::Served;
use futures_util::future::LocalBoxFuture;
use libtest_mimic::{Arguments, Trial};
use tokio::runtime::Runtime;

/// One way to a server.
pub(crate) struct Stage<'a> {
    pub(crate) served: &'a Served,
    pub(crate) way: Way,
    /// As the tenant `one`.
    pub(crate) client: Client,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Dial,
    Within,
}

type Case = for<'a> fn(&'a Stage<'a>) -> LocalBoxFuture<'a, ()>;

/// Names each case after its function.
macro_rules! cases {
    ($($module:ident::$name:ident),+ $(,)?) => {
        &[$((
            concat!(stringify!($module), "::", stringify!($name)),
            |stage| Box::pin($module::$name(stage)),
        )),+]
    };
}

const CASES: &[(&str, Case)] = cases![
    life::a_sandbox_is_made_shown_and_ended,
    life::cells_say_what_they_do_as_it_happens,
    life::commands_are_heard_to_the_byte,
    life::files_go_both_ways_as_streams,
    life::a_copy_has_the_files_and_knows_no_key,
    life::what_ends_under_a_cell_is_said,
    keys::each_tenant_has_its_own,
    keys::whoever_was_replaced_is_refused,
    keys::a_server_that_is_not_there_has_heard_nothing,
    keys::a_server_that_nobody_vouches_for_is_told_nothing,
    once::a_client_that_dies_asks_again_and_hears_all_of_it,
    once::nobody_hears_a_cell_without_a_key_to_its_end,
    once::those_who_ask_at_the_same_moment_get_one_execution,
    once::a_command_is_executed_once_also_in_the_background,
    once::another_request_is_not_taken_for_the_same,
    once::what_did_not_start_can_be_asked_for_again,
    once::of_much_output_the_first_hears_all_and_others_what_is_kept,
    once::answers_outlast_a_pause,
];

/// No case takes longer; one that does hangs.
const LONGEST: Duration = Duration::from_secs(600);

thread_local! {
    static RUNTIME: Runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    /// Started by the first case, and anew after one that failed.
    static SERVED: RefCell<Option<Served>> = const { RefCell::new(None) };
}

fn main() -> ExitCode {
    belljar_testkit::hook();
    let mut arguments = Arguments::from_args();
    // The cases share a server, which is this thread's.
    arguments.test_threads = Some(1);
    let is_root = rustix::process::geteuid().is_root();
    if !is_root && !arguments.list {
        eprintln!("SKIPPED: sandboxes of a server need root");
    }
    let mut trials = Vec::new();
    for way in [Way::Dial, Way::Within] {
        for &(name, case) in CASES {
            let name = format!("{}::{name}", if way == Way::Dial { "dial" } else { "within" });
            trials.push(trial(name, async move |served| {
                let stage = Stage { served: &served, way, client: client(&served, way, 0) };
                case(&stage).await;
                served
            }));
        }
    }
    let last = "dial::once::answers_outlast_the_server".to_owned();
    trials.push(trial(last, once::answers_outlast_the_server));
    let trials = trials.into_iter().map(|trial| trial.with_ignored_flag(!is_root)).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Some(served) = SERVED.take() {
        RUNTIME.with(|runtime| runtime.block_on(served.stop())).unwrap();
    }
    conclusion.exit_code()
}

/// Runs a case, which hands its server on to the next one. Fails by a panic.
fn trial(name: String, case: impl AsyncFnOnce(Served) -> Served + Send + 'static) -> Trial {
    let label = name.clone();
    Trial::test(name, move || {
        RUNTIME.with(|runtime| {
            runtime.block_on(async {
                let served = match SERVED.take() {
                    Some(served) => served,
                    None => Served::start().await.unwrap(),
                };
                let served = tokio::time::timeout(LONGEST, case(served)).await;
                let late = |_| panic!("{label} is not over after {LONGEST:?}");
                SERVED.set(Some(served.unwrap_or_else(late)));
            });
        });
        Ok(())
    })
}

/// The first tenant, or the second.
pub(crate) fn client(served: &Served, way: Way, tenant: usize) -> Client {
    match way {
        Way::Dial => {
            let url = format!("http://{}", served.address);
            Client::new(Dial::new(&url, Served::KEYS[tenant], &Trust::Host).unwrap())
        }
        Way::Within => {
            let inside = served.inside(["one", "two"][tenant]);
            Client::new(Within::new(move |request| {
                let inside = inside.clone();
                async move { inside.answer(request).await }
            }))
        }
    }
}

impl Stage<'_> {
    /// A sandbox of the machine's own programs.
    pub(crate) async fn sandbox(&self) -> Sandbox {
        let wish = CreateSandbox::of("host".to_owned().try_into().unwrap());
        let made = self.client.create(&wish, None).await.unwrap();
        self.client.sandbox(&made.id)
    }

    /// The same with a Bash context, whose id is answered.
    pub(crate) async fn bash(&self) -> (Sandbox, String) {
        let sandbox = self.sandbox().await;
        let context = sandbox.create_context("bash", None).await.unwrap();
        (sandbox, context.id)
    }

    pub(crate) fn stranger(&self) -> Client {
        client(self.served, self.way, 1)
    }
}

/// How many lines a file in a sandbox has.
pub(crate) async fn lines(sandbox: &Sandbox, path: &str) -> usize {
    let bytes = sandbox.read_file(path).await.unwrap().bytes(1 << 20).await.unwrap();
    bytes.iter().filter(|byte| **byte == b'\n').count()
}
