use super::*;

fn to(text: &str) -> Destination {
    let (host, port) = text.rsplit_once(':').unwrap();
    Destination { host: host.parse().unwrap(), port: port.parse().unwrap() }
}

fn rule(host: &str) -> Rule {
    Rule::of(host.parse().unwrap())
}

fn texts(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

fn allow(rules: Vec<Rule>) -> Policy {
    Policy { reach: Reach::Allow(rules), ..Policy::default() }
}

fn open() -> Policy {
    Policy { reach: Reach::Open, ..Policy::default() }
}

fn tape(reach: Reach, tape: Tape) -> Policy {
    Policy { reach, tape, ..Policy::default() }
}

fn replay(miss: Miss) -> Tape {
    Tape::Replay { cassette: "one".parse().unwrap(), miss }
}

#[track_caller]
fn check(policy: &Policy, wants: &[(&str, Verdict)]) {
    for (destination, want) in wants {
        assert_eq!(judge(policy, &to(destination)), *want, "{destination}");
    }
}

use Verdict::{Content as Read, Deny, Tunnel};

#[test]
fn no_network_reaches_nobody() {
    let policy = Policy::default();
    check(&policy, &[("example.org:443", Deny(Reason::NoNetwork))]);
    let refused = judge_request(&policy, &to("example.org:443"), "GET", "/");
    assert_eq!(refused, Err(Reason::NoNetwork));
}

#[test]
fn rules_name_hosts_by_whole_labels() {
    let policy = allow(vec![rule("allowed.com"), rule("*.below.org"), rule("203.0.114.0/24")]);
    let no = Deny(Reason::NotAllowed);
    check(
        &policy,
        &[
            ("allowed.com:443", Tunnel),
            ("ALLOWED.com.:443", Tunnel),
            ("allowed.com:80", Tunnel),
            ("notallowed.com:443", no),
            ("allowed.com.evil.com:443", no),
            ("a.allowed.com:443", no),
            ("a.below.org:443", Tunnel),
            ("a.b.below.org:443", Tunnel),
            ("below.org:443", no),
            ("notbelow.org:443", no),
            ("203.0.114.7:443", Tunnel),
            ("203.0.115.7:443", no),
            ("xn--llowed-qta.com:443", no),
        ],
    );
}

#[test]
fn ports_are_the_two_usual_ones_unless_listed() {
    let listed = Rule { ports: vec![8443], ..rule("listed.com") };
    let policy = allow(vec![rule("allowed.com"), listed.clone()]);
    let no = Deny(Reason::Port);
    for port in [22, 25, 81, 3128, 5432, 6379, 8443, 65535] {
        check(&policy, &[(&format!("allowed.com:{port}"), no)]);
    }
    check(&policy, &[("listed.com:8443", Tunnel), ("listed.com:443", no), ("open.com:0", no)]);
    // Another rule of the same host may list another port.
    let policy = allow(vec![rule("listed.com"), listed]);
    check(&policy, &[("listed.com:8443", Tunnel), ("listed.com:443", Tunnel)]);
    check(&open(), &[("any.com:8443", Tunnel), ("any.com:0", no)]);
}

#[test]
fn denials_beat_rules_and_open() {
    let denials = |policy: Policy| Policy {
        deny: vec!["203.0.114.0/24".parse().unwrap()],
        deny_hosts: vec!["bad.com".parse().unwrap(), "*.bad.org".parse().unwrap()],
        ..policy
    };
    let rules = ["bad.com", "a.bad.org", "good.com", "203.0.114.9"].map(rule).to_vec();
    for policy in [denials(allow(rules)), denials(open())] {
        check(
            &policy,
            &[
                ("bad.com:443", Deny(Reason::DeniedHost)),
                ("BAD.com.:443", Deny(Reason::DeniedHost)),
                ("a.bad.org:443", Deny(Reason::DeniedHost)),
                ("203.0.114.9:443", Deny(Reason::DeniedBlock)),
                ("good.com:443", Tunnel),
            ],
        );
        let refused = judge_request(&policy, &to("bad.com:443"), "GET", "/");
        assert_eq!(refused, Err(Reason::DeniedHost));
    }
    let policy = Policy { deny_hosts: vec!["203.0.114.9".parse().unwrap()], ..open() };
    check(
        &policy,
        &[
            ("203.0.114.9:443", Deny(Reason::DeniedHost)),
            ("[::ffff:203.0.114.9]:443", Deny(Reason::DeniedHost)),
            ("[64:ff9b::203.0.114.9]:443", Deny(Reason::DeniedHost)),
        ],
    );
}

#[test]
fn the_gateway_and_metadata_are_no_destinations() {
    let names = [
        "gateway.belljar.internal",
        "belljar.internal",
        "metadata.google.internal",
        "METADATA.google.internal.",
        "127.0.0.1",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:0.0.0.0]",
    ];
    let listed = |name: &&str| Rule { ports: vec![3128], ..rule(name) };
    for policy in [open(), allow(names.iter().map(listed).collect())] {
        for name in names {
            check(&policy, &[(&format!("{name}:3128"), Deny(Reason::Private))]);
        }
    }
    check(&open(), &[("notbelljar.internal:443", Tunnel)]);
}

