use super::*;
use clap::CommandFactory as _;

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn where_a_server_keeps_things_is_not_how_much_data_runs_may_have() {
    let line = ["belljar", "serve", "--data", "/srv/belljar", "--max-run-data", "2G"];
    let Command::Serve(serve) = Cli::parse_from(line).command else { panic!() };
    assert_eq!(serve.hosting.data.as_deref(), Some(std::path::Path::new("/srv/belljar")));
    assert_eq!(serve.running.run_data, 2 << 30);
}

#[test]
fn cores_are_counted_in_thousandths() {
    assert_eq!(parse_cores("1.5"), Ok(1500));
    assert_eq!(parse_cores("2"), Ok(2000));
    for text in ["", "-1", "many", "1e30", "NaN"] {
        assert!(parse_cores(text).is_err(), "{text}");
    }
}

#[test]
fn what_follows_the_dashes_belongs_to_the_program() {
    let line = ["belljar", "run", "a.py", "--memory", "1G", "--", "--memory", "2G"];
    let Command::Run(run) = Cli::parse_from(line).command else { panic!() };
    assert_eq!(run.sandbox.memory, Some(1 << 30));
    assert_eq!(run.args, ["--memory", "2G"]);
}
