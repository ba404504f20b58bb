//! What lies on a page: fields of forms with their values, notes and stamps.

use std::collections::{HashMap, HashSet};

use hayro_font::kurbo::Affine;
use hayro_syntax::object::dict::keys;
use hayro_syntax::object::{Array, Dict, Name, Object, Rect, Stream, String as Bytes};
use hayro_syntax::page::{Page, Resources};

use super::super::html;
use super::super::text::MAX_TEXT_BYTES;
use super::content::{Reader, State, Stop};
use super::strings;

/// Of an annotation (ISO 32000-2, 12.5.3): nobody sees it, or not on a screen.
const HIDDEN: u32 = 1 << 1 | 1 << 5;

/// Of a field: its value is a password.
const PASSWORD: i32 = 1 << 13;

/// Fields are in fields at most 16 deep.
const MAX_PARENTS: usize = 16;

/// Text with markup is read up to this length; notes are written by hand.
const MAX_MARKUP_BYTES: usize = 4 * 1024 * 1024;

/// Reads the annotations of a page: as they are drawn, and what is written in them besides.
pub fn read<'a>(page: &Page<'a>, reader: &mut Reader<'a, '_>) {
    let Some(all) = page.raw().get::<Array>(keys::ANNOTS) else { return };
    for annotation in all.iter::<Dict>() {
        let flags = annotation.get::<u32>(keys::F).unwrap_or(0);
        if reader.stops() {
            return;
        }
        if flags & HIDDEN == 0 {
            read_one(&annotation, page.resources(), reader);
        }
    }
}

fn read_one<'a>(annotation: &Dict<'a>, resources: &Resources<'a>, reader: &mut Reader<'a, '_>) {
    reader.layout.end_line();
    let since = reader.layout.len();
    if let Some(drawn) = appearance(annotation) {
        let rect = annotation.get::<Rect>(keys::RECT);
        let place = rect.map_or((0.0, 0.0), |rect| (rect.x0, rect.y0));
        reader.form(&drawn, resources, State::new(Affine::translate(place)));
    }
    let written = match annotation.get::<Name>(keys::SUBTYPE).as_deref() {
        Some(b"Widget") => value(annotation, reader),
        // Of links it is for those who cannot see them; popups show what their note has.
        Some(b"Link" | b"Popup") | None => None,
        Some(_) => annotation
            .get::<Object>(keys::CONTENTS)
            .and_then(|text| string(&text, reader))
            .filter(|text| !text.trim().is_empty())
            .or_else(|| without_markup(&annotation.get::<Object>(b"RC")?, reader)),
    };
    if let Some(written) = written {
        reader.layout.add_lines(&written, since);
    }
}

/// Returns how an annotation is drawn, in the state that it has.
fn appearance<'a>(annotation: &Dict<'a>) -> Option<Stream<'a>> {
    match annotation.get::<Dict>(keys::AP)?.get::<Object>(keys::N)? {
        Object::Stream(drawn) => Some(drawn),
        Object::Dict(states) => states.get::<Stream>(&*annotation.get::<Name>(keys::AS)?),
        _ => None,
    }
}

/// Returns the value of a field: what was written, or the names of what was chosen. That of a password is
/// not read.
fn value<'a>(field: &Dict<'a>, reader: &mut Reader<'a, '_>) -> Option<String> {
    let flags = inherited(field, b"Ff").and_then(Object::into_i32).unwrap_or(0);
    if flags & PASSWORD != 0 {
        return None;
    }
    let values: Vec<String> = match inherited(field, b"V") {
        Some(Object::Array(all)) => {
            let all = all.iter::<Bytes>().map(|text| strings::text(&text));
            bounded(all.take_while(|_| !reader.stops()))
        }
        // Of a button it is the state in which it is drawn.
        Some(Object::Name(name)) if !is_button(field) => vec![name.as_str().to_string()],
        Some(one) => string(&one, reader).into_iter().collect(),
        None => Vec::new(),
    };
    let values = match inherited(field, b"Opt") {
        Some(Object::Array(options)) => chosen(values, &options, inherited(field, b"I"), reader),
        _ => values,
    };
    if values.iter().all(|value| value.trim().is_empty()) {
        return without_markup(&inherited(field, b"RV")?, reader);
    }
    Some(values.join("\n"))
}

fn is_button(field: &Dict) -> bool {
    let kind = inherited(field, b"FT").and_then(Object::into_name);
    kind.is_some_and(|kind| *kind == *b"Btn")
}

/// Returns the names that people see for values that were chosen of these options; without values, of
/// those at the places that the field gives.
fn chosen(
    values: Vec<String>,
    options: &Array,
    places: Option<Object>,
    reader: &mut Reader,
) -> Vec<String> {
    let places = places.and_then(Object::into_array).filter(|_| values.is_empty());
    let places: HashSet<usize> = places.iter().flat_map(|places| places.iter::<usize>()).collect();
    let mut names: HashMap<String, Option<String>> =
        values.iter().map(|value| (value.clone(), None)).collect();
    let text = |text: Bytes| strings::text(&text);
    let (mut at_places, mut bytes) = (Vec::new(), 0);
    for (place, option) in options.iter::<Object>().enumerate() {
        // All that is kept is shown, and too long then.
        if bytes > MAX_TEXT_BYTES || reader.stops() {
            break;
        }
        let (own, shown) = match option {
            Object::Array(pair) => {
                let mut pair = pair.iter::<Bytes>().map(text);
                (pair.next(), pair.next())
            }
            Object::String(one) => (Some(text(one)), None),
            _ => continue,
        };
        if places.contains(&place) {
            let name = shown.or(own).unwrap_or_default();
            bytes += name.len();
            at_places.push(name);
        } else if let Some(name @ None) = own.and_then(|own| names.get_mut(&own)) {
            bytes += shown.as_ref().map_or(0, String::len);
            *name = shown;
        }
    }
    let name = |value: String| names.get(&value).cloned().flatten().unwrap_or(value);
    bounded(values.into_iter().map(name).chain(at_places))
}

/// Returns the first of these texts, up to what is more than a file may have: that is an error then.
fn bounded(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut bytes = 0;
    let fits = |text: &String| {
        let is_first_beyond = bytes <= MAX_TEXT_BYTES;
        bytes += text.len();
        is_first_beyond
    };
    texts.take_while(fits).collect()
}

/// Returns a text that may be a string or, as long ones are, a stream.
fn string<'a>(object: &Object<'a>, reader: &mut Reader<'a, '_>) -> Option<String> {
    match object {
        Object::String(text) => Some(strings::text(text)),
        Object::Stream(text) => Some(strings::text(&reader.decoded(text))),
        _ => None,
    }
}

/// Returns rich text (XHTML) as it is shown.
fn without_markup<'a>(rich: &Object<'a>, reader: &mut Reader<'a, '_>) -> Option<String> {
    let rich = string(rich, reader)?;
    if rich.len() > MAX_MARKUP_BYTES {
        reader.note_damage();
        return None;
    }
    let shown = html::text(&rich);
    if shown.is_err() {
        reader.stop = Some(Stop::TooLong);
    }
    shown.ok()
}

/// Returns an entry of a field, or of the field that it belongs to.
fn inherited<'a>(field: &Dict<'a>, key: &[u8]) -> Option<Object<'a>> {
    let mut field = field.clone();
    for _ in 0..MAX_PARENTS {
        let found = field.get::<Object>(key);
        if let Some(found) = found.filter(|found| !matches!(found, Object::Null(_))) {
            return Some(found);
        }
        field = field.get::<Dict>(keys::PARENT)?;
    }
    None
}
