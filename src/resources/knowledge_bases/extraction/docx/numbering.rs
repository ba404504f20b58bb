//! The numbers and bullets of lists, as Word shows them before a paragraph.
//!
//! A paragraph names a list, itself or by its style, and a level of it. A list is an instance of a
//! definition: all instances of one go on counting together, but for those that say where they begin.

use std::collections::HashMap;

use super::super::archive::{Next, Xml};
use super::super::numbers::{repeated_letters, roman};
use super::toggles::is_on;
use crate::base::Result;

/// A list has nine levels.
const LEVELS: usize = 9;

/// A number has a text of at most 64 characters around it; Word takes 31.
const MAX_TEXT: usize = 64;

/// The name of a style has at most 256 characters; Word takes 253.
const MAX_NAME: usize = 256;

/// At most so many definitions, and as many instances of them, are read; Word takes some 2,000.
const MAX_LISTS: usize = 10_000;

/// Styles that are based on each other, and links between lists and styles: at most so many are followed.
const MAX_STEPS: usize = 32;

/// What a paragraph says about its number; what it does not say its style does.
#[derive(Clone, Debug, Default)]
pub struct Numbered {
    pub style: Option<String>,
    /// The instance of a list; `0` is none.
    pub list: Option<String>,
    pub level: Option<usize>,
}

impl Numbered {
    /// Takes over what the element that starts says, which is in a property `numPr` or beside one.
    pub fn read(&mut self, xml: &Xml) {
        let value = xml.attribute("val");
        match xml.name() {
            "pStyle" => self.style = value,
            "numId" => self.list = value,
            "ilvl" => self.level = value.and_then(|level| level.parse().ok()),
            _ => {}
        }
    }
}

/// The lists of a document, and how far they are counted.
#[derive(Default)]
pub struct Numbering {
    definitions: HashMap<String, Definition>,
    instances: HashMap<String, Instance>,
    styles: HashMap<String, Style>,
}

#[derive(Default)]
struct Style {
    based_on: Option<String>,
    numbered: Numbered,
}

#[derive(Default)]
struct Definition {
    levels: [Option<Level>; LEVELS],
    /// The style whose list stands for this one.
    link: Option<String>,
    /// The last number of each level; none if it begins anew.
    counted: [Option<u32>; LEVELS],
}

#[derive(Default)]
struct Instance {
    definition: String,
    levels: [Option<Level>; LEVELS],
    /// Where a level begins in this list.
    starts: [Option<u32>; LEVELS],
    has_begun: [bool; LEVELS],
}

#[derive(Clone, Debug, Default)]
struct Level {
    start: Option<u32>,
    format: String,
    /// What is shown, with `%1` to `%9` for the numbers of the levels.
    text: String,
    /// Whether nothing is between it and the text.
    is_close: bool,
    /// It begins anew after a level up to this one, from 1 on; with 0 never.
    restart: Option<usize>,
    /// Whether all its numbers are in digits.
    is_legal: bool,
    is_hidden: bool,
    /// The style whose paragraphs are on this level.
    style: Option<String>,
}

// ── Reading ──────────────────────────────────────────────────────────────────

fn level_of(xml: &Xml) -> Option<usize> {
    xml.attribute("ilvl")?.parse().ok().filter(|level| *level < LEVELS)
}

impl Numbering {
    /// Reads which lists the styles of paragraphs and lists have: nothing of a part that is damaged.
    pub fn read_styles(&mut self, mut xml: Xml) -> Result<()> {
        let (mut id, mut styles) = (None, HashMap::<String, Style>::new());
        while xml.next_start()? {
            match (xml.name(), xml.above(1)) {
                ("style", "styles") => {
                    id = xml.attribute("styleId");
                    if let Some(id) = &id {
                        styles.insert(id.clone(), Style::default());
                    }
                }
                ("basedOn", "style") => {
                    if let Some(style) = id.as_ref().and_then(|id| styles.get_mut(id)) {
                        style.based_on = xml.attribute("val");
                    }
                }
                ("numId" | "ilvl", "numPr") if xml.above(3) == "style" => {
                    if let Some(style) = id.as_ref().and_then(|id| styles.get_mut(id)) {
                        style.numbered.read(&xml);
                    }
                }
                _ => {}
            }
        }
        self.styles = styles;
        Ok(())
    }

