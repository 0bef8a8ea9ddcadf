//! Runs from afar.

use belljar_domain::{RunId, Sequence};
use belljar_journal::event::Request;
use belljar_journal::{
    Address, CreateError, Created, First, ListQuery, NewRun, ReadError, RequestError, State,
};

use super::{all, make};
use crate::build;
use crate::place::Place;

pub async fn a_run_is_made_once(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let new = NewRun {
        address: build::address("ann"),
        first: First::Created(build::created("which  deals\nare\u{0} late?")),
        most_unfinished: None,
    };
    let (one, other) = tokio::join!(journal.create(&new), journal.create(&new));
    let (one, other) = (one?, other?);
    let (made, again) = if one == Created::Made { (one, other) } else { (other, one) };
    assert_eq!(made, Created::Made);
    let Created::Already(first) = again else { panic!("{again:?}") };
    assert_eq!((first.seq, &first.body), (Sequence(1), &new.first.body()));
    let row = journal.find(&new.address).await?;
    assert_eq!((row.state, row.head, row.owner), (State::Waiting, Sequence(1), None));
    assert_eq!(row.title, "which deals are late?");
    assert_eq!(all(&journal, &new.address).await?, [*first]);
    Ok(())
}

pub async fn lists_are_newest_first_and_in_parts(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(make(&journal, build::new("ann")).await?.run);
    }
    make(&journal, build::new("bob")).await?;
    made.reverse();
    let mut listed: Vec<RunId> = Vec::new();
    let mut after = None;
    let mut parts = 0;
    loop {
        let query = ListQuery { tenant: "ann", state: None, after: after.as_ref(), most: 2 };
        let part = journal.list(query).await?;
        listed.extend(part.rows.into_iter().map(|row| row.address.run));
        parts += 1;
        let Some(next) = part.next else { break };
        after = Some(next);
    }
    assert_eq!((listed, parts), (made.clone(), 3));
    let third = Address { tenant: "ann".into(), run: made[2].clone() };
    let taken = journal.claim(&third, "w", super::LONG).await?;
    let running = ListQuery { tenant: "ann", state: Some(State::Running), after: None, most: 9 };
    let rows = journal.list(running).await?.rows;
    assert_eq!(rows.len(), 1);
    assert_eq!((&rows[0].address, rows[0].owner.as_deref()), (&taken.address, Some("w")));
    for (tenant, state, count) in [
        ("ann", State::Waiting, 4),
        ("ann", State::Running, 1),
        ("ann", State::Finished, 0),
        ("bob", State::Waiting, 1),
        ("nobody", State::Waiting, 0),
    ] {
        assert_eq!(journal.count(tenant, state).await?, count, "{tenant} {state:?}");
    }
    Ok(())
}

pub async fn another_tenant_finds_nothing(place: &impl Place) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let anns = make(&journal, build::new("ann")).await?;
    let blob = journal.put_blob(&anns, b"secret".to_vec()).await?;
    let mut bobs = anns.clone();
    bobs.tenant = "bob".into();
    assert!(matches!(journal.find(&bobs).await, Err(ReadError::NoRun)));
    assert!(matches!(journal.read(&bobs, Sequence(1), 9).await, Err(ReadError::NoRun)));
    assert!(journal.claim(&bobs, "bob", super::LONG).await.is_err());
    let asked = journal.request(&bobs, build::want(Request::Cancel), None).await;
    assert!(matches!(asked, Err(RequestError::NoRun)));
    assert!(journal.get_blob(&bobs, &blob).await.is_err());
    assert!(journal.put_blob(&bobs, vec![1]).await.is_err());
    let mut lease = journal.claim(&anns, "ann", super::LONG).await?;
    lease.address = bobs.clone();
    assert!(journal.append(&lease, build::said("mine now")).await.is_err());
    assert!(journal.renew(&lease, super::LONG).await.is_err());
    assert!(journal.release(&lease).await.is_err());
    let mut stolen = build::fork(&anns, 1);
    stolen.address.tenant = "bob".into();
    assert!(matches!(journal.create(&stolen).await, Err(CreateError::NoParent)));
    let query = ListQuery { tenant: "bob", state: None, after: None, most: 9 };
    assert!(journal.list(query).await?.rows.is_empty());
    // Nothing of all that left a trace.
    assert_eq!(all(&journal, &anns).await?.len(), 2);
    // The id itself is refused or is another run; never the one that is there.
    let same = NewRun {
        address: bobs,
        first: First::Created(build::created("bob's")),
        most_unfinished: None,
    };
    match journal.create(&same).await {
        Ok(Created::Made) | Err(CreateError::Taken) => {}
        other => panic!("{other:?}"),
    }
    Ok(())
}

/// Of creations at once, as many are made as the tenant may have.
pub async fn unfinished_runs_are_counted_when_one_is_made(
    place: &impl Place,
) -> anyhow::Result<()> {
    let journal = place.open().await?;
    let new = || NewRun { most_unfinished: Some(3), ..build::new("ann") };
    let news: Vec<NewRun> = (0..12).map(|_| new()).collect();
    let mut tasks = tokio::task::JoinSet::new();
    for new in news.clone() {
        let journal = journal.clone();
        tasks.spawn(async move { (new.address.clone(), journal.create(&new).await) });
    }
    let made = tasks.join_all().await;
    let refused = |made: &(Address, Result<Created, CreateError>)| {
        matches!(made.1, Err(CreateError::TooManyUnfinished { most: 3, unfinished: 3 }))
    };
    assert_eq!(made.iter().filter(|made| refused(made)).count(), 9, "{made:?}");
    let one = made.iter().find(|(_, made)| made.is_ok()).map(|(address, _)| address);
    let first = news.iter().find(|new| Some(&new.address) == one);
    let first = first.ok_or_else(|| anyhow::anyhow!("none was made"))?;
    let again = journal.create(first).await?;
    assert!(matches!(again, Created::Already(_)), "a repetition is no further run");
    let other = NewRun { most_unfinished: Some(3), ..build::new("bob") };
    assert_eq!(journal.create(&other).await?, Created::Made);
    Ok(())
}
