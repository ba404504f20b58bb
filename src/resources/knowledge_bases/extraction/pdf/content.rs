//! Content streams: what they draw, in their order. Of all that only text and its place matter here.

use std::borrow::Cow;
use std::io::{Read as _, copy, sink};
use std::rc::Rc;
use std::time::Instant;

use flate2::bufread::DeflateDecoder;
use hayro_font::kurbo::{Affine, Point, Rect, Vec2};
use hayro_syntax::Filter;
use hayro_syntax::content::TypedIter;
use hayro_syntax::content::ops::TypedInstruction as Operator;
use hayro_syntax::object::dict::keys;
use hayro_syntax::object::{Array, Dict, Name, Number, Object, Stream, String as Bytes};
use hayro_syntax::page::Resources;

use super::fonts::{Font, Fonts};
use super::layout::{Layout, Placed};
use super::left_out::{LeftOut, Reason};
use super::strings;

/// Forms are drawn in forms at most 16 deep; a logo on a page on a printer's sheet is three.
const MAX_FORMS: usize = 16;

/// States are saved at most 1,000 deep, far more than viewers take.
const MAX_SAVED: usize = 1000;

/// The content of a page, and that of a form, has at most 64 MiB: a file of that size is a drawing.
pub const MAX_CONTENT_BYTES: usize = 64 * 1024 * 1024;

/// So many glyphs are shown before it is looked at the clock.
const GLYPHS_PER_LOOK: u64 = 1024;

/// What a text depends on.
#[derive(Clone)]
pub struct State<'a> {
    /// From the coordinates in use to those of the page.
    transform: Affine,
    font: Option<Rc<Font<'a>>>,
    size: f64,
    char_space: f64,
    word_space: f64,
    /// Horizontally.
    scale: f64,
    leading: f64,
    rise: f64,
}

impl State<'_> {
    /// Returns the state in which a page begins, or a form at this place.
    pub fn new(transform: Affine) -> Self {
        State {
            transform,
            font: None,
            size: 1.0,
            char_space: 0.0,
            word_space: 0.0,
            scale: 1.0,
            leading: 0.0,
            rise: 0.0,
        }
    }
}

/// Where the next glyph goes, and where its line began.
#[derive(Clone, Copy)]
struct Cursor {
    next: Affine,
    line: Affine,
}

impl Cursor {
    fn at(place: Affine) -> Self {
        Cursor { next: place, line: place }
    }

    fn next_line(&mut self, x: f64, y: f64) {
        *self = Cursor::at(self.line * Affine::translate((x, y)));
    }
}

/// Why a page is read no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    TooLong,
    Late,
}

/// How far a page may be read.
#[derive(Clone, Copy)]
pub struct Limits {
    pub text_bytes: usize,
    pub until: Instant,
}

/// Reads the text of a page.
pub struct Reader<'a, 'r> {
    fonts: &'r mut Fonts<'a>,
    left_out: &'r mut LeftOut,
    page: usize,
    limits: Limits,
    /// Glyphs elsewhere are not seen.
    visible: Rect,
    pub layout: Layout,
    pub stop: Option<Stop>,
    /// Whether a picture is drawn.
    pub has_pictures: bool,
    /// The forms that are being drawn, by where their dictionaries are.
    forms: Vec<*const u8>,
    /// For each marked content that is open, whether it says the text of its glyphs.
    marked: Vec<bool>,
    /// Whether one of them does.
    is_said: bool,
    /// The text that a marked content says for its glyphs, until the first of them takes it.
    said: Option<String>,
    /// How many glyphs were shown.
    glyphs: u64,
}

impl<'a, 'r> Reader<'a, 'r> {
    /// Begins a page; pages count from 1.
    pub fn new(
        fonts: &'r mut Fonts<'a>,
        left_out: &'r mut LeftOut,
        page: usize,
        limits: Limits,
    ) -> Self {
        Reader {
            fonts,
            left_out,
            page,
            limits,
            visible: Rect::new(f64::MIN, f64::MIN, f64::MAX, f64::MAX),
            layout: Layout::default(),
            stop: None,
            has_pictures: false,
            forms: Vec::new(),
            marked: Vec::new(),
            is_said: false,
            said: None,
            glyphs: 0,
        }
    }

