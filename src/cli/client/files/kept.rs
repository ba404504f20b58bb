//! What a person wrote in files and the server does not know, comments and form above all, and how it
//! survives a `pull`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, TableLike, Value};

use super::kind::ResourceName;
use super::kinds::REGISTRY;
use super::local;
use super::names::folded;
use super::state::{State, Text};
use super::tree::{MARK, MARK_CONTENT, Tree};
use crate::cli::client::prompt_file::{FENCE, PromptFile, split};

/// The files that a pull writes, if it would otherwise write `new` where `before` is: each of a resource
/// stays where somebody has put it, as it is if it says the same, and with its comments if it does not.
/// Those of prompts have the names that say which version is the newest.
pub fn keeping(before: &Tree, new: Tree) -> Tree {
    let mut places = BTreeMap::new();
    for (path, text) in before {
        if let Some(name) = resource(path, text) {
            places.entry(name).or_insert(path);
        }
    }
    let mut kept = Tree::new();
    let mut taken = BTreeSet::new();
    // Those that have a place first: the others make way.
    let mut others = Vec::new();
    for (path, text) in new {
        let place = resource(&path, &text).and_then(|name| places.remove(&name));
        match place {
            Some(place) => {
                taken.insert(folded(place));
                kept.insert(place.clone(), merged(place, &before[place], &text));
            }
            None => others.push((path, text)),
        }
    }
    for (path, text) in others {
        let is_of_resource = resource(&path, &text).is_some();
        // The name of a prompt's file is its own, whatever others are called.
        let place = if is_of_resource {
            free_place(&path, |place| taken.contains(&folded(place)))
        } else {
            path
        };
        taken.insert(folded(&place));
        let old = before.get(&place).filter(|old| resource(&place, old).is_none());
        let text = match old.filter(|_| !is_of_resource) {
            Some(old) => merged(&place, old, &text),
            None => text,
        };
        kept.insert(place, text);
    }
    kept
}

/// The path itself, or with a number, so that it is not taken.
fn free_place(path: &str, taken: impl Fn(&str) -> bool) -> String {
    let (stem, ending) = path.rsplit_once('.').unwrap_or((path, ""));
    let mut places =
        (1..).map(|n| if n == 1 { path.into() } else { format!("{stem}-{n}.{ending}") });
    places.find(|place: &String| !taken(place)).expect("there is always another number")
}

/// What a file says, as `pull` would write it into an empty directory; `None` if it cannot be read.
pub fn meaning(path: &str, text: &str) -> Option<String> {
    let state = read_alone(path, text)?;
    let files = local::to_tree(&state).ok()?;
    let is_it =
        |written: &&String| written.as_str() != MARK && is_registry(written) == is_registry(path);
    let at = files.keys().find(is_it)?;
    files.get(at).cloned()
}

fn is_registry(path: &str) -> bool {
    path.starts_with("registries/") && path.ends_with("/registry.toml")
}

/// Reads a file as if it was the only one.
fn read_alone(path: &str, text: &str) -> Option<State<Text>> {
    let mut tree = Tree::from([(MARK.to_string(), MARK_CONTENT.to_string())]);
    if let ["registries", slug, _, _] = path.split('/').collect::<Vec<_>>()[..] {
        // A prompt needs its registry.
        tree.insert(format!("registries/{slug}/registry.toml"), String::new());
    }
    tree.insert(path.to_string(), text.to_string());
    local::parse(&tree).ok()
}

/// The resource that a file is about, if it may have a file of any name.
fn resource(path: &str, text: &str) -> Option<ResourceName> {
    let state = read_alone(path, text)?;
    let is_named = |(kind, _): &&ResourceName| **kind != REGISTRY && kind.parent.is_none();
    state.resources.keys().find(is_named).cloned()
}

/// Returns a file that says what `new` says, in the form of `old` as far as that goes.
fn merged(path: &str, old: &str, new: &str) -> String {
    if path == MARK {
        return old.to_string(); // It is of this format.
    }
    let means = meaning(path, new);
    if old == new || means.is_none() {
        return new.to_string();
    }
    if meaning(path, old) == means {
        return old.to_string();
    }
    let edited = if path.ends_with(".md") { edited_prompt(old, new) } else { edited(old, new) };
    // Whatever the form was: what is written says what the server has.
    edited.filter(|edited| meaning(path, edited) == means).unwrap_or_else(|| new.to_string())
}

