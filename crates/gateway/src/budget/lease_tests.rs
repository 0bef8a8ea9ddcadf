//! Gateways that share a budget, with books that go away and gateways that crash.
//!
//! Requirements: G5

use std::collections::BTreeMap;

use belljar_domain::budget::{AskSlice, BudgetAnswer, BudgetRequest, ReturnSlices, Slice};
use belljar_peer_proto::gateway::FromGateway;
use tokio::sync::mpsc;

use super::*;

const LIMIT: u64 = 100_000;
const WINDOW: Duration = Duration::from_secs(3600);

fn dollars(nano_dollars: u64) -> Amount {
    Amount { nano_dollars, ..Amount::default() }
}

fn limit() -> Limit {
    Limit { nano_dollars: Some(LIMIT), every: Some(WINDOW), ..Limit::default() }
}

/// The books, as PostgreSQL or the file keep them.
#[derive(Debug)]
struct Books {
    leased: u64,
    slices: BTreeMap<i64, (String, u64)>,
    last: i64,
    window_ends: Instant,
    is_away: bool,
    asked: u64,
}

type SharedBooks = Arc<Mutex<Books>>;

impl Books {
    fn new() -> SharedBooks {
        let window_ends = Instant::now() + WINDOW;
        let slices = BTreeMap::new();
        Arc::new(Mutex::new(Self {
            leased: 0,
            slices,
            last: 0,
            window_ends,
            is_away: false,
            asked: 0,
        }))
    }

    fn answer(&mut self, request: BudgetRequest) -> BudgetAnswer {
        if self.is_away {
            return BudgetAnswer::Away { why: "a test".to_owned() };
        }
        while Instant::now() >= self.window_ends {
            (self.leased, self.window_ends) = (0, self.window_ends + WINDOW);
            self.slices.clear();
        }
        match request {
            BudgetRequest::Lease(asked) => {
                self.asked += 1;
                let Some(amount) = asked.limit.slice(dollars(self.leased), asked.at_least) else {
                    let is_held = self.slices.values().any(|slice| slice.0 != asked.gateway);
                    return BudgetAnswer::Exhausted { is_held };
                };
                self.last += 1;
                self.leased += amount.nano_dollars;
                self.slices.insert(self.last, (asked.gateway, amount.nano_dollars));
                let left = (self.window_ends - Instant::now()).as_millis();
                let ends_in_ms = Some(u64::try_from(left).unwrap());
                BudgetAnswer::Granted(Slice { id: self.last, amount, ends_in_ms })
            }
            BudgetRequest::Return(returned) => {
                let mut accepted = 0;
                for slice in returned.slices {
                    let Some((gateway, amount)) = self.slices.remove(&slice.id) else { continue };
                    assert_eq!(gateway, returned.gateway);
                    assert!(slice.unused.nano_dollars <= amount);
                    self.leased -= slice.unused.nano_dollars;
                    accepted += 1;
                }
                BudgetAnswer::Returned { accepted }
            }
        }
    }
}

struct Gateway {
    name: String,
    ledger: Arc<Ledger>,
    account: Arc<Account>,
}

fn gateway(books: &SharedBooks, name: &str) -> Gateway {
    let (sender, mut events) = mpsc::channel(64);
    let ledger = Ledger::with(Some(Lessee::new(name.to_owned(), sender)));
    let (books, weak) = (Arc::clone(books), Arc::downgrade(&ledger));
    tokio::spawn(async move {
        while let Some(FromGateway::Budget { question, request }) = events.recv().await {
            let answer = books.lock().unwrap().answer(request);
            let Some(ledger) = weak.upgrade() else { return };
            ledger.lessee().unwrap().answer(question, answer);
        }
    });
    let account = ledger.open_shared(limit(), "llm", Some("ann"));
    Gateway { name: name.to_owned(), ledger, account }
}

impl Gateway {
    async fn reserve(&self, nano_dollars: u64) -> Result<Reservation, Refused> {
        self.ledger.obtain(vec![Arc::clone(&self.account)], dollars(nano_dollars)).await
    }
}

/// A small generator of numbers; a seed gives the same ones each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

