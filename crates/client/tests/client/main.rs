//! The client against a real server with real sandboxes, over a network and
//! within the process: the same cases both ways.
//!
//! Has its own `main`: the process that makes sandboxes is this same executable.
//! An argument chooses cases by a part of their name.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test: it ends where it fails, and says what it did"
)]

mod keys;
mod life;
mod once;

use std::time::{Duration, Instant};

use belljar_api::sandbox::CreateSandbox;
use belljar_client::{Client, Dial, Sandbox, Trust, Within};
use belljar_testkit::Served;
use futures_util::future::LocalBoxFuture;

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
        &[$((stringify!($name), |stage| Box::pin($module::$name(stage)))),+]
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
const LONGEST: Duration = Duration::from_secs(120);

fn main() {
    belljar_testkit::hook();
    if !rustix::process::geteuid().is_root() {
        println!("skipped: sandboxes of a server need root");
        return;
    }
    let wanted = std::env::args().nth(1).filter(|name| !name.starts_with('-'));
    let wanted = wanted.unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let served = Served::start().await.unwrap();
        for way in [Way::Dial, Way::Within] {
            for (name, case) in CASES.iter().filter(|(name, _)| name.contains(&wanted)) {
                let begin = Instant::now();
                let stage = Stage { served: &served, way, client: client(&served, way, 0) };
                let done = tokio::time::timeout(LONGEST, case(&stage)).await;
                done.unwrap_or_else(|_| panic!("{name} is not over after {LONGEST:?}"));
                println!("{way:?} {name}: ok, {:.2} s", begin.elapsed().as_secs_f64());
            }
        }
        let name = "answers_outlast_the_server";
        if name.contains(&wanted) {
            once::answers_outlast_the_server(served).await.stop().await.unwrap();
            println!("{name}: ok");
        } else {
            served.stop().await.unwrap();
        }
    });
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