    /// Reads the lists: nothing of a part that is damaged.
    pub fn read_lists(&mut self, mut xml: Xml) -> Result<()> {
        let (mut definition, mut instance, mut at) = (String::new(), String::new(), None);
        let mut definitions = HashMap::<String, Definition>::new();
        let mut instances = HashMap::<String, Instance>::new();
        while xml.next_start()? {
            match (xml.name(), xml.above(1)) {
                ("abstractNum", "numbering") => {
                    definition = xml.attribute("abstractNumId").unwrap_or_default();
                    if definitions.len() < MAX_LISTS {
                        definitions.insert(definition.clone(), Definition::default());
                    }
                }
                ("numStyleLink", "abstractNum") => {
                    if let Some(of) = definitions.get_mut(&definition) {
                        of.link = xml.attribute("val");
                    }
                }
                ("lvl", "abstractNum") => {
                    let Some(at) = level_of(&xml) else { continue };
                    let level = Level::read(&mut xml)?;
                    if let Some(of) = definitions.get_mut(&definition) {
                        of.levels[at] = Some(level);
                    }
                }
                ("num", "numbering") => {
                    instance = xml.attribute("numId").unwrap_or_default();
                    if instances.len() < MAX_LISTS {
                        instances.insert(instance.clone(), Instance::default());
                    }
                }
                ("lvlOverride", "num") => at = level_of(&xml),
                ("abstractNumId", "num") => {
                    if let Some(of) = instances.get_mut(&instance) {
                        of.definition = xml.attribute("val").unwrap_or_default();
                    }
                }
                ("startOverride", "lvlOverride") => {
                    let Some(at) = at else { continue };
                    if let Some(of) = instances.get_mut(&instance) {
                        of.starts[at] = xml.attribute("val").and_then(|start| start.parse().ok());
                    }
                }
                ("lvl", "lvlOverride") => {
                    let Some(at) = at else { continue };
                    let level = Level::read(&mut xml)?;
                    if let Some(of) = instances.get_mut(&instance) {
                        of.levels[at] = Some(level);
                    }
                }
                _ => {}
            }
        }
        (self.definitions, self.instances) = (definitions, instances);
        Ok(())
    }
}

impl Level {
    /// Reads the level that started, to its end.
    fn read(xml: &mut Xml) -> Result<Self> {
        let (depth, mut level) = (xml.depth(), Level::default());
        loop {
            match xml.step()? {
                Next::Start => level.property(xml)?,
                Next::End if xml.depth() == depth => return Ok(level),
                Next::Done => return Ok(level),
                Next::End | Next::Text => {}
            }
        }
    }

    fn property(&mut self, xml: &mut Xml) -> Result<()> {
        let value = || xml.attribute("val");
        let short = |value: String, most| value.chars().take(most).collect();
        match (xml.name(), xml.above(1)) {
            ("start", "lvl") => self.start = value().and_then(|start| start.parse().ok()),
            // `001, 002, …` is a format of its own.
            ("numFmt", "lvl" | "Choice") => {
                let own = xml.attribute("format").filter(|_| value().as_deref() == Some("custom"));
                self.format = short(own.or_else(value).unwrap_or_default(), MAX_TEXT);
            }
            ("Fallback", _) => xml.skip()?,
            ("lvlText", "lvl") => {
                self.text = short(value().unwrap_or_default(), MAX_TEXT);
            }
            ("suff", "lvl") => self.is_close = value().as_deref() == Some("nothing"),
            ("lvlRestart", "lvl") => self.restart = value().and_then(|level| level.parse().ok()),
            ("isLgl", "lvl") => self.is_legal = is_on(xml),
            ("pStyle", "lvl") => self.style = value().map(|style| short(style, MAX_NAME)),
            ("vanish", "rPr") => self.is_hidden = is_on(xml),
            _ => {}
        }
        Ok(())
    }

    /// Whether it begins anew when a paragraph was on this higher level.
    fn restarts_after(&self, level: usize) -> bool {
        self.restart.is_none_or(|restart| level < restart)
    }

    fn written(&self, number: u32) -> String {
        let format = self.format.as_str();
        match format {
            "lowerLetter" => repeated_letters(number),
            "upperLetter" => repeated_letters(number).to_ascii_uppercase(),
            "lowerRoman" => roman(number),
            "upperRoman" => roman(number).to_ascii_uppercase(),
            "none" => String::new(),
            "decimalZero" => format!("{number:02}"),
            "ordinal" => format!("{number}{}", ending(number)),
            _ => {
                // `001, 002, …`, or in digits what other scripts write.
                let digits = format.bytes().take_while(u8::is_ascii_digit).count().min(9);
                format!("{number:0digits$}")
            }
        }
    }
}

/// The ending of an ordinal number in English.
fn ending(number: u32) -> &'static str {
    match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    }
}

// ── Counting ─────────────────────────────────────────────────────────────────