#[tokio::test(start_paused = true)]
async fn gateways_that_crash_never_spend_more_than_the_budget() {
    for seed in 0..200 {
        let books = Books::new();
        let mut numbers = Numbers(seed);
        let mut gateways: Vec<_> =
            (0..3).map(|number| gateway(&books, &format!("g{number}"))).collect();
        // Counted here, as a provider would.
        let (mut spent, mut crashes) = (0, 0);
        for step in 0..400 {
            tokio::time::advance(Duration::from_millis(100)).await;
            let index = usize::try_from(numbers.below(3)).unwrap();
            let is_away = books.lock().unwrap().is_away;
            match numbers.below(100) {
                0..=1 => {
                    let name = format!("g{}", 3 + step);
                    // Not even what it had left comes back.
                    gateways[index] = gateway(&books, &name);
                    crashes += 1;
                }
                2..=4 if !is_away => gateways[index].ledger.return_all().await,
                5 => books.lock().unwrap().is_away = numbers.below(2) == 0,
                _ => {
                    let most = 1 + numbers.below(400);
                    let Ok(mut reservation) = gateways[index].reserve(most).await else { continue };
                    reservation.dispatch();
                    let actual = most - numbers.below(most);
                    if numbers.below(10) == 0 {
                        // The answer was cut off: all of it is charged.
                        drop(reservation);
                        spent += most;
                    } else {
                        reservation.settle(dollars(actual));
                        spent += actual;
                    }
                }
            }
            assert!(spent <= LIMIT, "seed {seed}, step {step}: {spent}");
        }
        books.lock().unwrap().is_away = false;
        // Early renewals that are under way come to their end.
        tokio::time::sleep(Duration::from_secs(1)).await;
        for gateway in &gateways {
            gateway.ledger.return_all().await;
        }
        let books = books.lock().unwrap();
        assert!(books.slices.values().all(|slice| !gateways.iter().any(|g| g.name == slice.0)));
        let forfeited: u64 = books.slices.values().map(|slice| slice.1).sum();
        // Everything but what crashed gateways held is exact.
        assert!(books.leased >= spent, "seed {seed}: {} < {spent}", books.leased);
        assert!(books.leased <= spent + forfeited, "seed {seed}, {crashes} crashes");
    }
}

#[tokio::test]
async fn a_thousand_at_once_lease_few_slices_and_spend_the_budget() {
    let books = Books::new();
    let gateways: Vec<_> =
        (0..3).map(|number| Arc::new(gateway(&books, &format!("g{number}")))).collect();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..1000 {
        let gateway = Arc::clone(&gateways[number % 3]);
        tasks.spawn(async move {
            let Ok(mut reservation) = gateway.reserve(150).await else { return 0 };
            reservation.dispatch();
            reservation.settle(dollars(150));
            150
        });
    }
    let spent: u64 = tasks.join_all().await.into_iter().sum();
    assert!(spent <= LIMIT, "{spent}");
    // Nothing but ends of slices is left over.
    assert!(spent > LIMIT * 9 / 10, "{spent}");
    let asked = books.lock().unwrap().asked;
    assert!(asked < 400, "{asked} slices for a thousand requests");
}

