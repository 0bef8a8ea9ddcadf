//! Runs, with real sandboxes, a real journal, and a scripted model over the real wire.
//!
//! Has its own `main`: the process that makes sandboxes is this same executable, and so
//! is the worker that is killed. Takes the arguments of any other test; all cases of one
//! process share a server.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test: it ends where it fails, and says what it did or lacks"
)]

mod again;
mod api;
mod ask;
mod brief;
mod charged;
mod closing;
mod crash;
mod described;
mod ends;
mod environment;
mod eval;
mod figures;
mod fit;
mod forms;
mod hooked;
mod inside;
mod limits;
mod money;
mod mounted;
mod offered;
mod operations;
mod pipeline;
mod replicas;
mod reports;
mod resumed;
mod rules;
mod signals;
mod steer;
mod steered;
mod terminal;
mod trouble;
mod world;

use std::cell::RefCell;
use std::process::ExitCode;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use libtest_mimic::{Arguments, Trial};
use tokio::runtime::Runtime;

use world::World;

type Case = for<'a> fn(&'a World) -> LocalBoxFuture<'a, ()>;

/// Names each case after its function.
macro_rules! cases {
    ($($module:ident::$name:ident),+ $(,)?) => {
        &[$((
            concat!(stringify!($module), "::", stringify!($name)),
            |world| Box::pin($module::$name(world)),
        )),+]
    };
}

const CASES: &[(&str, Case)] = cases![
    ends::a_run_answers_with_code_and_files,
    ends::warnings_come_once_each_and_the_last_turn_has_no_tools,
    ends::no_run_ends_without_a_result,
    ends::fifty_megabytes_cost_the_model_four_thousand_characters,
    ends::every_kind_of_mistake_is_counted_and_told,
    brief::a_recorded_run_is_replayed_without_its_model,
    brief::a_brief_that_no_run_can_have_is_refused,
    brief::an_answer_that_the_budget_bounds_is_a_deviation,
    brief::ask_records_and_replays,
    trouble::a_provider_that_stumbles_is_asked_again_with_the_same_bytes,
    trouble::a_provider_that_never_answers_is_given_up,
    trouble::a_request_that_is_refused_is_not_made_again,
    trouble::a_refusal_is_no_answer,
    trouble::an_answer_that_is_cut_off_is_said_to_be,
    trouble::who_is_out_of_money_keeps_what_there_is,
    trouble::calls_that_cannot_be_made_are_told_and_the_run_goes_on,
    trouble::a_model_that_says_nothing_is_given_up,
    trouble::what_is_said_without_a_call_is_the_answer_and_unknown_costs_are_marked,
    limits::each_budget_ends_the_work_and_the_model_answers_without_tools,
    limits::a_call_takes_no_longer_than_the_run_may,
    limits::a_call_computes_no_more_than_the_run_may,
    limits::warnings_come_once_each_however_often_the_run_is_taken_up,
    limits::who_gets_more_turns_after_a_warning_is_not_warned_again,
    inside::code_that_takes_too_much_is_ended_and_the_run_goes_on,
    inside::links_lead_nowhere_that_the_code_could_not_go,
    inside::a_run_without_a_sandbox_says_so,
    inside::data_that_is_not_what_it_was_is_not_used,
    inside::a_run_that_kills_whoever_works_on_it_is_given_up,
    money::a_gateway_that_is_out_of_money_ends_the_run_with_what_there_is,
    money::a_run_keeps_money_for_its_last_answer_and_never_spends_more,
    money::the_gateway_refuses_what_a_run_may_not_spend,
    money::usage_has_what_runs_and_their_sandboxes_cost,
    charged::requests_of_a_killed_ask_are_charged_once,
    money::a_lost_answer_costs_what_was_reserved,
    again::a_run_that_was_short_of_turns_goes_on_in_another_with_more,
    again::ask_tries_again_with_more_turns_and_both_runs_say_so,
    again::ask_tries_again_with_more_memory,
    forms::what_is_described_is_what_is_loaded,
    terminal::answers_fit_the_terminal_and_files_stay_with_the_run,
    fit::data_larger_than_the_sandbox_is_shown_and_nothing_is_lost,
    fit::data_that_has_to_be_copied_is_sampled_and_the_model_is_told,
    fit::a_file_that_cannot_be_read_takes_nothing_from_the_others,
    fit::stats_count_what_the_logs_say,
    steer::a_run_waits_is_told_and_goes_on,
    steer::a_run_is_cancelled_between_two_actions,
    steer::a_budget_can_be_changed_while_the_run_goes_on,
    steer::a_sandbox_that_is_lost_is_replaced_and_the_model_is_told,
    ask::the_heuristic_answers_about_three_datasets,
    ask::a_model_behind_the_gateway_answers_and_the_code_sees_no_key,
    ask::a_gateway_that_cannot_start_says_why,
    resumed::a_run_goes_on_as_it_was_begun_or_not_at_all,
    resumed::what_cannot_be_written_or_bought_is_said_before_the_model_is_asked,
    resumed::a_budget_of_nothing_and_a_name_of_nobody_are_refused,
    rules::warnings_are_no_part_of_what_the_rules_are_asked,
    rules::what_the_rules_cannot_answer_is_no_success,
    rules::the_rules_read_files_as_they_are_described,
    rules::rules_that_lack_memory_look_again_with_more,
    rules::a_template_without_an_interpreter_ends_the_run,
    ask::whoever_goes_on_after_a_kill_sees_the_same_data,
    api::a_question_is_answered_and_nobody_else_sees_it,
    api::a_run_waits_is_looked_at_and_goes_on,
    api::a_run_is_cancelled,
    api::what_cannot_be_a_run_is_refused,
    api::fixed_rules_answer_where_there_is_no_model,
    described::a_file_is_described_to_its_owner_alone,
    described::any_replica_describes_a_file_and_forgets_it_with_the_file,
    api::figures_are_of_ones_own_runs,
    steered::a_run_holds_is_told_and_stepped,
    steered::a_human_answers_and_the_model_hears_it,
    steered::a_run_that_was_short_is_retried_with_more,
    steered::words_come_before_the_answer,
    steered::quotas_refuse_what_is_above_them_alone,
    steered::another_replica_is_steered_through_the_database,
    steered::words_go_from_replica_to_replica,
    signals::each_event_is_told_once_also_if_the_worker_is_stopped,
    figures::each_replica_tells_what_all_of_them_did,
    environment::a_run_has_the_tier_and_the_limits_that_it_chose,
    environment::ask_has_the_tier_and_the_limits_of_its_options,
    environment::no_call_of_a_run_takes_longer_than_its_owner_said,
    environment::a_tier_is_never_replaced_by_another,
    operations::ask_calls_the_operations_of_its_options,
    operations::ask_replays_what_operations_answered,
    operations::a_replay_ends_at_a_request_that_was_not_recorded,
    mounted::a_tenant_mounts_its_own_files_alone,
    pipeline::a_pipeline_heals_five_failures,
    pipeline::a_hopeless_task_ends_with_a_question,
    pipeline::rules_and_artifacts_need_no_model,
    pipeline::the_command_line_has_pipelines,
    reports::a_run_has_one_page_that_its_owner_alone_reads,
    reports::a_run_of_this_machine_has_a_page_with_a_brand,
    eval::a_grid_is_scored_resumed_and_replayed,
    eval::judges_are_checked_and_failures_counted,
    eval::planted_mistakes_show_what_guards_and_prompts_gain,
    eval::a_grid_on_a_server_is_visible_there,
    replicas::another_replica_goes_on_where_one_was_dropped,
    crash::a_worker_may_be_killed_at_every_event,
    crash::an_answer_that_was_kept_is_not_bought_again,
    pipeline::a_pipeline_survives_a_kill_at_every_event,
    pipeline::a_pipeline_has_its_checkpoint_until_its_last_event,
    pipeline::a_fork_is_found_by_its_checkpoint,
    closing::an_answer_is_written_before_the_run_is_recorded,
    closing::a_request_that_comes_while_a_run_ends_is_obeyed,
];

