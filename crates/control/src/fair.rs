//! Who is next, when more is asked for than there is.
//!
//! Every tenant has a line of its own, and lines take turns: one that asks for a
//! thousand waits behind itself, not before the others. Within a line, first come,
//! first served. Lines are bounded, and so is the sum of them: whoever finds his
//! full is told at once.

use std::collections::{HashMap, VecDeque};

/// What waits, by tenant.
#[derive(Debug)]
pub struct Fair<T> {
    lines: HashMap<String, VecDeque<(Turn, T)>>,
    /// Tenants whose line is not empty, in the order of their turns.
    turns: VecDeque<String>,
    longest: usize,
    most: usize,
    waiting: usize,
    next: u64,
}

/// A place in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Turn(u64);

/// Why something does not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    #[error("too many requests of this tenant are waiting")]
    Tenant,
    #[error("too many requests are waiting")]
    All,
}

impl<T> Fair<T> {
    /// At most `longest` in one line, and `most` in all.
    pub fn new(longest: usize, most: usize) -> Self {
        Self { lines: HashMap::new(), turns: VecDeque::new(), longest, most, waiting: 0, next: 0 }
    }

    pub fn len(&self) -> usize {
        self.waiting
    }

    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Everything that waits, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.lines.values().flatten().map(|(_, what)| what)
    }

    /// Joins the tenant's line.
    pub fn join(&mut self, tenant: &str, what: T) -> Result<Turn, Full> {
        if self.waiting >= self.most {
            return Err(Full::All);
        }
        let line = self.lines.entry(tenant.to_owned()).or_default();
        if line.len() >= self.longest {
            return Err(Full::Tenant);
        }
        if line.is_empty() {
            self.turns.push_back(tenant.to_owned());
        }
        let turn = Turn(self.next);
        self.next += 1;
        line.push_back((turn, what));
        self.waiting += 1;
        Ok(turn)
    }

    /// The next of the line whose turn it is.
    pub fn take(&mut self) -> Option<(String, T)> {
        self.take_if(|_| true)
    }

    /// The same, of tenants who may have one now; the others keep their turn.
    pub fn take_if(&mut self, may: impl Fn(&str) -> bool) -> Option<(String, T)> {
        let at = self.turns.iter().position(|tenant| may(tenant))?;
        let tenant = self.turns.remove(at)?;
        let line = self.lines.get_mut(&tenant)?;
        let (_, what) = line.pop_front()?;
        self.waiting -= 1;
        if line.is_empty() {
            self.lines.remove(&tenant);
        } else {
            self.turns.push_back(tenant.clone());
        }
        Some((tenant, what))
    }

    /// Puts what was taken back at the head of its line: it could not be served
    /// after all, and its tenant is the next.
    pub fn put_back(&mut self, tenant: String, what: T) -> Turn {
        let turn = Turn(self.next);
        self.next += 1;
        self.turns.retain(|other| *other != tenant);
        self.lines.entry(tenant.clone()).or_default().push_front((turn, what));
        self.turns.push_front(tenant);
        self.waiting += 1;
        turn
    }

    /// Leaves the line before its turn.
    pub fn leave(&mut self, tenant: &str, turn: Turn) -> Option<T> {
        let line = self.lines.get_mut(tenant)?;
        let at = line.iter().position(|(other, _)| *other == turn)?;
        let (_, what) = line.remove(at)?;
        self.waiting -= 1;
        if line.is_empty() {
            self.lines.remove(tenant);
            self.turns.retain(|other| other != tenant);
        }
        Some(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(fair: &mut Fair<u32>) -> Vec<u32> {
        std::iter::from_fn(|| fair.take().map(|(_, what)| what)).collect()
    }

    #[test]
    fn lines_take_turns() {
        let mut fair = Fair::new(100, 1000);
        for what in 0..5 {
            fair.join("flood", what).unwrap();
        }
        fair.join("ann", 10).unwrap();
        fair.join("bob", 20).unwrap();
        fair.join("ann", 11).unwrap();
        assert_eq!(order(&mut fair), [0, 10, 20, 1, 11, 2, 3, 4]);
        assert!(fair.is_empty() && fair.lines.is_empty() && fair.turns.is_empty());
    }

    #[test]
    fn who_may_not_now_keeps_his_turn() {
        let mut fair = Fair::new(9, 9);
        for (tenant, what) in [("flood", 1), ("ann", 2), ("flood", 3)] {
            fair.join(tenant, what).unwrap();
        }
        let not_flood = |tenant: &str| tenant != "flood";
        assert_eq!(fair.take_if(not_flood), Some(("ann".to_owned(), 2)));
        assert_eq!(fair.take_if(not_flood), None);
        assert_eq!(order(&mut fair), [1, 3]);
    }

    #[test]
    fn lines_are_bounded_and_so_is_the_sum() {
        let mut fair = Fair::new(2, 3);
        assert!(fair.join("ann", 1).is_ok() && fair.join("ann", 2).is_ok());
        assert_eq!(fair.join("ann", 3), Err(Full::Tenant));
        fair.join("bob", 4).unwrap();
        assert_eq!(fair.join("eve", 5), Err(Full::All));
        assert_eq!(fair.len(), 3);
        fair.take();
        assert!(fair.join("eve", 5).is_ok());
    }

    #[test]
    fn whoever_leaves_or_comes_back_takes_no_turn_of_others() {
        let mut fair = Fair::new(9, 9);
        let turn = fair.join("ann", 1).unwrap();
        fair.join("bob", 2).unwrap();
        assert_eq!(fair.leave("bob", turn), None, "it is ann's");
        assert_eq!(fair.leave("ann", turn), Some(1));
        assert_eq!(fair.leave("ann", turn), None);
        fair.join("bob", 3).unwrap();
        let (tenant, what) = fair.take().unwrap();
        fair.put_back(tenant, what);
        assert_eq!(order(&mut fair), [2, 3]);
        assert_eq!(fair.len(), 0);
    }
}