#[tokio::test(start_paused = true)]
async fn without_books_a_gateway_spends_its_slice_and_no_more() {
    let books = Books::new();
    let gateway = gateway(&books, "g");
    gateway.reserve(10).await.unwrap().settle(dollars(10));
    books.lock().unwrap().is_away = true;
    let mut spent = 10;
    loop {
        match gateway.reserve(100).await {
            Ok(reservation) => reservation.settle(dollars(100)),
            Err(refused) => break assert_eq!(refused, Refused::NoLease),
        }
        spent += 100;
    }
    assert!(spent <= books.lock().unwrap().leased);
    // They are asked again soon, and what they say then holds.
    books.lock().unwrap().is_away = false;
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(gateway.reserve(100).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_window_that_ends_gives_back_what_a_crash_forfeited() {
    let books = Books::new();
    let first = gateway(&books, "first");
    let reservation = first.reserve(LIMIT).await.unwrap();
    drop(first);
    let second = gateway(&books, "second");
    let refused = second.reserve(1).await.unwrap_err();
    let Refused::Exhausted(exhausted) = refused else { panic!("{refused:?}") };
    assert_eq!(exhausted.scope, Scope::Tenant);
    assert!(exhausted.retry.is_some(), "another gateway holds a slice");
    tokio::time::advance(WINDOW).await;
    assert!(second.reserve(LIMIT).await.is_ok());
    drop(reservation);
}

#[tokio::test(start_paused = true)]
async fn a_request_of_the_last_window_is_not_charged_to_the_next() {
    let books = Books::new();
    let gateway = gateway(&books, "g");
    let mut late = gateway.reserve(LIMIT).await.unwrap();
    late.dispatch();
    tokio::time::advance(WINDOW).await;
    let next = gateway.reserve(LIMIT).await.unwrap();
    late.settle(dollars(LIMIT));
    next.settle(dollars(LIMIT));
    assert_eq!(gateway.account.spent(), dollars(LIMIT));
    assert!(gateway.reserve(1).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_idle_gateway_gives_its_slices_back() {
    let books = Books::new();
    let gateway = gateway(&books, "g");
    gateway.ledger.return_idle();
    gateway.reserve(100).await.unwrap().settle(dollars(40));
    assert!(books.lock().unwrap().leased > 40);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(books.lock().unwrap().leased, 40);
    assert!(gateway.reserve(LIMIT - 40).await.is_ok());
}

/// A client may go away while its slice is asked for, and a node may answer too late.
#[tokio::test(start_paused = true)]
async fn a_slice_that_no_request_waits_for_is_given_back() {
    let books = Books::new();
    let (sender, mut events) = mpsc::channel(64);
    let ledger = Ledger::with(Some(Lessee::new("g".to_owned(), sender)));
    let account = ledger.open_shared(limit(), "llm", Some("ann"));
    for patience in [Duration::from_secs(1), Duration::from_secs(60)] {
        let obtain = ledger.obtain(vec![Arc::clone(&account)], dollars(100));
        let obtained = tokio::time::timeout(patience, obtain).await;
        assert!(matches!(obtained, Err(_) | Ok(Err(Refused::NoLease))), "{obtained:?}");
        for left in [LIMIT / 16, 0] {
            let event = events.recv().await;
            let Some(FromGateway::Budget { question, request }) = event else {
                panic!("{event:?}")
            };
            let answer = books.lock().unwrap().answer(request);
            ledger.lessee().unwrap().answer(question, answer);
            assert_eq!(books.lock().unwrap().leased, left);
        }
    }
}

/// A gateway that ends has little time, and a node may be slow to answer.
#[tokio::test(start_paused = true)]
async fn slices_of_many_accounts_are_given_back_at_the_same_time() {
    let (sender, mut events) = mpsc::channel(64);
    let ledger = Ledger::with(Some(Lessee::new("g".to_owned(), sender)));
    let slow = Arc::downgrade(&ledger);
    let books: [SharedBooks; 8] = std::array::from_fn(|_| Books::new());
    let of_tenants = books.clone();
    tokio::spawn(async move {
        while let Some(FromGateway::Budget { question, request }) = events.recv().await {
            let (BudgetRequest::Lease(AskSlice { key, .. })
            | BudgetRequest::Return(ReturnSlices { key, .. })) = &request;
            let tenant: usize = key.tenant.as_deref().unwrap().parse().unwrap();
            let (books, slow) = (Arc::clone(&of_tenants[tenant]), slow.clone());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let answer = books.lock().unwrap().answer(request);
                if let Some(ledger) = slow.upgrade() {
                    ledger.lessee().unwrap().answer(question, answer);
                }
            });
        }
    });
    let mut accounts = Vec::new();
    for tenant in 0..books.len() {
        let account = ledger.open_shared(limit(), "llm", Some(&tenant.to_string()));
        let reservation = ledger.obtain(vec![Arc::clone(&account)], dollars(100)).await.unwrap();
        reservation.settle(dollars(100));
        accounts.push(account);
    }
    let began = Instant::now();
    ledger.return_all().await;
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(books.iter().all(|books| books.lock().unwrap().leased == 100));
}