/// No case takes longer; one that does hangs.
const LONGEST: Duration = Duration::from_secs(1800);

thread_local! {
    static RUNTIME: Runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    /// Started by the first case, and anew after one that failed.
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

fn main() -> ExitCode {
    belljar_testkit::hook();
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some(crash::WORKER) {
        RUNTIME.with(|runtime| runtime.block_on(crash::worker(&words.collect::<Vec<_>>())));
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    // The cases share a world, which is this thread's.
    arguments.test_threads = Some(1);
    let lacks = belljar_testkit::lacking(world::TEMPLATE);
    if let Some(lacks) = lacks.as_ref().filter(|_| !arguments.list) {
        eprintln!("SKIPPED: these tests need {lacks}");
    }
    let trial = |(name, case): &(&str, Case)| {
        let (name, case) = ((*name).to_owned(), *case);
        let label = name.clone();
        let run = move || {
            run(&label, case);
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(lacks.is_some())
    };
    let conclusion = libtest_mimic::run(&arguments, CASES.iter().map(trial).collect());
    if let Some(world) = WORLD.take() {
        RUNTIME.with(|runtime| runtime.block_on(world.stop()));
    }
    conclusion.exit_code()
}

/// Runs one case. Fails by a panic.
fn run(name: &str, case: Case) {
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let world = match WORLD.take() {
                Some(world) => world,
                None => World::start().await,
            };
            let done = tokio::time::timeout(LONGEST, case(&world)).await;
            done.unwrap_or_else(|_| panic!("{name} is not over after {LONGEST:?}"));
            WORLD.set(Some(world));
        });
    });
}
