//! What a session works on: four datasets whose keys join, eight cells, and
//! the result that they must come to.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context as _;
use serde::Deserialize;

/// About as long as a dataset is, in bytes.
const LENGTH: usize = 200_000;

/// The cells, in order. They run in the home directory, where the datasets are.
pub(in crate::commands::bench) const CELLS: [&str; 8] = [
    "import pandas as pd, json\n\
     orders = pd.read_json('orders.json')\n\
     customers = pd.read_json('customers.json')\n\
     print(orders.shape, customers.shape)\n\
     print(orders.head().to_string())",
    "products = pd.read_json('products.json')\n\
     events = pd.read_json('events.json')\n\
     print(products.dtypes.to_string())\n\
     print(events['kind'].value_counts().to_string())",
    "sales = orders.merge(customers, on='customer_id').merge(products, on='product_id')\n\
     sales['revenue_cents'] = sales['quantity'] * sales['price_cents']\n\
     print(sales.shape, int(sales['revenue_cents'].sum()))",
    "regions = sales.groupby('region').agg(\n\
     \x20   revenue=('revenue_cents', 'sum'), orders=('order_id', 'count'), mean=('quantity', 'mean'))\n\
     shares = sales.groupby(['region', 'category'])['revenue_cents'].sum().unstack(fill_value=0)\n\
     print(regions.to_string())\n\
     print((shares / shares.sum()).round(3).to_string())",
    "sales['ordered_at'] = pd.to_datetime(sales['ordered_at'])\n\
     months = sales.set_index('ordered_at').resample('MS')['revenue_cents'].sum()\n\
     weekdays = sales['ordered_at'].dt.day_name().value_counts()\n\
     print(months.tail(6).to_string())\n\
     print(weekdays.to_string())",
    "top = (sales.groupby('customer_id', as_index=False)['revenue_cents'].sum()\n\
     \x20   .sort_values(['revenue_cents', 'customer_id'], ascending=[False, True]).head(10))\n\
     print(top.merge(customers, on='customer_id')[['name', 'region', 'revenue_cents']].to_string())",
    "print(sales[['quantity', 'price_cents', 'revenue_cents']].describe().to_string())\n\
     spent = events.groupby('customer_id')['seconds'].sum()\n\
     joined = sales.join(spent, on='customer_id').fillna({'seconds': 0})\n\
     print(joined[['seconds', 'revenue_cents']].corr().round(3).to_string())\n\
     print(sales['revenue_cents'].quantile([.5, .9, .99]).to_string())",
    "result = {\n\
     \x20   'orders': len(sales), 'revenue_cents': int(sales['revenue_cents'].sum()),\n\
     \x20   'top': top.to_dict('records'), 'regions': regions['revenue'].to_dict(),\n\
     \x20   'months': {str(month.date()): int(value) for month, value in months.items()}}\n\
     with open('result.json', 'w') as file:\n\
     \x20   json.dump(result, file)\n\
     print('done')",
];

#[derive(Debug)]
pub(in crate::commands::bench) struct Workload {
    /// Name and content.
    pub(in crate::commands::bench) datasets: Vec<(&'static str, Vec<u8>)>,
    expected: Outcome,
}

/// The part of the result that is computed here as well.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Outcome {
    orders: u64,
    revenue_cents: u64,
    top: Vec<Top>,
    regions: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Top {
    customer_id: u64,
    revenue_cents: u64,
}

impl Workload {
    /// The same every time.
    pub(in crate::commands::bench) fn new() -> Self {
        let mut dice = Dice(0x5eed);
        let (customers, regions) = customers(&mut dice);
        let (products, prices) = products(&mut dice);
        let (orders, expected) = orders(&mut dice, &regions, &prices);
        let events = events(&mut dice, regions.len() as u64);
        let datasets = vec![
            ("orders.json", orders),
            ("customers.json", customers),
            ("products.json", products),
            ("events.json", events),
        ];
        Self { datasets, expected }
    }

    pub(in crate::commands::bench) fn check(&self, result: &[u8]) -> anyhow::Result<()> {
        let got: Outcome =
            serde_json::from_slice(result).context("the result is not what was asked for")?;
        anyhow::ensure!(got == self.expected, "the result is wrong: {got:?}");
        Ok(())
    }
}

/// A small generator, so that everybody works on the same data.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        // The constants of Knuth's MMIX; its high bits are the good ones.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        // No list here is longer than a few words.
        from[usize::try_from(self.below(from.len() as u64)).unwrap_or(0)]
    }

    fn moment(&mut self) -> String {
        let (month, day) = (self.below(12) + 1, self.below(28) + 1);
        let (hour, minute, second) = (self.below(24), self.below(60), self.below(60));
        format!("2024-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
    }
}

const FIRST_CUSTOMER: u64 = 10_001;
const FIRST_PRODUCT: u64 = 501;

/// A JSON array of records until it is long enough.
fn array(mut record: impl FnMut(&mut String)) -> Vec<u8> {
    let mut text = String::from("[");
    while text.len() < LENGTH {
        if text.len() > 1 {
            text.push(',');
        }
        record(&mut text);
    }
    text.push(']');
    text.into_bytes()
}

