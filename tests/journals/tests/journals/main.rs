//! The suite, on every journal; and what only one of them can show.
#![expect(clippy::unwrap_used, reason = "a test; its helpers are no test functions")]

mod answers;
mod speed;
mod torn;

use std::path::Path;

use belljar_journals::suite;
use belljar_journals::{InDirectory, InPostgres};

macro_rules! on_every_journal {
    ($($name:ident)*) => {
        mod directory {
            use super::*;

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                program();
                suite::$name(&InDirectory::new().unwrap()).await.unwrap();
            })*
        }

        mod postgres {
            use super::*;

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                program();
                suite::$name(&InPostgres::new().await.unwrap()).await.unwrap();
            })*
        }
    };
}

on_every_journal! {
    a_run_is_made_once
    unfinished_runs_are_counted_when_one_is_made
    lists_are_newest_first_and_in_parts
    another_tenant_finds_nothing
    a_stale_worker_is_fenced
    of_many_claimers_one_wins
    a_lease_that_is_given_back_is_no_crash
    a_lease_is_kept_by_renewing_it
    tenants_take_turns_with_workers
    what_is_newer_can_be_read_and_not_worked_on
    an_event_is_written_once_under_its_key
    sequences_have_no_gap_whoever_writes
    a_watch_sees_everything_once
    long_events_and_blobs_come_back_as_they_were
    several_events_are_written_in_order
    several_events_are_not_written_after_one_that_was_not_seen
    a_stale_worker_writes_none_of_several
    nothing_follows_the_end
    who_has_not_seen_all_cannot_end_it
    a_paused_run_waits_until_somebody_wants_it
    a_run_that_waits_for_an_approval_is_found
    a_run_that_nobody_has_can_be_cancelled
    another_process_is_controlled
    a_fork_reads_what_was_before_it
    a_run_can_be_forked_anywhere
    what_was_acknowledged_survives_kill_9
    death_at_any_event_changes_nothing
    a_run_that_kills_everybody_is_given_up
}

/// Says where the other process's program is.
fn program() {
    suite::PROGRAM.get_or_init(|| Path::new(env!("CARGO_BIN_EXE_belljar-journals")).to_owned());
}
