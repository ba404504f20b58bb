//! What lies on a page: fields of forms with their values, notes and stamps.

use hayro_font::kurbo::Affine;
use hayro_syntax::object::dict::keys;
use hayro_syntax::object::{Array, Dict, Name, Object, Rect, Stream, String as Bytes};
use hayro_syntax::page::{Page, Resources};

use super::content::{Reader, State};
use super::strings;

/// Of an annotation (ISO 32000-2, 12.5.3): nobody sees it, or not on a screen.
const HIDDEN: u32 = 1 << 1 | 1 << 5;

/// Of a field: its value is a password.
const PASSWORD: i32 = 1 << 13;

/// Fields are in fields at most 16 deep.
const MAX_PARENTS: usize = 16;

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
        Some(b"Widget") => value(annotation),
        // Of links it is for those who cannot see them; popups show what their note has.
        Some(b"Link" | b"Popup") | None => None,
        Some(_) => annotation.get::<Bytes>(keys::CONTENTS).map(|text| strings::text(&text)),
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

/// Returns the value of a field: what was written or chosen. That of a password is not read.
fn value(field: &Dict) -> Option<String> {
    let flags = inherited(field, b"Ff").and_then(Object::into_i32).unwrap_or(0);
    if flags & PASSWORD != 0 {
        return None;
    }
    match inherited(field, b"V")? {
        Object::String(text) => Some(strings::text(&text)),
        Object::Array(chosen) => {
            let lines = chosen.iter::<Bytes>().map(|text| strings::text(&text));
            Some(lines.collect::<Vec<_>>().join("\n"))
        }
        _ => None,
    }
}

/// Returns an entry of a field, or of the field that it belongs to.
fn inherited<'a>(field: &Dict<'a>, key: &[u8]) -> Option<Object<'a>> {
    let mut field = field.clone();
    for _ in 0..MAX_PARENTS {
        if let Some(found) = field.get::<Object>(key) {
            return Some(found);
        }
        field = field.get::<Dict>(keys::PARENT)?;
    }
    None
}
