//! Fixed choices of cases, for tiers on which all of them take too long.

use crate::args::Subset;
use crate::suite::Case;

/// At least one of each group, and those that tiers differ in.
const QUICK: &[&str] = &[
    "execute::the_environment_is_only_what_was_given",
    "execute::code_has_no_rights",
    "execute::exit_statuses_are_told",
    "execute::python_runs",
    "streams::both_outputs_are_apart_and_in_order",
    "streams::too_much_output_ends_the_call",
    "terminal::a_terminal_is_one",
    "terminal::control_c_interrupts",
    "ends::kill_ends_daemons_too",
    "ends::leftovers_stay_when_asked",
    "ends::cpu_time_is_counted",
    "ends::peak_memory_is_counted",
    "limits::wall_time_ends_a_call",
    "limits::cpu_time_ends_a_call",
    "limits::memory_ends_a_call",
    "limits::a_fork_bomb_ends",
    "limits::disk_bytes_end_a_call",
    "limits::a_forbidden_system_call_ends_the_call",
    "files::any_name_will_do",
    "files::links_into_procfs_are_refused",
    "attributes::attributes_are_set_and_told",
    "trees::a_deep_tree_is_removed",
    "watching::making_writing_and_removing_are_told",
    "life::a_paused_sandbox_stands_still",
    "life::a_sandbox_whose_guest_dies_is_lost",
    "life::the_end_comes_while_calls_run",
    "ending::a_delete_does_not_wait_for_a_snapshot",
    "leftovers::what_calls_leave_ends_with_the_sandbox",
    "isolation::a_new_sandbox_is_fresh",
    "isolation::there_is_no_other_network",
    "figures::nothing_of_the_host_shows",
    "ports::a_server_is_reached_wherever_it_listens",
    "copies::any_sandbox_can_be_copied",
    "snapshots::snapshots_at_once_take_turns",
    "profiles::root_has_the_capabilities_of_the_profile",
    "data::a_dataset_is_read_as_it_is",
    "data::tiers_that_show_nothing_say_so",
    "saved::a_variable_survives_on_disk",
    "saved::forks_go_their_own_ways",
    "saved::forks_draw_other_random_numbers",
    "saved::the_clock_is_right_afterwards",
    "contexts::state_persists_between_cells",
    "languages::bash_keeps_state_and_goes_on_after_failures",
];

impl Subset {
    pub(crate) fn has(self, case: &Case) -> bool {
        match self {
            Self::Quick => QUICK.contains(&case.full_name().as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cases;

    #[test]
    fn every_name_is_a_case_and_every_group_has_one() {
        let known: BTreeSet<String> = cases::all().map(Case::full_name).collect();
        for name in QUICK {
            assert!(known.contains(*name), "{name}");
        }
        for case in cases::all() {
            let prefix = format!("{}::", case.group);
            assert!(QUICK.iter().any(|name| name.starts_with(&prefix)), "{prefix}");
        }
    }
}