fn edited_prompt(old: &str, new: &str) -> Option<String> {
    let (old_front, old_body, _) = split(old)?.ok()?;
    let (new_front, new_body, _) = split(new)?.ok()?;
    let source = |text: &str| PromptFile::parse("", text).ok().map(|file| file.source);
    // It may have no line end at its end.
    let body = if source(old) == source(new) { old_body } else { new_body };
    Some(format!("{FENCE}\n{}{FENCE}\n{body}", edited(old_front, new_front)?))
}

/// Returns a document of TOML with the values of another.
fn edited(old: &str, new: &str) -> Option<String> {
    let mut document: DocumentMut = old.parse().ok()?;
    let new: DocumentMut = new.parse().ok()?;
    let head = head_of(&document, &new);
    merge(document.as_table_mut(), new.as_table());
    Some(head + &document.to_string())
}

/// What is written above the first key and apart from it, if that key is about to go.
fn head_of(old: &DocumentMut, new: &DocumentMut) -> String {
    let gone = old.iter().next().filter(|(key, _)| !new.contains_key(key));
    let above = gone.and_then(|(key, _)| old.key(key)?.leaf_decor().prefix()?.as_str());
    let apart = above.and_then(|above| above.rfind("\n\n").map(|end| &above[..end + 2]));
    apart.unwrap_or_default().to_string()
}

fn merge(old: &mut dyn TableLike, new: &dyn TableLike) {
    let gone: Vec<String> = old.iter().map(|(key, _)| key.to_string()).collect();
    for key in gone.iter().filter(|key| !new.contains_key(key)) {
        old.remove(key);
    }
    for (key, item) in new.iter() {
        match old.get_mut(key) {
            Some(before) => merge_item(before, item),
            None => {
                let mut item = item.clone();
                forget_position(&mut item);
                old.insert(key, item);
            }
        }
    }
}

/// A table of another document goes behind those that are there.
fn forget_position(item: &mut Item) {
    if let Some(table) = item.as_table_mut() {
        table.set_position(None);
        table.iter_mut().for_each(|(_, item)| forget_position(item));
    } else if let Some(tables) = item.as_array_of_tables_mut() {
        for table in tables.iter_mut() {
            table.set_position(None);
            table.iter_mut().for_each(|(_, item)| forget_position(item));
        }
    }
}

fn merge_item(old: &mut Item, new: &Item) {
    if let (Some(old), Some(new)) = (old.as_table_like_mut(), new.as_table_like()) {
        return merge(old, new);
    }
    if let (Some(old), Some(new)) = (old.as_array_of_tables_mut(), new.as_array_of_tables()) {
        return merge_tables(old, new);
    }
    let value = |item: &Item| item.clone().into_value().ok();
    match (value(old), value(new)) {
        (Some(before), Some(now)) if is_same(&before, &now) => {}
        (Some(Value::Array(before)), Some(Value::Array(now))) if old.is_value() => {
            *old = Item::Value(Value::Array(merged_array(before, &now)));
        }
        (Some(before), Some(mut now)) if old.is_value() => {
            // What is written beside a value stays beside it.
            *now.decor_mut() = before.decor().clone();
            *old = Item::Value(now);
        }
        _ => *old = new.clone(),
    }
}

/// An element of an array, with what is written around it.
struct Element {
    value: Value,
    /// Above it, and how it is set off.
    lead: String,
    /// Behind its comma, on the same line.
    trail: String,
}

impl Element {
    /// The elements of an array, and what is written below the last one.
    fn all(array: &Array) -> (Vec<Element>, String) {
        let mut elements: Vec<Element> = Vec::new();
        for value in array {
            let prefix = value.decor().prefix().and_then(|prefix| prefix.as_str());
            let lead = elements.last_mut().map_or_else(
                || prefix.unwrap_or_default().to_string(),
                |before| before.take_trail(prefix.unwrap_or_default()),
            );
            elements.push(Element { value: value.clone(), lead, trail: String::new() });
        }
        let below = array.trailing().as_str().unwrap_or_default();
        let below = match elements.last_mut() {
            Some(last) if array.trailing_comma() => last.take_trail(below),
            _ => below.to_string(),
        };
        (elements, below)
    }

    /// Takes what is on its line; returns the rest.
    fn take_trail(&mut self, text: &str) -> String {
        let (trail, rest) = text.find('\n').map_or(("", text), |end| text.split_at(end));
        self.trail = trail.to_string();
        rest.to_string()
    }
}