impl Numbering {
    /// Counts a paragraph; returns what stands before its text.
    pub fn next(&mut self, paragraph: &Numbered) -> Option<String> {
        let (list, at) = self.place(paragraph)?;
        let (linked, definition) = self.resolved(&list)?;
        let (instance, other) = (self.instances.get(&list)?, self.instances.get(&linked)?);
        let definition = self.definitions.get_mut(&definition)?;
        let level = |at: usize| {
            let own = instance.levels[at].as_ref().or(other.levels[at].as_ref());
            own.or(definition.levels[at].as_ref())
        };
        let own = level(at)?.clone();
        let starts: [u32; LEVELS] = std::array::from_fn(|at| {
            let declared = level(at).and_then(|level| level.start);
            let own = instance.starts[at].or(other.starts[at]);
            own.or(declared).unwrap_or(if level(at).is_some() { 0 } else { 1 })
        });
        // The list that says where this level begins, if one of them does.
        let says = if instance.starts[at].is_some() { list } else { linked };
        let of = self.instances.get(&says)?;
        let begins = of.starts[at].is_some() && !of.has_begun[at];
        let next = match definition.counted[at] {
            Some(last) if !begins => last.saturating_add(1),
            _ => starts[at],
        };
        let is_kept = |below: usize| level(below).is_some_and(|level| !level.restarts_after(at));
        let kept: [bool; LEVELS] = std::array::from_fn(|below| below <= at || is_kept(below));
        let mut numbers = [0; LEVELS];
        for (number, (counted, start)) in
            numbers.iter_mut().zip(definition.counted.iter().zip(starts))
        {
            *number = counted.unwrap_or(start);
        }
        numbers[at] = next;
        let text = if own.is_hidden { String::new() } else { shown(&own, &numbers, level) };
        definition.counted[at] = Some(next);
        for (counted, is_kept) in definition.counted.iter_mut().zip(kept) {
            counted.take_if(|_| !is_kept);
        }
        self.instances.get_mut(&says)?.has_begun[at] = true;
        if text.is_empty() {
            return None;
        }
        Some(if own.is_close { text } else { text + " " })
    }

    /// The list and the level of a paragraph.
    fn place(&self, paragraph: &Numbered) -> Option<(String, usize)> {
        if let (Some(list), Some(level)) = (&paragraph.list, paragraph.level) {
            return (list != "0" && level < LEVELS).then(|| (list.clone(), level));
        }
        let (mut list, mut level) = (paragraph.list.clone(), paragraph.level);
        let (mut next, mut of_list) = (paragraph.style.as_ref(), None);
        for _ in 0..MAX_STEPS {
            let Some((id, style)) = next.and_then(|id| self.styles.get_key_value(id)) else {
                break;
            };
            if list.is_none() && style.numbered.list.is_some() {
                list = style.numbered.list.clone();
                of_list = Some(id);
            }
            level = level.or(style.numbered.level);
            next = style.based_on.as_ref();
        }
        let list = list.filter(|list| list != "0")?;
        if paragraph.level.is_none()
            && let Some(style) = of_list
        {
            level = self.level_of_style(&list, style).or(level);
        }
        Some((list, level.unwrap_or(0))).filter(|(_, level)| *level < LEVELS)
    }

    fn level_of_style(&self, list: &str, style: &str) -> Option<usize> {
        let (linked, definition) = self.resolved(list)?;
        let (instance, other) = (self.instances.get(list)?, self.instances.get(&linked)?);
        let definition = self.definitions.get(&definition)?;
        let of = |levels: &[Option<Level>; LEVELS]| {
            let is_own = |level: &Option<Level>| {
                level.as_ref().is_some_and(|level| level.style.as_deref() == Some(style))
            };
            levels.iter().position(is_own)
        };
        of(&instance.levels).or_else(|| of(&other.levels)).or_else(|| of(&definition.levels))
    }

    /// Follows the link of a list to another one, by its style; returns that, which is the list itself
    /// if it has no link, and its definition. What the list itself says comes first.
    fn resolved<'a>(&'a self, mut list: &'a str) -> Option<(String, String)> {
        for _ in 0..MAX_STEPS {
            let definition = &self.instances.get(list)?.definition;
            let Some(link) = &self.definitions.get(definition)?.link else {
                return Some((list.into(), definition.clone()));
            };
            list = self.styles.get(link)?.numbered.list.as_deref()?;
        }
        None
    }
}

/// What a level shows, with these numbers.
fn shown<'a>(
    own: &Level,
    numbers: &[u32; LEVELS],
    level: impl Fn(usize) -> Option<&'a Level>,
) -> String {
    if own.format == "bullet" {
        // The letter in a font that is wide and round.
        if own.text == "o" {
            return "◦".into();
        }
        return own.text.chars().map(bullet).collect();
    }
    let (mut shown, mut chars) = (String::new(), own.text.chars().peekable());
    while let Some(c) = chars.next() {
        let digit =
            chars.peek().and_then(|digit| digit.to_digit(10)).filter(|n| c == '%' && *n > 0);
        let Some(digit) = digit else {
            shown.push(c);
            continue;
        };
        chars.next();
        let at = digit as usize - 1;
        match level(at) {
            Some(of) if !own.is_legal => shown.push_str(&of.written(numbers[at])),
            _ => shown.push_str(&numbers[at].to_string()),
        }
    }
    shown
}

/// A bullet: fonts of symbols have theirs in an area for private use.
fn bullet(c: char) -> char {
    match c {
        '·' | '\u{e000}'..='\u{f8ff}' => '•',
        c => c,
    }
}
