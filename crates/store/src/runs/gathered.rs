//! Several events more, in one statement and so in one commit.
//!
//! All are written, or none. If one of them is there already, or something else is not as the
//! writer thinks, they are written one by one, and the first that cannot be says why.

use belljar_domain::Sequence;
use belljar_journal::{
    AppendError, AppendedAll, Batch, BlobRef, Event, Lease, MOST_BLOB_BYTES, NewEvent, State,
    Stored, rules,
};
use time::OffsetDateTime;

use super::append::{Columns, fact, is_repetition};
use super::approvals::ApprovalChange;
use super::money::MoneyChange;
use super::{Runs, failed};
use crate::read;

/// The columns of events, each with a value for every event.
#[derive(Debug, Default)]
struct Arrays {
    kinds: Vec<String>,
    versions: Vec<i32>,
    keys: Vec<Option<String>>,
    bodies: Vec<Option<String>>,
    blobs: Vec<Option<Vec<u8>>>,
    facts: Vec<Option<String>>,
    /// Blobs that are kept, of events and of what they name.
    digests: Vec<Vec<u8>>,
    contents: Vec<Vec<u8>>,
}

impl Arrays {
    fn push(&mut self, event: &NewEvent, stored: &Stored) {
        let Columns { body, blob, content } = Columns::of(stored);
        self.kinds.push(event.body.kind().to_owned());
        self.versions.push(i32::try_from(event.body.version()).unwrap_or(i32::MAX));
        self.keys.push(event.key.as_ref().map(|key| key.as_str().to_owned()));
        self.bodies.push(body.map(str::to_owned));
        self.blobs.push(blob.map(<[u8]>::to_vec));
        self.facts.push(fact(&event.body).map(str::to_owned));
        if let (Some(blob), Some(content)) = (blob, content) {
            self.keep(blob, content);
        }
    }

    fn keep(&mut self, digest: &[u8], content: &[u8]) {
        self.digests.push(digest.to_vec());
        self.contents.push(content.to_vec());
    }
}

impl Runs {
    pub(super) async fn write_all(
        &self,
        lease: &Lease,
        batch: Batch,
        seen: Option<Sequence>,
    ) -> Result<AppendedAll, AppendError> {
        let mut stored = Vec::new();
        for event in &batch.events {
            stored.push(rules::check(event)?);
        }
        if batch.blobs.iter().any(|content| content.len() > MOST_BLOB_BYTES) {
            return Err(AppendError::TooLarge);
        }
        if let Some(written) = self.move_on_by_all(lease, &batch, &stored, seen).await? {
            let last = written.last().map_or(Sequence::ZERO, |event| event.seq);
            return Ok(AppendedAll { last, events: Some(written) });
        }
        let (address, generation) = (&lease.address, Some(lease.generation));
        for content in batch.blobs {
            self.put(address, content).await?;
        }
        let (mut last, mut seen) = (Sequence::ZERO, seen);
        for (event, stored) in batch.events.into_iter().zip(&stored) {
            let event = NewEvent { seen: event.seen.or(seen), ..event };
            let appended = self.write(address, generation, &event, stored).await?;
            last = appended.seq();
            seen = seen.map(|seen| appended.head_after(seen)).transpose()?;
        }
        Ok(AppendedAll { last, events: None })
    }

