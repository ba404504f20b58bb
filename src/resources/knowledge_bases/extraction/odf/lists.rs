//! The numbers and bullets of lists, and the numbers of headings.

use std::collections::HashMap;

use super::super::archive::{Next, Xml};
use super::super::numbers::{letters, repeated_letters, roman};
use crate::base::Result;

/// Lists and headings have ten levels.
const LEVELS: usize = 10;

/// What stands before and behind a number has at most 64 characters.
const MAX_TEXT: usize = 64;

#[derive(Clone, Debug, Default)]
struct Level {
    is_bullet: bool,
    /// The bullet, or what stands before the number and behind it.
    before: String,
    behind: String,
    /// The kind of number; empty for none.
    format: String,
    repeats_letters: bool,
    /// Of how many levels the numbers are shown.
    shown: usize,
    start: u32,
}

type Style = [Option<Level>; LEVELS];
/// The last number of each level; none if it begins anew.
type Counted = [Option<u32>; LEVELS];

/// The styles of lists, and how far the lists are counted.
#[derive(Default)]
pub struct Lists {
    styles: HashMap<String, Style>,
    /// The style of headings, and how far they are counted.
    outline: Option<Style>,
    headings: Counted,
    /// The lists that are open, each in an item of the one before.
    open: Vec<OpenList>,
    counted: Counted,
    /// How far lists were counted, by their styles and by their ids.
    by_style: HashMap<String, Counted>,
    by_id: HashMap<String, Counted>,
}

struct OpenList {
    /// The name of its style, or of that of the list around it.
    style: Option<String>,
    id: Option<String>,
    /// Its item, until a paragraph of it was read.
    item: Option<NewItem>,
}

/// An item that is not counted yet.
struct NewItem {
    /// The number that it says it has.
    start: Option<u32>,
}

