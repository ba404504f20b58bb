//! Answers within the context of a model (reference: mcp, "How long an answer is").
//!
//! Clients refuse what is longer, or cut it anywhere, and a model that reads it has less room for its
//! work. So long texts are cut, each with a word on what is left out, until the whole fits.
//!
//! A page of the API can have tens of megabytes. A try ends where it has more than an answer may have,
//! so that each costs what an answer costs and not what the page does.

use serde_json::{Map, Value};

use crate::base::Error;

/// The tokens of an answer: what Claude Code takes unless it is told otherwise.
const MAX_TOKENS: usize = 25_000;

/// The thirds of a token: a token is three characters of ASCII, or one other character. Prose takes
/// fewer, ids and JSON about as many.
const THIRDS: usize = 3;

/// What a text is cut to, in tokens: the first that makes the answer fit. Ids, and the names that other
/// calls take (at most 129 characters), stay whole.
const LENGTHS: [usize; 10] = [24_000, 12_000, 6_000, 3_000, 1_500, 750, 375, 188, 94, 44];

/// The fields of an object that are never left out: no record of the API has as many.
const MIN_FIELDS: usize = 32;
/// The items of a list in an item that are never left out.
const MIN_ITEMS: usize = 4;

/// Deeper than any answer is nested.
const WHOLE_DEPTH: usize = 100;

/// How an answer is made short.
pub struct Brief<'a> {
    /// Where to find what is left out, after "; ".
    pub whole_in: &'a str,
    /// Whether it is a page: the items of its lists are records, and none of them is left out.
    pub is_page: bool,
    /// Whether a page of fewer items can be had in its place.
    pub can_have_fewer: bool,
}

/// How much of an answer is left.
#[derive(Clone, Copy)]
struct Room {
    /// The tokens of a text.
    text: usize,
    /// The items of lists, and of objects that are no record.
    items: usize,
    /// The levels below this one.
    depth: usize,
}

impl Room {
    fn below(self) -> Self {
        Room { depth: self.depth - 1, ..self }
    }
}

impl Brief<'_> {
    /// Shortens an answer until it fits; `None` if a page should have fewer items, since it is too long
    /// even so.
    pub fn fit(&self, answer: &Value) -> Option<Value> {
        let lengths = LENGTHS.iter().map(|&text| {
            let items = (text / MIN_FIELDS).max(MIN_ITEMS);
            Room { text, items, depth: WHOLE_DEPTH }
        });
        let shortest = LENGTHS[LENGTHS.len() - 1];
        // At last nothing but the fields of the record, or of each item of the page.
        let flat =
            Room { text: shortest, items: MIN_ITEMS, depth: if self.is_page { 3 } else { 1 } };
        let flat = (!self.can_have_fewer).then_some(flat);
        let cut = |room| Cutting { brief: self, left: THIRDS * MAX_TOKENS }.answer(answer, room);
        lengths.chain(flat).filter_map(cut).find(fits)
    }
}

/// One try to make an answer short.
struct Cutting<'a> {
    brief: &'a Brief<'a>,
    /// The thirds of a token that are left. What is between texts is not counted: what has more does not
    /// fit, and what has not may be too long all the same.
    left: usize,
}

