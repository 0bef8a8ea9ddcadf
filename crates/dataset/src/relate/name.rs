//! What the names of columns and datasets suggest.

/// Endings of names that mean "an id".
const IDS: [&str; 15] = [
    "id", "ids", "key", "code", "ref", "uuid", "guid", "number", "no", "num", "sku", "slug",
    "email", "handle", "pk",
];

/// Words of a name, in lower case: `billingAccountID` is billing, account, id.
pub(crate) fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut last = ' ';
    let mut is_open = false;
    for c in name.chars() {
        if !c.is_alphanumeric() {
            is_open = false;
            last = c;
            continue;
        }
        let begins = !is_open || (c.is_uppercase() && last.is_lowercase());
        if begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.extend(c.to_lowercase());
        }
        is_open = true;
        last = c;
    }
    words
}

pub(crate) fn is_id(name: &str) -> bool {
    words(name).last().is_some_and(|word| IDS.contains(&word.as_str()))
}

/// Whether a name says nothing but "an id".
pub(crate) fn is_generic(name: &str) -> bool {
    words(name).iter().all(|word| IDS.contains(&word.as_str()) || word == "row" || word == "name")
}

/// Whether a name says that something refers to others of its own kind.
pub(crate) fn is_of_own_kind(name: &str) -> bool {
    let own = [
        "parent",
        "manager",
        "supervisor",
        "reports",
        "reply",
        "previous",
        "prev",
        "next",
        "root",
        "original",
        "duplicate",
        "related",
        "linked",
        "predecessor",
        "successor",
        "master",
    ];
    words(name).first().is_some_and(|word| own.contains(&word.as_str()))
}

/// Without endings that mean "an id", each word in the singular.
pub(crate) fn stem(name: &str) -> Vec<String> {
    let mut words = words(name);
    while words.len() > 1 && words.last().is_some_and(|word| IDS.contains(&word.as_str())) {
        words.pop();
    }
    words.iter().map(|word| singular(word)).collect()
}

fn singular(word: &str) -> String {
    match word {
        _ if word.ends_with("ies") && word.len() > 4 => format!("{}y", &word[..word.len() - 3]),
        _ if word.ends_with("sses") || word.ends_with("xes") || word.ends_with("ches") => {
            word[..word.len() - 2].to_owned()
        }
        _ if word.ends_with('s')
            && !word.ends_with("ss")
            && !word.ends_with("us")
            && word.len() > 3 =>
        {
            word[..word.len() - 1].to_owned()
        }
        _ => word.to_owned(),
    }
}

/// How well `from`, a path, names the column `to` of something called `table`:
/// 0 for not at all, to 3.
pub(crate) fn affinity(from: &str, to: &str, table: &str) -> u32 {
    let parts: Vec<&str> = from.split('.').map(|part| part.trim_end_matches("[]")).collect();
    let leaf = parts.last().copied().unwrap_or(from);
    let to_leaf = to.rsplit('.').next().unwrap_or(to);
    let table = stem(table);
    let said =
        if is_generic(leaf) && parts.len() > 1 { stem(parts[parts.len() - 2]) } else { stem(leaf) };
    let is_named = !is_generic(leaf) || parts.len() > 1;
    if is_named && said == table {
        return 3;
    }
    if leaf == to_leaf && !is_generic(leaf) {
        return 3;
    }
    if is_named && !is_generic(to_leaf) && said == stem(to_leaf) {
        return 2;
    }
    // `billing_account_id` and `accounts`; `account_id` and `crm_accounts`.
    let ends = |long: &[String], short: &[String]| !short.is_empty() && long.ends_with(short);
    u32::from(is_named && (ends(&said, &table) || ends(&table, &said)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fall_into_words() {
        assert_eq!(words("billingAccountID"), ["billing", "account", "id"]);
        assert_eq!(words("deal_id"), ["deal", "id"]);
        assert_eq!(stem("categories"), ["category"]);
        assert_eq!(stem("deal_ids"), ["deal"]);
    }

    #[test]
    fn names_suggest_what_they_refer_to() {
        assert_eq!(affinity("deal_id", "id", "deals"), 3);
        assert_eq!(affinity("owner.id", "id", "owners"), 3);
        assert_eq!(affinity("account_domain", "account_domain", "crm"), 3);
        assert_eq!(affinity("billing_account_id", "id", "accounts"), 1);
        assert_eq!(affinity("id", "id", "deals"), 0);
        assert_eq!(affinity("quantity", "id", "deals"), 0);
    }
}
