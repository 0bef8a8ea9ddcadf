use super::*;

fn shape(name: &str, rows: u64, columns: &[(&str, Kind, u64, &[&str])]) -> Shape {
    let columns = columns.iter().map(|(name, kind, many, values)| {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Column((*name).to_owned(), *kind, *many, values, 0)
    });
    Shape { name: name.to_owned(), rows, columns: columns.collect() }
}

fn crm() -> Vec<Shape> {
    use Kind::{Date, Number, Word};
    vec![
        shape(
            "deals",
            200,
            &[
                ("id", Word, 200, &[]),
                ("name", Word, 198, &[]),
                ("amount", Number, 180, &[]),
                ("stage", Word, 5, &["won", "closed lost", "deal"]),
                ("closedAt", Date, 90, &[]),
                ("owner.region", Word, 4, &["North", "South"]),
            ],
        ),
        shape(
            "activities",
            900,
            &[
                ("id", Word, 900, &[]),
                ("deal_id", Word, 190, &[]),
                ("kind", Word, 3, &["call", "won"]),
                ("duration_minutes", Number, 60, &[]),
            ],
        ),
    ]
}

/// One file, with as many columns of numbers as are named.
fn sales(numbers: &[&str]) -> Vec<Shape> {
    let mut columns: Vec<(&str, Kind, u64, &[&str])> = vec![
        ("region", Kind::Word, 3, &["north"]),
        ("product", Kind::Word, 4, &[]),
        ("order_id", Kind::Number, 9, &[]),
        ("year", Kind::Number, 2, &[]),
    ];
    columns.extend(numbers.iter().map(|name| (*name, Kind::Number, 9, &[] as &[&str])));
    vec![shape("sales", 9, &columns)]
}

#[track_caller]
fn planned(shapes: &[Shape], question: &str, want: &str) {
    assert_eq!(Plan::make(&Question::of(question), shapes).unwrap().describe(), want);
}

#[track_caller]
fn check(question: &str, want: &str) {
    planned(&crm(), question, want);
}

#[track_caller]
fn puzzled(shapes: &[Shape], question: &str, want: Puzzle) {
    assert_eq!(Plan::make(&Question::of(question), shapes), Err(want), "{question}");
}

#[test]
fn words_of_the_question_name_the_columns() {
    check("What is the average amount?", "the mean of `amount` in `deals`");
    check("Average amount by stage", "the mean of `amount` in `deals` for each `stage`");
    check(
        "Total amount per region, highest first",
        "the sum of `amount` in `deals` for each `owner.region`",
    );
    check("How many activities are there?", "the number of rows in `activities`");
    check(
        "How many activities of each kind?",
        "the number of rows in `activities` for each `kind`",
    );
    check(
        "How many different stages do deals have?",
        "how many different `stage` there are in `deals`",
    );
    check("Which deal has the largest amount?", "the first rows by `amount` in `deals`");
    check("What is the highest amount?", "the max of `amount` in `deals`");
    check("How many rows do deals have?", "the number of rows in `deals`");
}

#[test]
fn datasets_are_joined_by_their_keys() {
    check(
        "What is the median duration of activities per stage?",
        "the median of `duration_minutes` in `activities` for each `deals.stage`, joined with \
         `deals` where `deal_id` = `deals.id`",
    );
}

#[test]
fn who_asks_for_the_most_means_the_only_column_of_numbers() {
    let only = "(no column of numbers is named, and this is the only one)";
    planned(
        &sales(&["amount"]),
        "Which region sold most?",
        &format!("the sum of `amount` in `sales` for each `region` {only}"),
    );
    planned(
        &sales(&["amount"]),
        "Which product in the north region sold least?",
        &format!(
            "the sum of `amount` in `sales` where `region` is `north` for each `product` {only}"
        ),
    );
    planned(
        &sales(&["amount"]),
        "Average by product",
        &format!("the mean of `amount` in `sales` for each `product` {only}"),
    );
    // Sales can be rows, and what was paid.
    let amount = Puzzle::Number(vec!["amount".into()]);
    puzzled(&sales(&["amount"]), "Which region has the most sales?", amount);
    planned(&sales(&[]), "Which region has the most sales?", ROWS_BY_REGION);
    let both = Puzzle::Number(vec!["amount".into(), "discount".into()]);
    puzzled(&sales(&["amount", "discount"]), "Which region sold most?", both);
}