    /// Leaves out glyphs that do not stand in a rectangle of the page.
    pub fn set_visible(&mut self, visible: Rect) {
        self.visible = visible;
    }

    /// Returns what a stream of the page has; of one that is damaged what can be had.
    pub fn decoded(&mut self, stream: &Stream<'a>) -> Cow<'a, [u8]> {
        match inflated(stream) {
            Inflated::Whole => {}
            Inflated::Broken => self.note_damage(),
            Inflated::TooLong => {
                self.note_damage();
                return Cow::Borrowed(&[]);
            }
        }
        stream.decoded_data().unwrap_or_else(|_| {
            self.note_damage();
            Cow::Borrowed(&[])
        })
    }

    /// Notes that a part of the page is damaged.
    pub fn note_damage(&mut self) {
        self.left_out.add(self.page, Reason::Damaged);
    }

    /// Reads a content stream.
    pub fn read(&mut self, data: &[u8], resources: &Resources<'a>, mut state: State<'a>) {
        let mut saved: Vec<State> = Vec::new();
        // What is open where a stream begins stays open, and what it opens ends with it.
        let outer = self.marked.len();
        let mut cursor = Cursor::at(Affine::IDENTITY);
        let mut operators = TypedIter::new(data);
        while let Some(operator) = operators.next()
            && !self.stops()
        {
            match operator {
                Operator::SaveState(_) if saved.len() < MAX_SAVED => saved.push(state.clone()),
                Operator::RestoreState(_) => state = saved.pop().unwrap_or(state),
                Operator::Transform(m) => {
                    state.transform *= matrix([m.0, m.1, m.2, m.3, m.4, m.5]);
                }
                Operator::SetGraphicsState(name) => {
                    let set = resources.get_ext_g_state(name.0);
                    if let Some(font) = set.and_then(|set| set.get::<Array>(keys::FONT)) {
                        let mut items = font.flex_iter();
                        let font = items.next::<Dict>();
                        state.font = Some(self.fonts.font(font.as_ref()));
                        state.size = items.next::<f64>().unwrap_or(state.size);
                    }
                }
                Operator::TextFont(font) => {
                    let dict = resources.get_font(font.0);
                    state.font = Some(self.fonts.font(dict.as_ref()));
                    state.size = font.1.as_f64();
                }
                Operator::XObject(name) => match resources.get_x_object(name.0) {
                    Some(object) => self.object(&object, resources, &state),
                    None => self.note_damage(),
                },
                Operator::InlineImage(_) => self.has_pictures = true,
                Operator::BeginMarkedContent(_) => self.begin_marked(None),
                Operator::BeginMarkedContentWithProperties(marked) => {
                    self.begin_marked(said(marked.1, resources));
                }
                Operator::EndMarkedContent(_) if self.marked.len() > outer => {
                    self.end_marked(&state, cursor);
                }
                other => self.text_operator(&other, &mut state, &mut cursor),
            }
        }
        while self.marked.len() > outer {
            self.end_marked(&state, cursor);
        }
    }

    fn end_marked(&mut self, state: &State<'a>, cursor: Cursor) {
        if self.marked.pop() != Some(true) {
            return;
        }
        self.is_said = false;
        // Its letters were drawn without a glyph.
        if let Some(said) = self.said.take() {
            let font = state.font.clone().unwrap_or_else(|| self.fonts.font(None));
            self.place(&said, Vec2::ZERO, &font, state, cursor.next);
        }
    }

    /// Whether the page is read no further.
    pub fn stops(&mut self) -> bool {
        if self.layout.len() > self.limits.text_bytes {
            self.stop = Some(Stop::TooLong);
        } else if Instant::now() > self.limits.until {
            self.stop = Some(Stop::Late);
        }
        self.stop.is_some()
    }

    fn text_operator(&mut self, operator: &Operator, state: &mut State<'a>, cursor: &mut Cursor) {
        let shown: &Bytes = match operator {
            Operator::BeginText(_) => return *cursor = Cursor::at(Affine::IDENTITY),
            Operator::CharacterSpacing(space) => return state.char_space = space.0.as_f64(),
            Operator::WordSpacing(space) => return state.word_space = space.0.as_f64(),
            Operator::HorizontalScaling(scale) => return state.scale = scale.0.as_f64() / 100.0,
            Operator::TextLeading(leading) => return state.leading = leading.0.as_f64(),
            Operator::TextRise(rise) => return state.rise = rise.0.as_f64(),
            Operator::NextLine(to) => return cursor.next_line(to.0.as_f64(), to.1.as_f64()),
            Operator::NextLineAndSetLeading(to) => {
                state.leading = -to.1.as_f64();
                return cursor.next_line(to.0.as_f64(), to.1.as_f64());
            }
            Operator::SetTextMatrix(m) => {
                return *cursor = Cursor::at(matrix([m.0, m.1, m.2, m.3, m.4, m.5]));
            }
            Operator::NextLineUsingLeading(_) => return cursor.next_line(0.0, -state.leading),
            Operator::ShowTexts(items) => {
                for item in items.0.iter::<Object>() {
                    if self.stop.is_some() {
                        return;
                    }
                    match item {
                        Object::String(text) => self.show(&text, state, cursor),
                        Object::Number(back) => kern(back.as_f64(), state, cursor),
                        _ => {}
                    }
                }
                return;
            }
            Operator::ShowText(text) => text.0,
            Operator::NextLineAndShowText(text) => {
                cursor.next_line(0.0, -state.leading);
                text.0
            }
            Operator::ShowTextWithParameters(text) => {
                (state.word_space, state.char_space) = (text.0.as_f64(), text.1.as_f64());
                cursor.next_line(0.0, -state.leading);
                text.2
            }
            _ => return,
        };
        self.show(shown, state, cursor);
    }

    fn begin_marked(&mut self, said: Option<String>) {
        // The outermost one counts.
        let says = said.is_some() && !self.is_said;
        if says {
            self.said = said;
            self.is_said = true;
        }
        self.marked.push(says);
    }

    fn object(&mut self, object: &Stream<'a>, resources: &Resources<'a>, state: &State<'a>) {
        match object.dict().get::<Name>(keys::SUBTYPE).as_deref() {
            Some(b"Form") => self.form(object, resources, state.clone()),
            Some(b"Image") => self.has_pictures = true,
            _ => {}
        }
    }

    /// Draws a form: a content stream of its own. One that draws itself is left out.
    pub fn form(&mut self, form: &Stream<'a>, resources: &Resources<'a>, mut state: State<'a>) {
        let dict = form.dict();
        let place = dict.data().as_ptr();
        if self.forms.len() >= MAX_FORMS || self.forms.contains(&place) {
            return;
        }
        let data = self.decoded(form);
        if let Some(own) = dict.get::<[f64; 6]>(keys::MATRIX) {
            state.transform *= Affine::new(own);
        }
        let own = dict.get::<Dict>(keys::RESOURCES).map(Resources::new);
        self.forms.push(place);
        self.read(&data, own.as_ref().unwrap_or(resources), state);
        self.forms.pop();
    }

    fn show(&mut self, bytes: &[u8], state: &State<'a>, cursor: &mut Cursor) {
        let font = state.font.clone().unwrap_or_else(|| self.fonts.font(None));
        let (mut at, mut shown, mut missing) = (0, 0, 0);
        while at < bytes.len() && self.layout.len() <= self.limits.text_bytes {
            self.glyphs += 1;
            if self.glyphs.is_multiple_of(GLYPHS_PER_LOOK) && self.stops() {
                break;
            }
            let (code, len) = font.code(bytes, at);
            at += len;
            let is_blank = len == 1 && code == 32;
            let space = state.char_space + if is_blank { state.word_space } else { 0.0 };
            let advance = font.advance(code) * state.size;
            let (glyph, step) = if font.is_horizontal() {
                let step = (advance.x + space) * state.scale;
                (Vec2::new(advance.x * state.scale, 0.0), Vec2::new(step, 0.0))
            } else {
                (Vec2::new(0.0, advance.y), Vec2::new(0.0, advance.y - space))
            };
            let text = font.text(code);
            shown += 1;
            let said = self.is_said.then(|| self.said.take().unwrap_or_default());
            match said.as_deref().or(text.as_deref()) {
                Some(text) => self.place(text, glyph, &font, state, cursor.next),
                None => missing += 1,
            }
            cursor.next *= Affine::translate(step);
        }
        if missing > 0 {
            self.left_out.add_characters(self.page, &font.name, missing, shown);
        }
    }

    fn place(&mut self, text: &str, glyph: Vec2, font: &Font, state: &State, next: Affine) {
        let place = state.transform * next;
        let [a, b, c, d, ..] = place.as_coeffs();
        let on_page = |v: Vec2| Vec2::new(a * v.x + c * v.y, b * v.x + d * v.y);
        let start = place * Point::new(0.0, state.rise);
        if !self.visible.contains(start) {
            return;
        }
        let runs = if font.is_horizontal() { Vec2::new(1.0, 0.0) } else { Vec2::new(0.0, -1.0) };
        let runs = on_page(runs * state.size.signum());
        // Text of no size runs nowhere.
        let direction = if runs.hypot() > 0.0 { runs / runs.hypot() } else { Vec2::new(1.0, 0.0) };
        let spacing = if font.is_horizontal() {
            Vec2::new(state.char_space * state.scale, 0.0)
        } else {
            Vec2::new(0.0, -state.char_space)
        };
        let scale = (a * d - b * c).abs().sqrt() * state.scale.abs().sqrt();
        self.layout.add(&Placed {
            text,
            start,
            end: start + on_page(glyph),
            direction,
            size: scale * state.size.abs() * font.size(),
            spacing: on_page(spacing).dot(direction),
        });
    }
}

/// What comes of inflating a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inflated {
    Whole,
    /// It is damaged or cut off.
    Broken,
    TooLong,
}