#[test]
fn rules_of_methods_and_paths_need_content_unless_another_rule_allows_all() {
    let gets = Rule { methods: texts(&["GET", "HEAD"]), ..rule("index.org") };
    let below = Rule { paths: texts(&["/simple"]), ..rule("index.org") };
    check(&allow(vec![gets.clone()]), &[("index.org:443", Read)]);
    check(&allow(vec![below.clone(), gets.clone()]), &[("index.org:443", Read)]);
    check(&allow(vec![gets, rule("index.org"), below]), &[("index.org:443", Tunnel)]);
}

#[test]
fn requests_are_judged_by_method_and_path() {
    let policy = allow(vec![
        Rule { methods: texts(&["GET"]), paths: texts(&["/simple", "/files/"]), ..rule("i.org") },
        Rule { methods: texts(&["POST"]), paths: texts(&["/upload"]), ..rule("i.org") },
        Rule { methods: texts(&["HEAD"]), ..rule("i.org") },
    ]);
    let index = to("i.org:443");
    for (method, path, want) in [
        ("GET", "/simple", Ok(())),
        ("GET", "/simple/", Ok(())),
        ("GET", "/simple/a?x=/../y", Ok(())),
        ("GET", "/files/a", Ok(())),
        ("GET", "/simplest", Err(Reason::Path)),
        ("GET", "/upload", Err(Reason::Path)),
        ("GET", "/", Err(Reason::Path)),
        ("GET", "/simple/../upload", Err(Reason::Path)),
        ("GET", "/simple/%2e%2e/upload", Err(Reason::Path)),
        ("GET", "/simple%2f..%2fupload", Err(Reason::Path)),
        ("GET", "/simple/%00", Err(Reason::Path)),
        ("GET", "/simple\\..\\upload", Err(Reason::Path)),
        ("GET", "?/simple", Err(Reason::Path)),
        ("POST", "/upload", Ok(())),
        ("POST", "/simple", Err(Reason::Path)),
        ("get", "/simple", Err(Reason::Method)),
        ("PUT", "/simple", Err(Reason::Method)),
        // A rule without paths does not care how they are written.
        ("HEAD", "/a/../b%2f", Ok(())),
    ] {
        assert_eq!(judge_request(&policy, &index, method, path), want, "{method} {path}");
        assert_eq!(may_leave(&policy, &index, method, path), want, "{method} {path}");
    }
    let other_port = judge_request(&policy, &to("i.org:8080"), "HEAD", "/");
    assert_eq!(other_port, Err(Reason::Port));
    let other_host = judge_request(&policy, &to("j.org:443"), "HEAD", "/");
    assert_eq!(other_host, Err(Reason::NotAllowed));
}