impl Lists {
    /// Reads the style of lists that started, if it is one.
    pub fn declare(&mut self, xml: &mut Xml) -> Result<()> {
        let name = match xml.name() {
            "outline-style" => None,
            "list-style" => match xml.attribute("name") {
                Some(name) => Some(name),
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        let (depth, mut style) = (xml.depth(), Style::default());
        loop {
            match xml.step()? {
                Next::Start => {
                    if let Some((at, level)) = Level::of(xml) {
                        style[at] = Some(level);
                    }
                }
                Next::End if xml.depth() == depth => break,
                Next::Done => break,
                Next::End | Next::Text => {}
            }
        }
        match name {
            Some(name) => _ = self.styles.insert(name, style),
            None => self.outline = Some(style),
        }
        Ok(())
    }

    /// Begins the list whose element starts.
    pub fn start_list(&mut self, xml: &Xml) {
        let (mut style, mut id, mut continued, mut continues) = (None, None, None, false);
        for (name, value) in xml.attributes() {
            match name.as_str() {
                "style-name" => style = Some(value),
                "id" => id = Some(value),
                "continue-list" => continued = Some(value),
                "continue-numbering" => continues = value == "true",
                _ => {}
            }
        }
        if let Some(outer) = self.open.last() {
            style = style.or_else(|| outer.style.clone());
        } else {
            let earlier = match (&continued, &style) {
                (Some(id), _) => self.by_id.get(id),
                (None, Some(style)) => self.by_style.get(style).filter(|_| continues),
                (None, None) => None,
            };
            self.counted = earlier.copied().unwrap_or_default();
        }
        self.open.push(OpenList { style, id, item: None });
    }

    /// Ends the innermost list.
    pub fn end_list(&mut self) {
        let Some(OpenList { style, id, .. }) = self.open.pop() else { return };
        if self.open.is_empty() {
            style.and_then(|style| self.by_style.insert(style, self.counted));
            id.and_then(|id| self.by_id.insert(id, self.counted));
        }
    }

    /// Begins the item whose element starts.
    pub fn start_item(&mut self, xml: &Xml) {
        if let Some(list) = self.open.last_mut() {
            let start = xml.attribute("start-value").and_then(|start| start.parse().ok());
            list.item = Some(NewItem { start });
        }
    }

    /// Ends an item of the innermost list.
    pub fn end_item(&mut self) {
        if let Some(list) = self.open.last_mut() {
            list.item = None;
        }
    }

    /// Returns what stands before the paragraph or heading that starts.
    pub fn label(&mut self, xml: &Xml) -> Option<String> {
        if let Some(list) = self.open.last_mut() {
            let item = list.item.take();
            // The paragraph of an item in an item is the first one of both.
            for outer in &mut self.open {
                outer.item = None;
            }
            return self.label_of(item?);
        }
        if xml.name() != "h" || xml.attribute("is-list-header").as_deref() == Some("true") {
            return None;
        }
        let style = self.outline.as_ref()?;
        let at = xml.attribute("outline-level")?.parse::<usize>().ok()?.checked_sub(1)?;
        let level = style.get(at)?.as_ref()?;
        let restarts = xml.attribute("restart-numbering").as_deref() == Some("true");
        let start = xml.attribute("start-value").and_then(|start| start.parse().ok());
        let next = self.headings[at].map_or(level.start, |last| last.saturating_add(1));
        let next = if restarts { start.unwrap_or(level.start) } else { next };
        self.headings[at] = Some(next);
        self.headings[at + 1..].fill(None);
        shown(style, at, &self.headings)
    }

    /// Counts an item at its first paragraph, on the level of that: one that has only a list counts
    /// there alone, as long as its own level has a number.
    fn label_of(&mut self, item: NewItem) -> Option<String> {
        let at = self.open.len().checked_sub(1).filter(|at| *at < LEVELS)?;
        let style = self.open[at].style.as_ref().and_then(|name| self.styles.get(name));
        let first =
            |at: usize| style.and_then(|style| style[at].as_ref()).map_or(1, |level| level.start);
        for (outer, counted) in self.counted[..at].iter_mut().enumerate() {
            counted.get_or_insert_with(|| first(outer));
        }
        let next = self.counted[at].map_or_else(|| first(at), |last| last.saturating_add(1));
        self.counted[at] = Some(item.start.unwrap_or(next));
        self.counted[at + 1..].fill(None);
        shown(style?, at, &self.counted)
    }
}

impl Level {
    /// The level that is declared by the element that starts, and its number from 0 on.
    fn of(xml: &Xml) -> Option<(usize, Self)> {
        let is_bullet = match xml.name() {
            "list-level-style-bullet" | "list-level-style-image" => true,
            "list-level-style-number" | "outline-level-style" => false,
            _ => return None,
        };
        let mut level = Level { is_bullet, shown: 1, start: 1, ..Level::default() };
        if is_bullet {
            level.before = "•".into();
        }
        let (mut at, short) = (None, |text: &str| text.chars().take(MAX_TEXT).collect());
        for (name, value) in xml.attributes() {
            match name.as_str() {
                "level" => at = value.parse::<usize>().ok()?.checked_sub(1),
                "bullet-char" => level.before = value.chars().map(bullet).take(1).collect(),
                "num-prefix" if !is_bullet => level.before = short(&value),
                "num-suffix" if !is_bullet => level.behind = short(&value),
                "num-format" => level.format = short(&value),
                "num-letter-sync" => level.repeats_letters = value == "true",
                "display-levels" => level.shown = value.parse().unwrap_or(1),
                "start-value" => level.start = value.parse().unwrap_or(1),
                _ => {}
            }
        }
        Some((at.filter(|at| *at < LEVELS)?, level))
    }

    fn written(&self, number: u32) -> String {
        let letters = if self.repeats_letters { repeated_letters } else { letters };
        match self.format.as_str() {
            "a" => letters(number),
            "A" => letters(number).to_ascii_uppercase(),
            "i" => roman(number),
            "I" => roman(number).to_ascii_uppercase(),
            _ => number.to_string(),
        }
    }
}

/// What a level shows; none if that is nothing.
fn shown(style: &Style, at: usize, counted: &Counted) -> Option<String> {
    let own = style.get(at)?.as_ref()?;
    let mut shown = own.before.clone();
    if !own.is_bullet && !own.format.is_empty() {
        let numbers = (at.saturating_sub(own.shown.max(1) - 1)..=at).filter_map(|at| {
            let level = style[at].as_ref().filter(|level| !level.format.is_empty())?;
            Some(level.written(counted[at].unwrap_or(level.start)))
        });
        shown.push_str(&numbers.collect::<Vec<_>>().join("."));
    }
    if !own.is_bullet {
        shown.push_str(&own.behind);
    }
    Some(shown).filter(|shown| !shown.trim().is_empty()).map(|shown| shown + " ")
}

/// A bullet: fonts of symbols have theirs in an area for private use.
fn bullet(c: char) -> char {
    if matches!(c, '\u{e000}'..='\u{f8ff}') { '•' } else { c }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::archive;
    use super::super::{Kind, text};

    const STYLES: &str = r#"<office:styles><text:outline-style><text:outline-level-style text:level="1" style:num-format="1" style:num-suffix="."/>
        <text:outline-level-style text:level="2" style:num-format="a" text:display-levels="2"/><text:outline-level-style text:level="3" style:num-format=""/></text:outline-style>
        <text:list-style style:name="N"><text:list-level-style-number text:level="1" style:num-format="1" style:num-suffix=")"/>
        <text:list-level-style-number text:level="2" style:num-format="I" style:num-prefix="(" style:num-suffix=")" text:start-value="4"/></text:list-style></office:styles>"#;

    const OWN: &str = r#"<office:automatic-styles><text:list-style style:name="B"><text:list-level-style-bullet text:level="1" text:bullet-char="&#xf0b7;"/>
        <text:list-level-style-bullet text:level="2" text:bullet-char="–"/></text:list-style></office:automatic-styles>"#;

    fn read(body: &str) -> String {
        let content = format!(
            "<office:document-content>{OWN}<office:body><office:text>{body}</office:text></office:body></office:document-content>"
        );
        let files = [("content.xml", content.as_str()), ("styles.xml", STYLES)];
        text(Kind::Text, &archive(&files)).unwrap().text
    }

    fn list(attributes: &str, items: &[&str]) -> String {
        let item = |item: &&str| format!("<text:list-item>{item}</text:list-item>");
        format!(
            "<text:list {attributes}>{}</text:list>",
            items.iter().map(item).collect::<String>()
        )
    }

    #[test]
    fn paragraphs_of_lists_have_their_numbers_and_bullets() {
        let p = |text: &str| format!("<text:p>{text}</text:p>");
        let (a, b) = (p("a"), p("b"));
        let n = "text:style-name=\"N\"";
        let inner = format!("{a}{}", list("", &[&a, &b]));
        assert_eq!(
            read(&list(n, &[&format!("{a}{b}"), &inner, &inner, &a])),
            "1) a\nb\n2) a\n(IV) a\n(V) b\n3) a\n(IV) a\n(V) b\n4) a\n"
        );
        // A list goes on with the one before, or with a certain one, or begins anew.
        let other = list("text:style-name=\"B\" xml:id=\"x\"", &[&a, &list("", &[&b])]);
        let whole = [
            list(&format!("{n} xml:id=\"one\""), &[&a, &b]),
            other,
            list(&format!("{n} text:continue-numbering=\"true\""), &[&a]),
            list(n, &[&a]),
            list(&format!("{n} text:continue-list=\"one\""), &[&a]),
        ];
        assert_eq!(read(&whole.concat()), "1) a\n2) b\n• a\n– b\n3) a\n1) a\n3) a\n");
        let starts = format!(
            "<text:list {n}><text:list-header>{a}</text:list-header><text:list-item text:start-value=\"7\">{a}</text:list-item><text:list-item>{b}</text:list-item></text:list>"
        );
        assert_eq!(read(&starts), "a\n7) a\n8) b\n");
        let unknown = list("text:style-name=\"none\"", &[&a]);
        assert_eq!(read(&unknown), "a\n");
        let deep = format!(
            "{}{b}{}",
            "<text:list><text:list-item>".repeat(40),
            "</text:list-item></text:list>".repeat(40)
        );
        assert_eq!(read(&deep), "b\n");
    }

    #[test]
    fn a_list_without_a_style_has_no_numbers_of_headings() {
        let p = "<text:p>a</text:p>";
        assert_eq!(read(&list("", &[p, p])), "a\na\n");
        assert_eq!(read(&list("text:continue-numbering=\"true\"", &[p])), "a\n");
        // Nor is a style without a name that of headings.
        assert_eq!(read(&list("text:style-name=\"\"", &[p])), "a\n");
    }

    #[test]
    fn an_item_that_has_only_a_list_counts_on_the_level_of_that() {
        let p = |text: &str| format!("<text:p>{text}</text:p>");
        let (n, again) =
            ("text:style-name=\"N\"", "text:style-name=\"N\" text:continue-numbering=\"true\"");
        let begun = list(n, &[&format!("{}{}", p("a"), list("", &[&p("b")]))]);
        let only = list("", &[&p("c")]);
        let whole = [begun, p("between"), list(again, &[&only, &p("d"), &only])];
        assert_eq!(read(&whole.concat()), "1) a\n(IV) b\nbetween\n(V) c\n2) d\n(IV) c\n");
        // Two lists of one item go on; at the beginning, the level around them has its first number.
        let two = format!("{only}{}{only}", p("e"));
        assert_eq!(read(&list(n, &[&two, &p("f")])), "(IV) c\ne\n(V) c\n2) f\n");
    }

    #[test]
    fn headings_have_their_numbers() {
        let h = |level: u32, more: &str| {
            format!("<text:h text:outline-level=\"{level}\" {more}>h</text:h>")
        };
        let all = [
            h(1, ""),
            h(2, ""),
            h(2, ""),
            h(3, ""),
            h(1, ""),
            h(2, ""),
            h(1, "text:is-list-header=\"true\""),
            h(1, "text:restart-numbering=\"true\" text:start-value=\"9\""),
            h(99, ""),
        ];
        assert_eq!(read(&all.concat()), "1. h\n1.a h\n1.b h\nh\n2. h\n2.a h\nh\n9. h\nh\n");
    }
}
