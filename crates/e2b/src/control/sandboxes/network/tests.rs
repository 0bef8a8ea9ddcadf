use serde_json::json;

use super::*;

fn network(network: Value) -> Result<Network, String> {
    serde_json::from_value(network).map_err(|error| error.to_string())
}

fn wish(asked: Value, default: Reach) -> Result<Option<NetworkWish>, String> {
    let policy = Policy { reach: default, ..Policy::default() };
    let default = NetworkWish { policy, packages: false };
    network(asked)?.wish(&default).map_err(|problem| problem.message)
}

/// Whom a wish reaches, in short.
fn reached(asked: Value, default: Reach) -> String {
    let Some(wish) = wish(asked, default).unwrap() else { return "what is usual".to_owned() };
    let reach = match &wish.policy.reach {
        Reach::None => "none".to_owned(),
        Reach::Open => "open".to_owned(),
        Reach::Allow(rules) => rules.iter().map(shown).collect::<Vec<_>>().join(" "),
    };
    let but: String = wish.policy.deny.iter().map(|block| format!(" but {block}")).collect();
    reach + &but
}

#[test]
fn words_of_e2b_are_policies() {
    let none = || Reach::None;
    for (asked, closed, open) in [
        (json!({}), "what is usual", "what is usual"),
        (json!({"allowOut": [], "rules": {}}), "what is usual", "what is usual"),
        (json!({"allow_internet_access": true}), "open", "open"),
        (json!({"allow_internet_access": false}), "none", "none"),
        (json!({"denyOut": ["0.0.0.0/0"]}), "none", "none"),
        (json!({"denyOut": ["10.0.0.0/8"]}), "none but 10.0.0.0/8", "open but 10.0.0.0/8"),
        (json!({"allowOut": ["a.example", "*.b.example"]}), "a.example *.b.example", "open"),
        (
            json!({"allowOut": ["a.example:8080"], "denyOut": ["::/0"]}),
            "a.example:8080",
            "a.example:8080",
        ),
        (
            json!({"allowOut": ["192.0.2.7"], "allow_internet_access": false}),
            "192.0.2.7",
            "192.0.2.7",
        ),
        (
            json!({"allow_internet_access": true, "denyOut": ["192.0.2.0/24"]}),
            "open but 192.0.2.0/24",
            "open but 192.0.2.0/24",
        ),
    ] {
        assert_eq!(reached(asked.clone(), none()), closed, "{asked}");
        assert_eq!(reached(asked.clone(), Reach::Open), open, "{asked}");
    }
}

#[test]
fn what_is_denied_and_allowed_at_once_is_refused() {
    for asked in [
        json!({"allowOut": ["10.1.2.3"], "denyOut": ["10.0.0.0/8"]}),
        json!({"allowOut": ["10.0.0.0/8"], "denyOut": ["10.1.0.0/16"]}),
        json!({"allow_internet_access": true, "denyOut": ["0.0.0.0/0"]}),
    ] {
        for default in [Reach::None, Reach::Open] {
            assert!(wish(asked.clone(), default).is_err(), "{asked}");
        }
    }
}

#[test]
fn what_is_not_done_is_refused_by_name() {
    for (field, value) in [
        ("dnsServers", json!(["9.9.9.9"])),
        ("egressProxy", json!({"address": "proxy:1080"})),
        ("rules", json!({"example.com": []})),
        ("httpsPorts", json!([8443])),
    ] {
        let refusal = wish(json!({ field: value }), Reach::Open).unwrap_err();
        assert!(refusal.contains(&format!("network.{field}")), "{refusal}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for asked in [
        json!({"denyOut": ["example.com"]}),
        json!({"denyOut": ["10.0.0.0/33"]}),
        json!({"allowOut": ["exa mple"]}),
        json!({"allowOut": ["example.com:0"]}),
        json!({"allowOut": ["https://example.com"]}),
        json!({"maskRequestHost": "a\r\nb"}),
        json!({"maskRequestHost": ""}),
        json!({"unheardOf": 1}),
    ] {
        assert!(wish(asked.clone(), Reach::None).is_err(), "{asked}");
    }
}

#[test]
fn a_policy_is_shown_in_the_same_words() {
    for asked in [
        json!({"allowOut": ["a.example:8080", "192.0.2.0/24"], "denyOut": ["0.0.0.0/0"]}),
        json!({"denyOut": ["0.0.0.0/0"]}),
        json!({"allow_internet_access": true, "denyOut": ["192.0.2.0/24"]}),
    ] {
        let said = wish(asked.clone(), Reach::None).unwrap().unwrap();
        let (shown, open) = Shown::of(&said.policy);
        let mut again = serde_json::to_value(shown).unwrap();
        again["allow_internet_access"] = open.into();
        assert_eq!(wish(again, Reach::None).unwrap().unwrap(), said, "{asked}");
    }
}