const ROWS_BY_REGION: &str = "the number of rows in `sales` for each `region`";

#[test]
fn values_that_are_named_choose_rows() {
    check(
        "What is the total amount of won deals?",
        "the sum of `amount` in `deals` where `stage` is `won`",
    );
    check(
        "How many deals are closed lost or won in the south?",
        "the number of rows in `deals` where `stage` is `closed lost` or `won` and \
         `owner.region` is `South`",
    );
    check(
        "How many activities are calls by stage?",
        "the number of rows in `activities` where `kind` is `call` for each `deals.stage`, joined \
         with `deals` where `deal_id` = `deals.id`",
    );
    check(
        "What is the total duration of activities in the south?",
        "the sum of `duration_minutes` in `activities` where `deals.owner.region` is `South`, \
         joined with `deals` where `deal_id` = `deals.id`",
    );
    check(
        "What is the total amount of deals not won or closed lost?",
        "the sum of `amount` in `deals` where `stage` is not `won` or `closed lost`",
    );
    check(
        "How many deals of the south are not won?",
        "the number of rows in `deals` where `owner.region` is `South` and `stage` is not `won`",
    );
    // Not both, or neither?
    let not = Puzzle::Unclear(vec!["not".into()]);
    puzzled(&crm(), "What is the total amount of deals not won or in the south?", not);
    let not = Puzzle::Unclear(vec!["without".into(), "activity".into()]);
    puzzled(&crm(), "How many deals are without activity?", not);
}

#[test]
fn groups_are_made_only_if_they_are_asked_for() {
    let deals = [shape(
        "deals",
        9,
        &[
            ("deal_id", Kind::Word, 9, &[]),
            ("status", Kind::Word, 3, &["won"]),
            ("amount", Kind::Number, 9, &[]),
        ],
    )];
    planned(
        &deals,
        "What is the total amount of won deals?",
        "the sum of `amount` in `deals` where `status` is `won`",
    );
    planned(&deals, "Top 3 deals by amount", "the first rows by `amount` in `deals`");
    let one = [shape("a", 2, &[("kind", Kind::Word, 1, &[]), ("amount", Kind::Number, 2, &[])])];
    planned(&one, "Total amount by kind", "the sum of `amount` in `a` for each `kind`");
    puzzled(&deals, "Total amount by country", Puzzle::Group("country".into()));
    puzzled(&deals, "Which customers have the most deals?", Puzzle::Group("customer".into()));
    puzzled(&deals, "Who has the most?", Puzzle::Nothing);
}

#[test]
fn what_names_nothing_is_not_answered() {
    for question in ["foo bar", "Why is the sky blue?", "How many?", "What is the total?", "?"] {
        puzzled(&crm(), question, Puzzle::Nothing);
    }
    puzzled(&crm(), "Tell me about the stages", Puzzle::Aim);
    puzzled(&crm(), "Show won deals", Puzzle::Aim);
    planned(&sales(&[]), "How many rows are there?", "the number of rows in `sales`");
}

/// Orders over two years, by customers of several countries.
fn orders() -> Vec<Shape> {
    use Kind::{Date, Number, Word};
    vec![
        shape(
            "orders",
            400,
            &[
                ("order_id", Number, 400, &[]),
                ("order_date", Date, 200, &["2025-01-05", "2026-04-02"]),
                ("customer_id", Word, 80, &[]),
                ("units", Number, 20, &[]),
                ("revenue", Number, 390, &[]),
                ("price", Number, 90, &[]),
                ("ship_country", Word, 5, &["Spain"]),
                ("bill_country", Word, 5, &["Spain"]),
            ],
        ),
        shape("customers", 80, &[("customer_id", Word, 80, &[]), ("country", Word, 5, &[])]),
    ]
}