    /// None: something is not as the writer thinks.
    async fn move_on_by_all(
        &self,
        lease: &Lease,
        Batch { events, blobs }: &Batch,
        stored: &[Stored],
        seen: Option<Sequence>,
    ) -> Result<Option<Vec<Event>>, AppendError> {
        let Some(head) = head_before(events, seen) else { return Ok(None) };
        let mut arrays = Arrays::default();
        for (event, stored) in events.iter().zip(stored) {
            arrays.push(event, stored);
        }
        for content in blobs {
            arrays.keep(BlobRef::of(content).sha256.as_bytes(), content);
        }
        let bodies = || events.iter().rev().map(|event| &event.body);
        let state = bodies().find_map(|body| State::after(body.kind())).map(State::as_str);
        let ready = bodies().find_map(rules::ready_after);
        let needs = arrays.versions.iter().max().copied();
        let money = MoneyChange::of(events.iter().map(|event| &event.body));
        let approval = ApprovalChange::of(events.iter().map(|event| &event.body));
        let written = sqlx::query_as::<_, (i64, OffsetDateTime)>(
            "with moved as (
               update run set head_seq = head_seq + $4,
                      state = coalesce($6, state), ready = coalesce($7, ready),
                      needs = greatest(needs, $8),
                      lease_owner = case when $6 = 'finished' then null else lease_owner end,
                      lease_until = case when $6 = 'finished' then null else lease_until end,
                      spent_nanos = spent_nanos + $17,
                      allowed_nanos = greatest(coalesce($18, allowed_nanos), $19)
               where tenant = $1 and id = $2 and state <> 'finished' and lease_gen = $3
                 and ($5::bigint is null or head_seq = $5)
                 and not exists (
                       select from run_event where run_id = $2 and idem_key = any($11))
               returning head_seq),
             kept as (
               insert into run_blob (run_id, sha256, content)
               select $2, b.sha256, b.content
               from moved, unnest($14::bytea[], $15::bytea[]) as b (sha256, content)
               on conflict do nothing),
             waiting as (
               insert into run_approval (run_id, tenant, until)
               select $2, $1, $20 from moved where $20::timestamptz is not null
               on conflict (run_id) do update set until = excluded.until),
             decided as (
               delete from run_approval using moved where $21 and run_id = $2)
             insert into run_event (run_id, seq, kind, v, gen, idem_key, body, blob_ref, fact)
             select $2, moved.head_seq - $4 + e.place, e.kind, e.v, $3, e.idem_key, e.body::json,
                    e.blob, e.fact
             from moved,
                  unnest($9::text[], $10::integer[], $11::text[], $12::text[], $13::bytea[],
                         $16::text[])
                    with ordinality as e (kind, v, idem_key, body, blob, fact, place)
             order by e.place
             returning seq, at",
        )
        .bind(&lease.address.tenant)
        .bind(lease.address.run.as_str())
        .bind(read::signed(lease.generation.0))
        .bind(read::signed(events.len() as u64))
        .bind(head.map(|head| read::signed(head.0)))
        .bind(state)
        .bind(ready)
        .bind(needs)
        .bind(arrays.kinds)
        .bind(arrays.versions)
        .bind(arrays.keys)
        .bind(arrays.bodies)
        .bind(arrays.blobs)
        .bind(arrays.digests)
        .bind(arrays.contents)
        .bind(arrays.facts)
        .bind(money.spent)
        .bind(money.allowed)
        .bind(money.asked)
        .bind(approval.until)
        .bind(approval.is_over)
        .fetch_all(&self.store.pool)
        .await;
        let mut written = match written {
            Ok(written) if written.is_empty() => return Ok(None),
            Ok(written) => written,
            // Another one under the same key was quicker.
            Err(error) if is_repetition(&error) => return Ok(None),
            Err(error) => return Err(failed(error).into()),
        };
        written.sort_unstable();
        let written = written.into_iter().zip(events).map(|((seq, at), event)| Event {
            seq: Sequence(seq.unsigned_abs()),
            at,
            lease: Some(lease.generation),
            key: event.key.clone(),
            body: event.body.clone(),
        });
        Ok(Some(written.collect()))
    }
}

/// The event that must be the last one before all of these, if there must be one. None: two of
/// them want different ones.
fn head_before(events: &[NewEvent], seen: Option<Sequence>) -> Option<Option<Sequence>> {
    let mut head = seen;
    for (place, event) in events.iter().enumerate() {
        let Some(wanted) = event.seen else { continue };
        let before = Sequence(wanted.0.checked_sub(place as u64)?);
        if head.is_some_and(|head| head != before) {
            return None;
        }
        head = Some(before);
    }
    Some(head)
}

#[cfg(test)]
mod tests {
    use belljar_journal::event::{Cancelled, Finished, Outcome};

    use super::*;

    #[test]
    fn events_that_want_to_be_last_agree_on_what_came_before() {
        let plain = || NewEvent::new(Cancelled { answers: Sequence(3) });
        let finished =
            Finished { outcome: Outcome::Cancelled, error: None, message: None, result: None };
        let last = |seen| NewEvent::new(finished.clone()).seen(Sequence(seen));
        let (five, none) = (Some(Sequence(5)), None);
        assert_eq!(head_before(&[plain(), plain()], none), Some(None));
        assert_eq!(head_before(&[plain()], five), Some(five));
        assert_eq!(head_before(&[plain(), last(6)], none), Some(five));
        assert_eq!(head_before(&[plain(), last(6)], five), Some(five));
        assert_eq!(head_before(&[plain(), last(5)], five), None);
        assert_eq!(head_before(&[plain(), last(0)], none), None);
    }
}
