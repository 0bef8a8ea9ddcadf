//! Gateways that share a rate.

use belljar_domain::budget::{AskSlice, BudgetAmount, BudgetAnswer, BudgetRequest, Slice};
use belljar_peer_proto::gateway::FromGateway;
use tokio::sync::mpsc;

use super::*;

const PER_MINUTE: u32 = 100;

/// Books that count the requests of one budget.
#[derive(Debug)]
struct Books {
    leased: u64,
    window_ends: Instant,
    is_away: bool,
    /// No answer comes.
    is_silent: bool,
    keys: Vec<String>,
}

impl Books {
    fn new() -> Arc<Mutex<Self>> {
        let window_ends = Instant::now() + RATE_WINDOW;
        Arc::new(Mutex::new(Self {
            leased: 0,
            window_ends,
            is_away: false,
            is_silent: false,
            keys: Vec::new(),
        }))
    }

    fn answer(&mut self, request: BudgetRequest) -> BudgetAnswer {
        let BudgetRequest::Lease(AskSlice { key, limit, at_least, .. }) = request else {
            return BudgetAnswer::Returned { accepted: 0 };
        };
        if self.is_away {
            return BudgetAnswer::Away { why: "a test".to_owned() };
        }
        assert_eq!(key.every_seconds, 60);
        self.keys.push(key.operation);
        while Instant::now() >= self.window_ends {
            (self.leased, self.window_ends) = (0, self.window_ends + RATE_WINDOW);
        }
        let leased = BudgetAmount { requests: self.leased, ..BudgetAmount::default() };
        let Some(amount) = limit.slice(leased, at_least) else {
            return BudgetAnswer::Exhausted { is_held: false };
        };
        self.leased += amount.requests;
        let left = (self.window_ends - Instant::now()).as_millis();
        BudgetAnswer::Granted(Slice { id: 1, amount, ends_in_ms: u64::try_from(left).ok() })
    }
}

struct Gateway {
    ledger: Arc<Ledger>,
    accounts: Vec<Arc<Account>>,
}

/// The accounts of an operation with nothing but a rate, as the desk opens them.
fn gateway(books: &Arc<Mutex<Books>>) -> Gateway {
    let (sender, mut events) = mpsc::channel(64);
    let ledger = Ledger::with(Some(Lessee::new("g".to_owned(), sender)));
    let (books, weak) = (Arc::clone(books), Arc::downgrade(&ledger));
    tokio::spawn(async move {
        while let Some(FromGateway::Budget { question, request }) = events.recv().await {
            if books.lock().unwrap().is_silent {
                continue;
            }
            let answer = books.lock().unwrap().answer(request);
            let Some(ledger) = weak.upgrade() else { return };
            ledger.lessee().unwrap().answer(question, answer);
        }
    });
    let limit = Limit { requests_per_minute: Some(PER_MINUTE), ..Limit::default() };
    let account = ledger.open_shared(limit, "llm", None);
    let rate = ledger.open_rate(limit.rate().unwrap(), "llm", None).unwrap();
    Gateway { ledger, accounts: vec![account, rate] }
}

impl Gateway {
    async fn request(&self) -> Result<(), Refused> {
        let one = Amount { requests: 1, ..Amount::default() };
        let reservation = self.ledger.obtain(self.accounts.clone(), one).await?;
        reservation.settle(one);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn gateways_together_let_the_rate_through_and_no_more() {
    let books = Books::new();
    let gateways: Vec<_> = (0..3).map(|_| gateway(&books)).collect();
    for minute in 0..3 {
        let (mut passed, mut refused) = (0, None);
        // Half a minute, so that the window ends between two rounds.
        for round in 0..300 {
            match gateways[round % 3].request().await {
                Ok(()) => passed += 1,
                Err(why) => refused = Some(why),
            }
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        // Idle slices would come back; what is left of them is less than one for each gateway.
        assert!((PER_MINUTE - 30..=PER_MINUTE).contains(&passed), "minute {minute}: {passed}");
        let Some(Refused::Exhausted(exhausted)) = refused else { panic!("{refused:?}") };
        assert_eq!((exhausted.scope, exhausted.what), (Scope::Operation, What::Rate));
        assert!(exhausted.retry.is_some());
        tokio::time::advance(Duration::from_secs(31)).await;
    }
    // No operation has this name, so its own budgets are others.
    assert!(books.lock().unwrap().keys.iter().all(|key| key == "llm#minute"));
}

/// The control: without books that they share, each lets the rate through.
#[tokio::test(start_paused = true)]
async fn without_books_each_gateway_counts_for_itself() {
    let books = Books::new();
    books.lock().unwrap().is_away = true;
    let gateways: Vec<_> = (0..3).map(|_| gateway(&books)).collect();
    let mut passed = 0;
    for round in 0..600 {
        passed += u32::from(gateways[round % 3].request().await.is_ok());
    }
    assert_eq!(passed, 3 * PER_MINUTE);
    let none = Ledger::new();
    assert!(none.open_rate(Limit::default(), "llm", None).is_none());
}

/// A rate is no reason to hold a request up.
#[tokio::test(start_paused = true)]
async fn books_that_are_silent_hold_requests_up_for_a_moment_and_only_once() {
    let books = Books::new();
    books.lock().unwrap().is_silent = true;
    let gateway = gateway(&books);
    let began = Instant::now();
    let requests = (0..20).map(|_| gateway.request());
    for passed in futures_util::future::join_all(requests).await {
        passed.unwrap();
    }
    for _ in 0..20 {
        gateway.request().await.unwrap();
        tokio::time::advance(Duration::from_millis(100)).await;
    }
    let advanced = Duration::from_secs(2);
    assert!(began.elapsed() < advanced + Duration::from_millis(300), "{:?}", began.elapsed());
    // They count again when they are back.
    books.lock().unwrap().is_silent = false;
    tokio::time::advance(Duration::from_secs(5)).await;
    gateway.request().await.unwrap();
    assert_eq!(books.lock().unwrap().keys, ["llm#minute"]);
}