/// The elements of `new`, each as it is written in `old` if it is there.
fn merged_array(mut old: Array, new: &Array) -> Array {
    let (mut before, below) = Element::all(&old);
    let apart = before.first().map(|first| first.lead.clone()).unwrap_or_default();
    let apart = if apart.trim().is_empty() { apart } else { "\n".into() };
    let (has_comma, mut trail) = (old.trailing_comma(), String::new());
    old.clear();
    for value in new {
        let found = before.iter().position(|before| is_same(&before.value, value));
        let element = found.map(|n| before.remove(n)).unwrap_or_else(|| {
            let value = value.clone().decorated("", "");
            Element { value, lead: apart.clone(), trail: String::new() }
        });
        let mut value = element.value;
        value.decor_mut().set_prefix(trail + &element.lead);
        old.push_formatted(value);
        trail = element.trail;
    }
    old.set_trailing_comma(has_comma || !trail.is_empty());
    old.set_trailing(trail + &below);
    old
}

/// Makes the tables those of `new`, each as it is written in `old` if it is there, and otherwise in the
/// form of one that is not there any more, in their order.
fn merge_tables(old: &mut ArrayOfTables, new: &ArrayOfTables) {
    let value = |table: &Table| Value::InlineTable(table.clone().into_inline_table());
    let mut before: Vec<Table> = old.iter().cloned().collect();
    let is_there = |table: &Table| new.iter().any(|new| is_same(&value(new), &value(table)));
    let mut gone: VecDeque<Table> = before.extract_if(.., |table| !is_there(table)).collect();
    old.clear();
    for table in new.iter() {
        let found = before.iter().position(|before| is_same(&value(before), &value(table)));
        let mut now = match (found, gone.is_empty()) {
            (Some(n), _) => before.remove(n),
            (None, false) => gone.pop_front().unwrap_or_default(),
            (None, true) => Table::default(),
        };
        merge(&mut now, table);
        now.set_position(None);
        old.push(now);
    }
}

fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::String(one), Value::String(other)) => one.value() == other.value(),
        (Value::Integer(one), Value::Integer(other)) => one.value() == other.value(),
        (Value::Float(one), Value::Float(other)) => {
            one.value().to_bits() == other.value().to_bits()
        }
        (Value::Boolean(one), Value::Boolean(other)) => one.value() == other.value(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::InlineTable(one), Value::InlineTable(other)) => {
            let is_in = |(key, one): (&str, &Value)| {
                other.get(key).is_some_and(|other| is_same(one, other))
            };
            one.len() == other.len() && one.iter().all(is_in)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect()
    }

    /// What a pull makes of one file.
    fn pulled(path: &str, before: &str, new: &str) -> String {
        let kept = keeping(&tree(&[(path, before)]), tree(&[(path, new)]));
        assert_eq!(kept.len(), 1, "{kept:?}");
        kept[path].clone()
    }

    const POLICY: &str = "# Agreed in May.\nname   = 'House rules'\n\nseverity = \"error\"   # not a warning\n\
                          registries = [\n  \"main\", # ours\n]\n\n# How long a prompt may be.\n[[rules]]\n\
                          type = \"maxLength\"\nvalue = 5_000 # characters\n";

    #[test]
    fn a_file_that_says_the_same_is_not_touched() {
        let written = "name = \"House rules\"\nregistries = [\"main\"]\nseverity = \"error\"\n\n[[rules]]\n\
                       type = \"maxLength\"\nvalue = 5000\n";
        assert_eq!(pulled("policies/house-rules.toml", POLICY, written), POLICY);
        let prompt = "+++\n# The first.\nlabels = ['b', 'a']\nversion = '01.0.0'\n+++\nHi";
        let written = "+++\nlabels = [\"a\", \"b\"]\nversion = \"1.0.0\"\n+++\nHi\n";
        assert_eq!(pulled("registries/main/prompts/a.md", prompt, written), prompt);
    }

    #[test]
    fn comments_and_form_stay_where_a_value_changes() {
        let written = "description = \"New.\"\nname = \"House rules\"\nregistries = [\"main\"]\n\
                       severity = \"warning\"\n\n[[rules]]\ntype = \"maxLength\"\nvalue = 4000\n";
        let expected = POLICY
            .replace("\"error\"   #", "\"warning\"   #")
            .replace("5_000 #", "4000 #")
            .replace("]\n\n# How", "]\ndescription = \"New.\"\n\n# How");
        assert_eq!(pulled("policies/house-rules.toml", POLICY, written), expected);

        let prompt = "+++\n# The first.\nversion = '1.0.0' # as agreed\n[metadata]\nowner = 'ada' # asks\n\
                      note = 'x'\n+++\nHi\n";
        let written = "+++\nversion = \"1.1.0\"\n\n[metadata]\nowner = \"grace\"\n+++\nHello\n";
        let expected = "+++\n# The first.\nversion = \"1.1.0\" # as agreed\n[metadata]\n\
                        owner = \"grace\" # asks\n+++\nHello\n";
        assert_eq!(pulled("registries/main/prompts/a.md", prompt, written), expected);
    }

    #[test]
    fn a_file_stays_where_somebody_has_put_it() {
        let (before, written) =
            ("name = \"T\" # mine\ntype = \"mcp\"\n", "name = \"T\"\ntype = \"http\"\n");
        let kept = keeping(
            &tree(&[("tools/our-tool.toml", before)]),
            tree(&[
                ("tools/t.toml", written),
                ("tools/t-2.toml", "name = \"t\"\ntype = \"mcp\"\n"),
            ]),
        );
        assert_eq!(kept["tools/our-tool.toml"], "name = \"T\" # mine\ntype = \"http\"\n");
        assert_eq!(kept.keys().collect::<Vec<_>>(), ["tools/our-tool.toml", "tools/t-2.toml"]);
    }

    #[test]
    fn two_that_have_each_others_names_stay_where_they_are() {
        let file = |name: &str| format!("# About {name}.\nname = \"{name}\"\ntype = \"mcp\"\n");
        let written = |name: &str| format!("name = \"{name}\"\ntype = \"http\"\n");
        let (a, b) = (file("a"), file("b"));
        let kept = keeping(
            &tree(&[("tools/a.toml", &b), ("tools/b.toml", &a)]),
            tree(&[
                ("tools/a.toml", &written("a")),
                ("tools/b.toml", &written("b")),
                ("tools/b-2.toml", &written("B")),
            ]),
        );
        assert_eq!(kept["tools/a.toml"], b.replace("mcp", "http"));
        assert_eq!(kept["tools/b.toml"], a.replace("mcp", "http"));
        assert_eq!(kept["tools/b-2.toml"], written("B"));
    }

    #[test]
    fn comments_go_with_what_they_are_beside() {
        let before = "# Rules of the house.\n\n# To be removed.\ndescription = \"x\"\nname = \"R\"\n\
                      registries = [\n  \"main\", # ours\n  \"old\",\n]\n\n# a\n[[rules]]\ntype = \"A\"\n\n\
                      # b\n[[rules]]\ntype = \"B\"\nvalue = 1 # few\n";
        let written = "name = \"R\"\nregistries = [\"main\", \"new\"]\n\n[[rules]]\ntype = \"B\"\nvalue = 1\n\n\
                       [[rules]]\ntype = \"C\"\n";
        let text = pulled("policies/r.toml", before, written);
        for part in [
            "# Rules of the house.\n\n",
            "\"main\", # ours\n",
            "# b\n[[rules]]\ntype = \"B\"\nvalue = 1 # few\n",
        ] {
            assert!(text.contains(part), "{part:?}: {text}");
        }
        assert!(
            !text.contains("To be removed") && !text.contains("# b\n[[rules]]\ntype = \"C\""),
            "{text}"
        );
    }

    #[test]
    fn a_file_that_is_about_something_else_lends_its_comments_to_nobody() {
        let before = "# About T.\nname = \"T\"\ntype = \"mcp\"\n";
        let written = "name = \"t\"\ntype = \"mcp\"\n";
        assert_eq!(pulled("tools/t.toml", before, written), written);
    }

    #[test]
    fn a_form_that_cannot_be_kept_gives_way_to_what_the_server_has() {
        for before in [
            "name = \"T\"\ntype = \"http\"\nproviderConfig = {a.b = 1, a.c = 2}\n",
            "name = \"T\"\ntype = \"http\"\nproviderConfig.a.b = 1\n",
            "name = \"T\"\ntype = \"http\"\nproviderConfigJson = '{\"a\": null}'\n",
            "name = \"T\"\ntype = \"http\"\n[providerConfig]\na = [{b = 1}]\n[providerConfig.c]\n",
        ] {
            for written in [
                "name = \"T\"\ntype = \"http\"\nproviderConfigJson = \"{\\\"a\\\": [null]}\"\n",
                "name = \"T\"\ntype = \"http\"\n\n[[providerConfig.a]]\nb = 2\n\n[[providerConfig.a]]\nb = 3\n",
                "name = \"T\"\ntype = \"http\"\n\n[providerConfig]\na = 1\n\n[providerConfig.x.y]\nz = \"\"\n",
            ] {
                let text = pulled("tools/t.toml", before, written);
                let path = "tools/t.toml";
                assert_eq!(meaning(path, &text), meaning(path, written), "{before}{written}{text}");
            }
        }
    }
}
