//! Requirements: G2, G6

use std::sync::Arc;
use std::time::Duration;

use belljar_domain::SandboxId;
use http::HeaderMap;

use super::*;

fn owner(number: u8, epoch: u64) -> Owner {
    Owner { sandbox: SandboxId::from_random([number; 16]), epoch }
}

fn scope(operations: &[&str]) -> Scope {
    Scope { operations: operations.iter().map(|&one| one.to_owned()).collect(), ..Scope::default() }
}

#[tokio::test]
async fn a_token_opens_only_where_it_was_minted() {
    let tokens = Tokens::default();
    let fresh = tokens.mint(owner(1, 1), scope(&["llm"]), Duration::ZERO).unwrap();
    assert_eq!(fresh.token.len(), LENGTH);
    let token = tokens.check(&fresh.token, &owner(1, 1)).unwrap();
    assert!(token.allows("llm"));
    assert!(!token.allows("mint"));
}

#[tokio::test]
async fn a_stolen_token_is_dead_for_the_thief_and_at_home() {
    let tokens = Tokens::default();
    let fresh = tokens.mint(owner(1, 1), scope(&["llm"]), Duration::ZERO).unwrap();
    let other = tokens.mint(owner(1, 1), scope(&["llm"]), Duration::ZERO).unwrap();
    let at_home = tokens.check(&fresh.token, &owner(1, 1)).unwrap();
    assert_eq!(
        tokens.check(&fresh.token, &owner(2, 1)).unwrap_err(),
        Refusal::Foreign(owner(1, 1).sandbox)
    );
    assert_eq!(tokens.foreign(), 1);
    assert_eq!(at_home.death().await, Death::Revoked);
    assert_eq!(tokens.check(&fresh.token, &owner(1, 1)).unwrap_err(), Refusal::Unknown);
    assert!(tokens.check(&other.token, &owner(1, 1)).is_ok());
}

#[tokio::test]
async fn a_sandbox_that_was_opened_again_has_no_old_token() {
    let tokens = Tokens::default();
    let fresh = tokens.mint(owner(1, 1), scope(&["llm"]), Duration::ZERO).unwrap();
    assert_eq!(
        tokens.check(&fresh.token, &owner(1, 2)).unwrap_err(),
        Refusal::Foreign(owner(1, 1).sandbox)
    );
}