#[test]
fn recording_reads_what_may_be_reached() {
    let record = Tape::Record { cassette: "one".parse().unwrap() };
    let policy = tape(Reach::Allow(vec![rule("a.com")]), record.clone());
    check(&policy, &[("a.com:443", Read), ("b.com:443", Deny(Reason::NotAllowed))]);
    check(&tape(Reach::Open, record.clone()), &[("b.com:443", Read)]);
    check(&tape(Reach::None, record), &[("b.com:443", Deny(Reason::NoNetwork))]);
}

#[test]
fn a_strict_tape_plays_anything_and_sends_nothing() {
    let destination = to("a.com:443");
    for reach in [Reach::None, Reach::Open, Reach::Allow(vec![rule("b.com")])] {
        let policy = tape(reach, replay(Miss::Strict));
        check(&policy, &[("a.com:443", Read), ("a.com:8443", Read)]);
        assert_eq!(judge_request(&policy, &destination, "GET", "/"), Ok(()));
        assert_eq!(may_leave(&policy, &destination, "GET", "/"), Err(Reason::NotRecorded));
    }
    let denied = vec!["a.com".parse().unwrap()];
    let policy = Policy { deny_hosts: denied, ..tape(Reach::Open, replay(Miss::Strict)) };
    check(&policy, &[("a.com:443", Deny(Reason::DeniedHost))]);
}

#[test]
fn a_judged_tape_plays_what_rules_allow_and_sends_nothing() {
    let policy = tape(Reach::Allow(vec![rule("a.com")]), replay(Miss::Judged));
    check(&policy, &[("a.com:443", Read), ("b.com:443", Deny(Reason::NotAllowed))]);
    let judged = |destination| judge_request(&policy, &to(destination), "GET", "/");
    assert_eq!((judged("a.com:443"), judged("b.com:443")), (Ok(()), Err(Reason::NotAllowed)));
    let leaves = may_leave(&policy, &to("a.com:443"), "GET", "/");
    assert_eq!(leaves, Err(Reason::NotRecorded));
    check(&tape(Reach::None, replay(Miss::Judged)), &[("a.com:443", Deny(Reason::NoNetwork))]);
}

#[test]
fn a_tape_that_falls_through_sends_what_rules_allow() {
    let policy = tape(Reach::Allow(vec![rule("a.com")]), replay(Miss::Fallthrough));
    check(&policy, &[("a.com:443", Read), ("b.com:443", Read)]);
    assert_eq!(may_leave(&policy, &to("a.com:443"), "GET", "/"), Ok(()));
    assert_eq!(may_leave(&policy, &to("b.com:443"), "GET", "/"), Err(Reason::NotAllowed));
    let policy = tape(Reach::None, replay(Miss::Fallthrough));
    assert_eq!(may_leave(&policy, &to("a.com:443"), "GET", "/"), Err(Reason::NoNetwork));
}

#[test]
fn a_tunnel_is_pinned_to_its_name() {
    let policy = Policy { deny_hosts: vec!["bad.com".parse().unwrap()], ..open() };
    let name = |text: &str| text.parse::<HostName>().unwrap();
    let asked = to("a.com:443");
    assert_eq!(judge_name(&policy, &asked, Some(&name("A.com"))), Ok(()));
    let other = judge_name(&policy, &asked, Some(&name("b.a.com")));
    assert_eq!(other, Err(Reason::NameMismatch));
    assert_eq!(judge_name(&policy, &asked, None), Err(Reason::NoName));
    let asked = to("203.0.114.9:443");
    assert_eq!(judge_name(&policy, &asked, None), Ok(()));
    assert_eq!(judge_name(&policy, &asked, Some(&name("b.com"))), Ok(()));
    let denied = judge_name(&policy, &asked, Some(&name("bad.com")));
    assert_eq!(denied, Err(Reason::DeniedHost));
}