impl Cutting<'_> {
    /// The answer with no more than there is room for; `None` if that is too long.
    fn answer(mut self, answer: &Value, room: Room) -> Option<Value> {
        match answer {
            Value::Object(fields) if self.brief.is_page => self.page(fields, room),
            other => self.cut(other, room),
        }
    }

    /// A page, whose items are not counted.
    fn page(&mut self, fields: &Map<String, Value>, room: Room) -> Option<Value> {
        let mut kept = Map::new();
        for (name, value) in fields {
            let value = match value {
                Value::Array(items) => {
                    let below = room.below().below();
                    items.iter().map(|item| self.cut(item, below)).collect::<Option<_>>()?
                }
                // What names the next page is of no use in part.
                cursor if name == "nextCursor" => cursor.clone(),
                value => self.cut(value, room.below())?,
            };
            kept.insert(name.clone(), value);
        }
        Some(Value::Object(kept))
    }

    fn cut(&mut self, value: &Value, room: Room) -> Option<Value> {
        self.spend(1)?;
        Some(match value {
            Value::String(text) => Value::String(self.text(text, room.text)?),
            Value::Array(_) | Value::Object(_) if room.depth == 0 => {
                Value::String(self.said(format!("… [left out; {}]", self.brief.whole_in))?)
            }
            Value::Array(items) => {
                let kept = items.iter().take(room.items).map(|item| self.cut(item, room.below()));
                let mut kept: Vec<Value> = kept.collect::<Option<_>>()?;
                kept.extend(self.others(items.len(), room.items)?.map(Value::String));
                Value::Array(kept)
            }
            Value::Object(fields) => self.object(fields, room)?,
            other => other.clone(),
        })
    }

    fn object(&mut self, fields: &Map<String, Value>, room: Room) -> Option<Value> {
        let count = room.items.max(MIN_FIELDS);
        let mut kept = Map::new();
        for (name, value) in fields.iter().take(count) {
            self.spend(name.chars().map(weight_of).sum())?;
            kept.insert(name.clone(), self.cut(value, room.below())?);
        }
        let others = self.others(fields.len(), count)?;
        kept.extend(others.map(|others| ("…".into(), Value::String(others))));
        Some(Value::Object(kept))
    }

    /// What is said of items or fields that are left out.
    fn others(&mut self, count: usize, kept: usize) -> Option<Option<String>> {
        let left_out = count.saturating_sub(kept);
        if left_out == 0 {
            return Some(None);
        }
        self.said(format!("… [{left_out} more left out; {}]", self.brief.whole_in)).map(Some)
    }

    /// The beginning of a text, of so many tokens.
    fn text(&mut self, text: &str, tokens: usize) -> Option<String> {
        let (mut thirds, mut kept, mut end) = (0, 0, None);
        for (at, letter) in text.char_indices() {
            let weight = weight_of(letter);
            if thirds + weight > THIRDS * tokens {
                end = Some(at);
                break;
            }
            thirds += weight;
            kept += 1;
        }
        self.spend(thirds)?;
        let Some(end) = end else { return Some(text.to_string()) };
        let left_out = text[end..].chars().count();
        let all = kept + left_out;
        let said = format!("… [{left_out} of {all} characters left out; {}]", self.brief.whole_in);
        // What would become longer by it stays as it is.
        let rest = text[end..].chars().map(weight_of);
        if left_out <= said.len()
            && rest.clone().sum::<usize>() <= said.chars().map(weight_of).sum()
        {
            self.spend(rest.sum())?;
            return Some(text.to_string());
        }
        Some(text[..end].to_string() + &self.said(said)?)
    }

    /// What is said of what is left out, which is part of the answer.
    fn said(&mut self, text: String) -> Option<String> {
        self.spend(text.chars().map(weight_of).sum())?;
        Some(text)
    }

    fn spend(&mut self, thirds: usize) -> Option<()> {
        self.left = self.left.checked_sub(thirds)?;
        Some(())
    }
}

/// The refusal of an answer that may not be cut; `route` has it.
pub fn too_long(route: &str) -> Error {
    Error::conflict(
        "answer_too_long",
        format!(
            "the answer has more than {MAX_TOKENS} tokens, and a part of it would be taken for all: \
             {route} of the HTTP API has it"
        ),
    )
}

/// Whether an answer fits into the context of a model.
fn fits(answer: &Value) -> bool {
    is_short(answer.to_string().as_bytes())
}

/// Whether JSON fits into the context of a model.
pub fn is_short(json: &[u8]) -> bool {
    // Of a character that is not ASCII only the first byte counts.
    let thirds: usize = json
        .iter()
        .map(|byte| match byte {
            0x00..0x80 => 1,
            0x80..0xC0 => 0,
            _ => THIRDS,
        })
        .sum();
    thirds <= THIRDS * MAX_TOKENS
}

