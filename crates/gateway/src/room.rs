//! Room in memory for bodies of requests, and for answers that are held: one for the gateway, and a
//! share of it for each sandbox.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// All bodies that the gateway holds at the same time, in bytes.
pub(crate) const ROOM_BYTES: u64 = 1 << 30;
/// The smallest share: the longest body that is recorded or looked up fits in.
pub(crate) const MIN_SHARE_BYTES: u64 = 32 << 20;
/// The usual share: every body that an operation can take fits in.
pub(crate) const USUAL_SHARE_BYTES: u64 = 256 << 20;

/// The room of one sandbox. Permits are for KiB.
#[derive(Debug, Clone)]
pub(crate) struct BodyRoom {
    all: Arc<Semaphore>,
    share: Arc<Semaphore>,
    share_bytes: u64,
}

/// Room that is taken until this is dropped.
#[derive(Debug)]
pub(crate) struct TakenRoom {
    share: OwnedSemaphorePermit,
    all: OwnedSemaphorePermit,
}

/// Room for bytes that become more.
#[derive(Debug)]
pub(crate) struct GrowingRoom {
    room: BodyRoom,
    taken: Option<TakenRoom>,
    bytes: u64,
}

/// There is no room now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// The room of the gateway.
pub(crate) fn whole() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(permits(ROOM_BYTES)))
}

impl BodyRoom {
    /// A share of `all` for one sandbox.
    pub(crate) fn new(all: Arc<Semaphore>, share_bytes: u64) -> Self {
        Self { all, share: Arc::new(Semaphore::new(permits(share_bytes))), share_bytes }
    }

    /// The largest body that can ever have room.
    pub(crate) fn share_bytes(&self) -> u64 {
        self.share_bytes
    }

    /// Takes room, if there is some now.
    pub(crate) fn try_take(&self, kibibytes: u32) -> Option<TakenRoom> {
        let share = Arc::clone(&self.share).try_acquire_many_owned(kibibytes).ok()?;
        let all = Arc::clone(&self.all).try_acquire_many_owned(kibibytes).ok()?;
        Some(TakenRoom { share, all })
    }

    /// Waits for room. The sandbox's own share comes first, so that it does not wait with room of
    /// others in its hands.
    pub(crate) async fn take(&self, kibibytes: u32) -> Option<TakenRoom> {
        let share = Arc::clone(&self.share).acquire_many_owned(kibibytes).await.ok()?;
        let all = Arc::clone(&self.all).acquire_many_owned(kibibytes).await.ok()?;
        Some(TakenRoom { share, all })
    }
}

impl TakenRoom {
    /// Adds room of the same sandbox.
    pub(crate) fn merge(&mut self, more: Self) {
        self.share.merge(more.share);
        self.all.merge(more.all);
    }
}

impl GrowingRoom {
    pub(crate) fn new(room: BodyRoom) -> Self {
        Self { room, taken: None, bytes: 0 }
    }

    /// Takes room for so many bytes in all.
    pub(crate) fn grow_to(&mut self, bytes: u64) -> Result<(), NoRoom> {
        // In steps, so that a body of many small pieces asks seldom.
        const STEP: u64 = 64 << 10;
        if bytes <= self.bytes {
            return Ok(());
        }
        let wanted = bytes.next_multiple_of(STEP);
        let more = u32::try_from((wanted - self.bytes) >> 10).map_err(|_| NoRoom)?;
        let taken = self.room.try_take(more).ok_or(NoRoom)?;
        match &mut self.taken {
            Some(held) => held.merge(taken),
            none => *none = Some(taken),
        }
        self.bytes = wanted;
        Ok(())
    }

    pub(crate) fn into_taken(self) -> Option<TakenRoom> {
        self.taken
    }
}

fn permits(bytes: u64) -> usize {
    usize::try_from(bytes >> 10).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    #[tokio::test]
    async fn a_sandbox_takes_no_more_than_its_share() {
        let all = Arc::new(Semaphore::new(100));
        let one = BodyRoom::new(Arc::clone(&all), 60 * KIB);
        let two = BodyRoom::new(Arc::clone(&all), 60 * KIB);
        let mut first = one.try_take(40).unwrap();
        assert!(one.try_take(30).is_none(), "of 100, 60 are free, and 20 of them for this one");
        first.merge(one.try_take(20).unwrap());
        assert_eq!(all.available_permits(), 40);
        let second = two.take(40).await.unwrap();
        assert!(two.try_take(1).is_none(), "its share is not used up, but all room is");
        assert_eq!(two.share.available_permits(), 20, "what was not taken is given back");
        drop((first, second));
        assert_eq!((all.available_permits(), one.share.available_permits()), (100, 60));
    }

    #[test]
    fn room_grows_in_steps_and_is_given_back() {
        let all = Arc::new(Semaphore::new(1024));
        let mut room = GrowingRoom::new(BodyRoom::new(Arc::clone(&all), 128 * KIB));
        assert_eq!(room.grow_to(1), Ok(()));
        assert_eq!(room.grow_to(64 * KIB), Ok(()));
        assert_eq!(all.available_permits(), 1024 - 64);
        assert_eq!(room.grow_to(128 * KIB), Ok(()));
        assert_eq!(room.grow_to(128 * KIB + 1), Err(NoRoom));
        assert_eq!(all.available_permits(), 1024 - 128, "what there was stays");
        drop(room);
        assert_eq!(all.available_permits(), 1024);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_for_the_own_share_takes_nothing_from_others() {
        let all = Arc::new(Semaphore::new(100));
        let room = BodyRoom::new(Arc::clone(&all), 60 * KIB);
        let _held = room.take(60).await.unwrap();
        let waiting = tokio::time::timeout(std::time::Duration::from_secs(1), room.take(10));
        assert!(waiting.await.is_err());
        assert_eq!(all.available_permits(), 40);
    }
}