/// Also the region of each.
fn customers(dice: &mut Dice) -> (Vec<u8>, Vec<&'static str>) {
    let mut regions = Vec::new();
    let text = array(|text| {
        let id = FIRST_CUSTOMER + regions.len() as u64;
        let region = dice.pick(&["north", "south", "east", "west", "central"]);
        let segment = dice.pick(&["retail", "business", "public"]);
        let (day, age) = (dice.moment(), 18 + dice.below(60));
        let _ = write!(
            text,
            "{{\"customer_id\":{id},\"name\":\"Customer {id}\",\"region\":\"{region}\",\
             \"segment\":\"{segment}\",\"age\":{age},\"signed_up\":\"{}\"}}",
            &day[..10]
        );
        regions.push(region);
    });
    (text, regions)
}

/// Also the price of each.
fn products(dice: &mut Dice) -> (Vec<u8>, Vec<u64>) {
    let mut prices = Vec::new();
    let text = array(|text| {
        let id = FIRST_PRODUCT + prices.len() as u64;
        let category = dice.pick(&["tools", "garden", "kitchen", "office", "toys", "sports"]);
        let (price, weight) = (199 + dice.below(20_000), 50 + dice.below(9_000));
        let stock = dice.below(500);
        let _ = write!(
            text,
            "{{\"product_id\":{id},\"product\":\"{category} item {id}\",\
             \"category\":\"{category}\",\"price_cents\":{price},\"weight_grams\":{weight},\
             \"in_stock\":{stock}}}"
        );
        prices.push(price);
    });
    (text, prices)
}

fn orders(dice: &mut Dice, regions: &[&str], prices: &[u64]) -> (Vec<u8>, Outcome) {
    let mut spent: BTreeMap<u64, u64> = BTreeMap::new();
    let mut by_region: BTreeMap<String, u64> = BTreeMap::new();
    let (mut count, mut total) = (0, 0);
    let text = array(|text| {
        let (customer, product) =
            (dice.below(regions.len() as u64), dice.below(prices.len() as u64));
        let (quantity, channel) = (1 + dice.below(9), dice.pick(&["web", "shop", "phone"]));
        let _ = write!(
            text,
            "{{\"order_id\":{count},\"customer_id\":{},\"product_id\":{},\
             \"quantity\":{quantity},\"channel\":\"{channel}\",\"ordered_at\":\"{}\"}}",
            FIRST_CUSTOMER + customer,
            FIRST_PRODUCT + product,
            dice.moment()
        );
        let price = usize::try_from(product).ok().and_then(|index| prices.get(index));
        let region = usize::try_from(customer).ok().and_then(|index| regions.get(index));
        let revenue = quantity * price.copied().unwrap_or(0);
        *spent.entry(FIRST_CUSTOMER + customer).or_default() += revenue;
        *by_region.entry(region.copied().unwrap_or_default().to_owned()).or_default() += revenue;
        count += 1;
        total += revenue;
    });
    let mut top: Vec<Top> = spent
        .into_iter()
        .map(|(customer_id, revenue_cents)| Top { customer_id, revenue_cents })
        .collect();
    // Stable: among equals, the smaller number stays first.
    top.sort_by_key(|top| std::cmp::Reverse(top.revenue_cents));
    top.truncate(10);
    (text, Outcome { orders: count, revenue_cents: total, top, regions: by_region })
}

fn events(dice: &mut Dice, customers: u64) -> Vec<u8> {
    let mut id = 0u64;
    array(|text| {
        id += 1;
        let customer = FIRST_CUSTOMER + dice.below(customers);
        let kind = dice.pick(&["view", "search", "basket", "login", "return"]);
        let (at, tenths) = (dice.moment(), dice.below(9_000));
        let _ = write!(
            text,
            "{{\"event_id\":{id},\"customer_id\":{customer},\"kind\":\"{kind}\",\
             \"at\":\"{at}\",\"seconds\":{}.{}}}",
            tenths / 10,
            tenths % 10
        );
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_datasets_are_json_of_the_size_that_was_meant_and_the_same_each_time() {
        let (one, two) = (Workload::new(), Workload::new());
        assert_eq!(one.datasets, two.datasets);
        for (name, text) in &one.datasets {
            assert!((200_000..201_000).contains(&text.len()), "{name}: {}", text.len());
            let records: Vec<BTreeMap<String, serde_json::Value>> =
                serde_json::from_slice(text).unwrap();
            assert!(records.len() > 1000, "{name}: {}", records.len());
        }
    }

    #[test]
    fn a_wrong_result_is_noticed() {
        let work = Workload::new();
        assert!(work.check(b"{}").is_err());
        let Outcome { orders, revenue_cents, .. } = work.expected;
        let near = format!(
            "{{\"orders\":{orders},\"revenue_cents\":{revenue_cents},\"top\":[],\"regions\":{{}}}}"
        );
        assert!(work.check(near.as_bytes()).is_err());
    }
}