#[test]
fn times_choose_rows_and_make_groups() {
    for (question, want) in [
        (
            "What was total revenue in March 2026?",
            "the sum of `revenue` in `orders` where `order_date` is from 2026-03-01 to before \
             2026-04-01",
        ),
        ("Revenue by month", "the sum of `revenue` in `orders` for each month of `order_date`"),
        (
            "Which month had the most orders?",
            "the number of rows in `orders` for each month of `order_date`",
        ),
        (
            "How many orders were there in the last 30 days?",
            "the number of rows in `orders` where `order_date` is in the last 30 days of the data",
        ),
    ] {
        planned(&orders(), question, want);
    }
    let march = Puzzle::When(vec!["2025-03".into(), "2026-03".into()]);
    puzzled(&orders(), "Total revenue in March", march);
    puzzled(&sales(&["amount"]), "Total amount in March", Puzzle::NoDate);
}

#[test]
fn rows_and_values_are_counted_as_what_they_are() {
    for (question, want) in [
        ("How many orders are there?", "the number of rows in `orders`"),
        ("How many units were sold?", "the sum of `units` in `orders`"),
        ("Top 5 orders by revenue", "the first rows by `revenue` in `orders`"),
        ("The second largest order by revenue", "the row 2 by `revenue` in `orders`"),
        ("Average revenue per order", "the mean of `revenue` in `orders`"),
        ("Average and median revenue", "the mean, median of `revenue` in `orders`"),
        (
            "How many orders have a price of at least 10?",
            "the number of rows in `orders` where `price` is at least 10",
        ),
        (
            "Total revenue of orders with fewer than 3 units",
            "the sum of `revenue` in `orders` where `units` is under 3",
        ),
        (
            "Total revenue by customer and month",
            "the sum of `revenue` in `orders` for each `customer_id` and month of `order_date`",
        ),
        (
            "Total revenue by customer country",
            "the sum of `revenue` in `orders` for each `customers.country`, joined with \
             `customers` where `customer_id` = `customers.customer_id`",
        ),
    ] {
        planned(&orders(), question, want);
    }
    planned(
        &sales(&["amount"]),
        "How many products are there?",
        "how many different `product` there are in `sales`",
    );
}

#[test]
fn what_is_not_wholly_understood_is_not_answered() {
    let unclear = |question: &str, words: &[&str]| {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        puzzled(&orders(), question, Puzzle::Unclear(words));
    };
    unclear("Umsatz total revenue nach Region", &["umsatz", "nach", "region"]);
    unclear("Total revenue in Atlantis", &["atlantis"]);
    unclear("Total revenue of orders over 100", &["over", "100"]);
    unclear("Total revenue over 100", &["over", "100"]);
    unclear("Revenue by customer with units over 10", &["over", "10"]);
    unclear("Average revenue of the top 5 orders", &["top"]);
    unclear("Total revenue of the 5 largest orders", &["largest"]);
    unclear("Which country has the most orders by month?", &["month"]);
    unclear("Revenue growth by month", &["growth"]);
    let both = |names: &[&str]| Puzzle::Doubt(names.iter().map(|it| (*it).to_owned()).collect());
    puzzled(&orders(), "Total revenue in Spain", both(&["ship_country", "bill_country"]));
    let number = Puzzle::Number(vec!["units".into(), "revenue".into(), "price".into()]);
    puzzled(&orders(), "Which customer bought most of all orders?", number);
    puzzled(&orders(), "Which customer has the highest price?", Puzzle::Measure("price".into()));
}