/// The thirds of a token that a character takes in JSON.
fn weight_of(letter: char) -> usize {
    match letter {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..' ' => 6,
        letter if letter.is_ascii() => 1,
        _ => THIRDS,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page() -> Brief<'static> {
        Brief { whole_in: "a smaller limit shows more", is_page: true, can_have_fewer: true }
    }

    fn record() -> Brief<'static> {
        Brief { whole_in: "GET /tasks/{taskId} has all", is_page: false, can_have_fewer: false }
    }

    #[test]
    fn a_token_is_three_ascii_characters_or_one_other() {
        assert!(is_short(&[b'a'; 75_000]) && !is_short(&[b'a'; 75_001]));
        assert!(is_short("語".repeat(25_000).as_bytes()));
        assert!(!is_short("語".repeat(25_001).as_bytes()));
        assert!(!is_short("é".repeat(25_001).as_bytes()));
        for text in ["a\"\\\n\u{1}é語🚀", "\r\t\u{8}\u{c}\u{1f}\u{7f}"] {
            let thirds: usize = text.chars().map(weight_of).sum();
            let json = json!(text).to_string();
            let counted: usize =
                json[1..json.len() - 1].chars().map(|c| if c.is_ascii() { 1 } else { 3 }).sum();
            assert_eq!(thirds, counted, "{text:?}");
        }
    }

    #[test]
    fn a_long_text_is_cut_and_says_how_much_is_left_out_and_where_it_is() {
        let long = "語".repeat(30_000);
        let cut = record().fit(&json!({"id": "1", "description": long})).unwrap();
        let text = cut["description"].as_str().unwrap();
        assert!(text.starts_with("語語"), "{}", &text[..30]);
        let end = "… [6000 of 30000 characters left out; GET /tasks/{taskId} has all]";
        assert!(text.ends_with(end), "{}", &text[text.len() - 100..]);
        assert_eq!(cut["id"], "1");
    }

    #[test]
    fn every_item_of_a_page_stays_with_its_ids_and_short_texts() {
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        let item = json!({"id": id, "title": "Write the notes", "body": "x".repeat(40_000),
            "labels": vec!["a"; 900]});
        let whole = json!({"items": vec![item; 20], "nextCursor": "c".repeat(300)});
        let cut = page().fit(&whole).unwrap();
        assert!(fits(&cut));
        let items = cut["items"].as_array().unwrap();
        assert_eq!((items.len(), &cut["nextCursor"]), (20, &whole["nextCursor"]));
        for item in items {
            assert_eq!((&item["id"], &item["title"]), (&json!(id), &json!("Write the notes")));
            let body = item["body"].as_str().unwrap();
            assert!(body.contains("of 40000 characters left out; a smaller limit"), "{body}");
            let labels = item["labels"].as_array().unwrap();
            assert!(labels.len() < 900);
            assert!(labels.last().unwrap().as_str().unwrap().contains("more left out"));
        }
    }

    #[test]
    fn a_page_of_too_many_items_does_not_fit_and_one_item_always_does() {
        let deep = json!({"a": vec![json!({"b": vec!["x".repeat(99); 99]}); 99]});
        let item: Map<String, Value> =
            (0..30).map(|nth| (format!("field{nth}"), deep.clone())).collect();
        let page_of = |count: usize| json!({"items": vec![json!(item); count], "nextCursor": null});
        assert_eq!(page().fit(&page_of(50)), None);
        let last = Brief { can_have_fewer: false, ..page() };
        let one = last.fit(&page_of(1)).unwrap();
        assert!(fits(&one) && one["items"][0].as_object().unwrap().len() == 30);
        let alone = record().fit(&json!(item)).unwrap();
        assert!(fits(&alone) && alone.as_object().unwrap().len() == 30);
    }

    #[test]
    fn a_try_ends_where_it_is_too_long() {
        let item = json!({"body": "x".repeat(50_000)});
        let page_of = |count: usize| json!({"items": vec![item.clone(); count]});
        let room = Room { text: LENGTHS[0], items: MIN_ITEMS, depth: WHOLE_DEPTH };
        let brief = page();
        let mut cutting = Cutting { brief: &brief, left: THIRDS * MAX_TOKENS };
        let page = page_of(200);
        assert_eq!(cutting.page(page.as_object().unwrap(), room), None);
        // The first item has taken its part of it, and the others have taken nothing.
        let used = THIRDS * MAX_TOKENS - cutting.left;
        assert!((50_000..50_100).contains(&used), "{used}");
        // What a try counts is never more than there is.
        for count in [1, 2, 7] {
            let cut = brief.fit(&page_of(count)).unwrap();
            let whole = Room { text: usize::MAX / THIRDS, ..room };
            let mut cutting = Cutting { brief: &brief, left: THIRDS * MAX_TOKENS };
            assert_eq!(cutting.page(cut.as_object().unwrap(), whole), Some(cut));
        }
    }

    #[test]
    fn an_object_without_end_keeps_a_few_fields() {
        let many: Map<String, Value> =
            (0..20_000).map(|nth| (format!("field{nth}"), json!(nth))).collect();
        let cut = record().fit(&json!(many)).unwrap();
        let said = cut["…"].as_str().unwrap();
        assert!(fits(&cut) && said.contains("more left out; GET /tasks"), "{said}");
    }
}