/// Tries to inflate a deflated stream. The library does not tell whether it breaks off: it gives what was
/// before; nor how long it is.
fn inflated(stream: &Stream) -> Inflated {
    let filters = stream.filters();
    if !matches!(filters.first(), Some(Filter::FlateDecode)) {
        return Inflated::Whole;
    }
    let raw = stream.raw_data();
    let deflated = match &*raw {
        [] => return Inflated::Whole, // Drawn as nothing.
        [first, second, rest @ ..]
            if first & 15 == 8 && u16::from_be_bytes([*first, *second]) % 31 == 0 =>
        {
            rest
        }
        all => all, // Without a header; some programs forget it.
    };
    let most = MAX_CONTENT_BYTES as u64;
    match copy(&mut DeflateDecoder::new(deflated).take(most + 1), &mut sink()) {
        Ok(len) if len > most => Inflated::TooLong,
        Ok(_) => Inflated::Whole,
        Err(_) => Inflated::Broken,
    }
}

fn matrix(numbers: [Number; 6]) -> Affine {
    Affine::new(numbers.map(|number| number.as_f64()))
}

/// Moves the next glyph back, by thousandths of the font size.
fn kern(back: f64, state: &State, cursor: &mut Cursor) {
    let step = -back / 1000.0 * state.size;
    let is_horizontal = state.font.as_ref().is_none_or(|font| font.is_horizontal());
    let step = if is_horizontal { (step * state.scale, 0.0) } else { (0.0, step) };
    cursor.next *= Affine::translate(step);
}

/// Returns what the properties of a marked content say for its text: words cut by a hyphen, ligatures,
/// letters that are drawn.
fn said(properties: &Object, resources: &Resources) -> Option<String> {
    let said = |dict: &Dict| dict.get::<Bytes>(b"ActualText").map(|said| strings::text(&said));
    match properties {
        Object::Dict(dict) => said(dict),
        Object::Name(name) => said(&resources.properties.get::<Dict>(name)?),
        _ => None,
    }
}