#[tokio::test(start_paused = true)]
async fn a_token_dies_by_our_clock() {
    let tokens = Tokens::default();
    let fresh = tokens.mint(owner(1, 1), scope(&["llm"]), Duration::from_secs(30)).unwrap();
    let token = tokens.check(&fresh.token, &owner(1, 1)).unwrap();
    tokio::time::advance(Duration::from_secs(29)).await;
    assert!(tokens.check(&fresh.token, &owner(1, 1)).is_ok());
    let begun = Instant::now();
    assert_eq!(Arc::clone(&token).death().await, Death::Expired);
    assert!(begun.elapsed() <= Duration::from_millis(1100));
    assert_eq!(tokens.check(&fresh.token, &owner(1, 1)).unwrap_err(), Refusal::Expired);
    assert_eq!(tokens.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn nobody_gets_more_than_the_longest_at_once() {
    let tokens = Tokens::default();
    let fresh = tokens.mint(owner(1, 1), scope(&[]), Duration::from_secs(1 << 30)).unwrap();
    tokio::time::advance(LONGEST).await;
    assert_eq!(tokens.check(&fresh.token, &owner(1, 1)).unwrap_err(), Refusal::Expired);
}

#[tokio::test(start_paused = true)]
async fn renewing_keeps_what_runs_alive_but_wakes_no_dead() {
    let tokens = Tokens::default();
    let dead = tokens.mint(owner(1, 1), scope(&[]), Duration::from_secs(1)).unwrap();
    let fresh = tokens.mint(owner(1, 1), scope(&[]), Duration::from_secs(60)).unwrap();
    let death = tokio::spawn(tokens.check(&fresh.token, &owner(1, 1)).unwrap().death());
    tokio::time::advance(Duration::from_secs(50)).await;
    assert_eq!(tokens.renew(&owner(1, 1), Duration::from_secs(60)).0, 1);
    tokio::time::advance(Duration::from_secs(50)).await;
    assert!(tokens.check(&fresh.token, &owner(1, 1)).is_ok());
    assert!(tokens.check(&dead.token, &owner(1, 1)).is_err());
    assert!(!death.is_finished());
    assert_eq!(tokens.revoke(&owner(1, 1)), 1);
    assert_eq!(death.await.unwrap(), Death::Revoked);
}

#[tokio::test]
async fn what_is_no_token_is_never_looked_up() {
    let tokens = Tokens::default();
    let fresh = tokens.mint(owner(1, 1), scope(&[]), Duration::ZERO).unwrap();
    let forged = format!("{PREFIX}{}", "A".repeat(LENGTH - PREFIX.len()));
    let longer = format!("{}A", fresh.token);
    let huge = "x".repeat(1 << 20);
    let padded = format!(" {}", fresh.token);
    for wrong in ["", "' OR '1'='1", &forged, &longer, &huge, &padded, &fresh.token[..46], "bjt_"] {
        assert_eq!(tokens.check(wrong, &owner(1, 1)).unwrap_err(), Refusal::Unknown);
    }
}

#[tokio::test(start_paused = true)]
async fn who_guesses_too_much_is_told_so_but_a_right_token_still_opens() {
    let tokens = Tokens::default();
    let fresh = tokens.mint(owner(1, 1), scope(&[]), Duration::ZERO).unwrap();
    for _ in 0..WRONG_A_MINUTE {
        assert_eq!(tokens.check("guess", &owner(1, 1)).unwrap_err(), Refusal::Unknown);
    }
    assert_eq!(tokens.check("guess", &owner(1, 1)).unwrap_err(), Refusal::TooMany);
    assert_eq!(tokens.check("guess", &owner(2, 1)).unwrap_err(), Refusal::Unknown);
    assert!(tokens.check(&fresh.token, &owner(1, 1)).is_ok());
    tokio::time::advance(Duration::from_secs(62)).await;
    assert_eq!(tokens.check("guess", &owner(1, 1)).unwrap_err(), Refusal::Unknown);
}

#[tokio::test]
async fn nothing_that_is_kept_shows_the_token() {
    let tokens = Tokens::default();
    let fresh = tokens.mint(owner(1, 1), scope(&["llm"]), Duration::ZERO).unwrap();
    let secret = fresh.token.strip_prefix(PREFIX).unwrap();
    let bits = URL_SAFE_NO_PAD.decode(secret).unwrap();
    let shown = format!("{tokens:?} {fresh:?}");
    assert!(!shown.contains(secret));
    assert!(!shown.contains(&format!("{bits:?}")));
}

#[tokio::test(start_paused = true)]
async fn tokens_are_bounded_and_forgotten() {
    let tokens = Tokens::default();
    for _ in 0..MOST_OF_ONE {
        tokens.mint(owner(1, 1), scope(&[]), Duration::ZERO).unwrap();
    }
    let more = tokens.mint(owner(1, 1), scope(&[]), Duration::ZERO);
    assert!(matches!(more, Err(MintError::TooManyOfOne)));
    tokio::time::advance(LONGEST).await;
    tokens.mint(owner(2, 1), scope(&[]), Duration::ZERO).unwrap();
    assert_eq!(tokens.len(), 1);
    tokens.revoke(&owner(2, 1));
    assert!(tokens.len() == 0 && tokens.lock().of.is_empty());
}

#[test]
fn a_request_shows_one_token_or_none() {
    let check = |fields: &[(&'static str, &str)], want: Presented<'_>| {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        assert_eq!(presented(&headers), want, "{fields:?}");
    };
    check(&[], Presented::Nothing);
    check(&[("authorization", "Bearer abc")], Presented::One("abc".into()));
    check(&[("authorization", "bearer abc")], Presented::One("abc".into()));
    check(&[("x-api-key", "abc")], Presented::One("abc".into()));
    check(&[("authorization", "Basic abc")], Presented::Confused);
    check(&[("authorization", "Basic eDphYmM=")], Presented::One("abc".into()));
    check(&[("authorization", "Basic YWJj")], Presented::Confused);
    check(&[("authorization", "abc")], Presented::Confused);
    check(&[("authorization", "Bearer abc"), ("x-api-key", "abc")], Presented::Confused);
    check(&[("x-api-key", "abc"), ("x-api-key", "abc")], Presented::Confused);
    check(&[("x-api-key", "ab\u{e9}")], Presented::Confused);
}
