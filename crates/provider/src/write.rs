//! Writes JSON in the order in which it is called, so that equal values are equal
//! bytes and what changes stands where the caller puts it: at the end.

use serde_json::Value;

/// The members of an object.
#[derive(Debug)]
pub(crate) struct Object<'o> {
    out: &'o mut Vec<u8>,
    is_first: bool,
}

/// The items of an array.
#[derive(Debug)]
pub(crate) struct Array<'o> {
    out: &'o mut Vec<u8>,
    is_first: bool,
}

/// One object, as text.
pub(crate) fn object(fill: impl FnOnce(&mut Object<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    braces(&mut out, fill);
    out
}

fn braces(out: &mut Vec<u8>, fill: impl FnOnce(&mut Object<'_>)) {
    out.push(b'{');
    fill(&mut Object { out, is_first: true });
    out.push(b'}');
}

fn string(out: &mut Vec<u8>, text: &str) {
    // Writing to memory cannot fail, and a string is always valid JSON.
    let _ = serde_json::to_writer(out, text);
}

/// Any value, the keys of its objects sorted.
fn sorted(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            braces(out, |object| {
                for (key, value) in members {
                    object.value(key, value);
                }
            });
        }
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                sorted(out, item);
            }
            out.push(b']');
        }
        leaf => out.extend_from_slice(leaf.to_string().as_bytes()),
    }
}

impl Object<'_> {
    fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !self.is_first {
            self.out.push(b',');
        }
        self.is_first = false;
        string(self.out, key);
        self.out.push(b':');
        self.out
    }

    pub(crate) fn text(&mut self, key: &str, text: &str) {
        string(self.key(key), text);
    }

    /// Text that is JSON already.
    pub(crate) fn raw(&mut self, key: &str, json: &str) {
        self.key(key).extend_from_slice(json.as_bytes());
    }

    pub(crate) fn number(&mut self, key: &str, number: u64) {
        self.raw(key, &number.to_string());
    }

    pub(crate) fn flag(&mut self, key: &str, flag: bool) {
        self.raw(key, if flag { "true" } else { "false" });
    }

    /// A value whose order is not ours.
    pub(crate) fn value(&mut self, key: &str, value: &Value) {
        sorted(self.key(key), value);
    }

    pub(crate) fn object(&mut self, key: &str, fill: impl FnOnce(&mut Object<'_>)) {
        braces(self.key(key), fill);
    }

    pub(crate) fn array(&mut self, key: &str, fill: impl FnOnce(&mut Array<'_>)) {
        let out = self.key(key);
        out.push(b'[');
        fill(&mut Array { out, is_first: true });
        out.push(b']');
    }
}

impl Array<'_> {
    fn item(&mut self) -> &mut Vec<u8> {
        if !self.is_first {
            self.out.push(b',');
        }
        self.is_first = false;
        self.out
    }

    pub(crate) fn text(&mut self, text: &str) {
        string(self.item(), text);
    }

    pub(crate) fn raw(&mut self, json: &str) {
        self.item().extend_from_slice(json.as_bytes());
    }

    pub(crate) fn object(&mut self, fill: impl FnOnce(&mut Object<'_>)) {
        braces(self.item(), fill);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_the_callers_and_schemas_are_sorted() {
        let schema = serde_json::json!({ "z": [1, { "b": null, "a": 0.5 }], "a": "\u{7}" });
        let text = object(|object| {
            object.text("z", "\"\n");
            object.value("schema", &schema);
            object.array("list", |list| {
                list.text("x");
                list.raw("{ }");
                list.object(|inner| inner.flag("yes", true));
            });
            object.object("empty", |_| {});
            object.number("n", 7);
        });
        assert_eq!(
            String::from_utf8(text).unwrap(),
            r#"{"z":"\"\n","schema":{"a":"\u0007","z":[1,{"a":0.5,"b":null}]},"list":["x",{ },{"yes":true}],"empty":{},"n":7}"#
        );
    }
}
