//! Fonts: which characters the codes of a string stand for, and how wide they are.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use hayro_cmap::{BfString, CMap, CMapName, CidFamily, load_embedded};
use hayro_font::kurbo::Vec2;
use hayro_font::{CMapResolverFn, FontCache, FontGlyph, FontResolverFn, GlyphId, StandardFont};
use hayro_syntax::object::dict::keys;
use hayro_syntax::object::{Array, Dict, FromBytes as _, Name, Object, Stream, String as Bytes};
use skrifa::{FontRef, MetadataProvider as _};

use super::unicode::{self, Form, code_of_symbol, is_private, readable};

/// A font program without glyphs: nothing is drawn here, and widths of the standard fonts are known
/// without their programs.
const NO_PROGRAM: &[u8] = b"\0\x01\0\0\0\0\0\0\0\0\0\0";

/// Widths are in thousandths of the font size.
const UNITS: f64 = 1000.0;

/// Longer names of glyphs are none (ISO 32000-1, annex C).
const MAX_NAME_BYTES: usize = 127;

/// The fonts of a file.
pub struct Fonts<'a> {
    cache: FontCache<'a>,
    /// By where their dictionaries are.
    known: HashMap<*const u8, Rc<Font<'a>>>,
    programs: FontResolverFn,
    cmaps: CMapResolverFn,
}

/// A font.
pub struct Font<'a> {
    /// None if it cannot be read.
    font: Option<hayro_font::Font<'a>>,
    pub name: String,
    is_type3: bool,
    /// How its codes are characters, if they are.
    form: Option<Form>,
    more: Fallbacks<'a>,
    texts: RefCell<HashMap<u32, Option<Rc<str>>>>,
    widest: Cell<f64>,
}

/// What says which characters the codes are if nothing else does.
struct Fallbacks<'a> {
    /// The dictionary of a font that may be of a collection (Chinese, Japanese, Korean).
    composite: Option<Dict<'a>>,
    /// The numbers of its collection by code, and the characters by number: some megabytes, so that they
    /// are read once something is asked of them.
    collection: OnceCell<Option<(CMap, CMap)>>,
    /// What should say the characters, but is of the kind that says numbers: those are characters then.
    to_unicode: Option<CMap>,
    /// The names of the glyphs by code.
    names: HashMap<u32, String>,
    /// The characters of the font program by glyph.
    program: OnceCell<HashMap<u32, char>>,
    symbols: Option<Symbols<'a>>,
}

/// A font of symbols, whose codes others map to characters for private use.
enum Symbols<'a> {
    /// Greek letters, and signs of mathematics; the font that has them by these codes.
    Greek(hayro_font::Font<'a>),
    Wingdings,
    /// One that has only pictures.
    Pictures,
}

impl<'a> Fonts<'a> {
    /// Begins without any.
    pub fn new() -> Self {
        Fonts {
            cache: FontCache::new(),
            known: HashMap::new(),
            programs: Arc::new(|_| Some((Arc::new(NO_PROGRAM), 0))),
            cmaps: Arc::new(|name| load_embedded(name).or_else(|| unicode::table(name))),
        }
    }

    /// Returns the font of a dictionary; of none a standard one, as other programs do.
    pub fn font(&mut self, dict: Option<&Dict<'a>>) -> Rc<Font<'a>> {
        let key = dict.map_or(std::ptr::null(), |dict| dict.data().as_ptr());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let font = Rc::new(self.new_font(dict.unwrap_or(&Dict::empty())));
        self.known.insert(key, font.clone());
        font
    }

    fn new_font(&self, dict: &Dict<'a>) -> Font<'a> {
        let name = |key| dict.get::<Name>(key).map(|name| name.as_str().to_string());
        let kind = name(keys::SUBTYPE).unwrap_or_default();
        let is_type0 = kind == "Type0";
        let own = self.cache.font(dict, &self.programs, &self.cmaps);
        let standard = |font| self.cache.standard_font(font, &self.programs);
        let encoding = dict.get::<Name>(keys::ENCODING).filter(|_| is_type0);
        let base_font = name(keys::BASE_FONT);
        let symbols = base_font.as_deref().and_then(|base_font| symbols(base_font, standard));
        let without = || if is_type0 { None } else { standard(StandardFont::Helvetica) };
        Font {
            font: own.or_else(without),
            name: base_font.unwrap_or_else(|| "without a name".into()),
            is_type3: kind == "Type3",
            form: encoding.and_then(|encoding| Form::named(&encoding)),
            more: Fallbacks {
                composite: is_type0.then(|| dict.clone()),
                collection: OnceCell::new(),
                to_unicode: named_or_embedded(dict, keys::TO_UNICODE),
                names: if is_type0 { HashMap::new() } else { names(dict) },
                program: OnceCell::new(),
                symbols,
            },
            texts: RefCell::default(),
            widest: Cell::default(),
        }
    }
}

impl Font<'_> {
    /// Returns the code at a position of a string, and of how many bytes it is.
    pub fn code(&self, bytes: &[u8], at: usize) -> (u32, usize) {
        if let Some(form) = self.form {
            let (c, len) = form.read(bytes, at);
            return (c.map_or(u32::MAX, unicode::utf16), len);
        }
        match &self.font {
            Some(font) => {
                let (code, len) = font.read_code(bytes, at);
                (code, len.max(1))
            }
            None => (0, 2), // As nearly all fonts with large codes.
        }
    }

    /// Returns how far the next glyph is from that of a code, in font sizes.
    pub fn advance(&self, code: u32) -> Vec2 {
        let Some(font) = &self.font else { return Vec2::new(1.0, 0.0) };
        let advance = font.code_advance(code) / UNITS;
        self.widest.set(self.widest.get().max(advance.x.abs()));
        advance
    }

    /// Whether its text runs to the right, and not down.
    pub fn is_horizontal(&self) -> bool {
        self.font.as_ref().is_none_or(|font| font.is_horizontal())
    }

    /// Returns how large it looks, in font sizes. Glyphs that are drawings (Type 3) have any size; their
    /// widest one so far is about as wide as letters are high.
    pub fn size(&self) -> f64 {
        if self.is_type3 && self.widest.get() > 0.0 { self.widest.get() } else { 1.0 }
    }

    /// Returns what a code stands for, unless nothing says it.
    pub fn text(&self, code: u32) -> Option<Rc<str>> {
        let mut texts = self.texts.borrow_mut();
        texts.entry(code).or_insert_with(|| self.look_up(code).map(Rc::from)).clone()
    }

    fn look_up(&self, code: u32) -> Option<String> {
        let of_code = self.form.and_then(|_| readable(&unicode::char(code)?.to_string()));
        if of_code.is_some() {
            return of_code;
        }
        let font = self.font.as_ref()?;
        let glyph = font.map_code(code);
        let (said, program) = match font.glyph(glyph, code) {
            FontGlyph::Outline(glyph) => (glyph.as_unicode(), glyph.font_data()),
            FontGlyph::Type3(glyph) => (glyph.as_unicode(), None),
        };
        let said = said.map(string);
        if let Some(text) = said.as_deref().and_then(readable) {
            return Some(text);
        }
        // The code of a symbol is that of another sign in any encoding.
        if let Some(symbols) = &self.more.symbols
            && let Some(code) = said.as_deref().and_then(only).and_then(code_of_symbol)
        {
            return symbols.char(code).map(String::from);
        }
        let of_program = || {
            let read =
                || program.map(|program| chars((*program.data).as_ref())).unwrap_or_default();
            self.more.program.get_or_init(read).get(&glyph.to_u32()).copied().map(String::from)
        };
        let of_encoding = || self.of_encoding(font, glyph, code);
        of_encoding().or_else(|| self.more.text(code)).or_else(of_program)
    }

    /// Returns what the encoding of a font of small codes says, whatever its map to characters says.
    fn of_encoding(&self, font: &hayro_font::Font, glyph: GlyphId, code: u32) -> Option<String> {
        if self.more.composite.is_some() {
            return None;
        }
        // The library looks up a code in the map as it is, and its last byte in the encoding.
        match font.glyph(glyph, code | !0xff) {
            FontGlyph::Outline(glyph) => readable(&string(glyph.as_unicode()?)),
            FontGlyph::Type3(_) => readable(&named(self.more.names.get(&code)?)?),
        }
    }
}

impl Fallbacks<'_> {
    fn text(&self, code: u32) -> Option<String> {
        let of_collection = || {
            let read = || self.composite.as_ref().and_then(collection);
            let (numbers, chars) = self.collection.get_or_init(read).as_ref()?;
            readable(&string(chars.lookup_bf_string(number(numbers, code)?)?))
        };
        let of_map = || {
            let c = char::from_u32(number(self.to_unicode.as_ref()?, code)?)?;
            readable(c.encode_utf8(&mut [0; 4]))
        };
        // `a65` or `C41` for 65: TeX and others name drawn glyphs by their codes in ASCII.
        let of_name = || {
            let digits =
                self.names.get(&code)?.trim_start_matches(|c: char| c.is_ascii_alphabetic());
            let is_code = digits.parse() == Ok(code) || u32::from_str_radix(digits, 16) == Ok(code);
            char::from_u32(code).filter(|c| is_code && c.is_ascii_graphic())
        };
        of_collection().or_else(of_map).or_else(|| of_name().map(String::from))
    }
}

impl Symbols<'_> {
    fn char(&self, code: u32) -> Option<char> {
        match self {
            Symbols::Greek(font) => match font.glyph(GlyphId::NOTDEF, code) {
                FontGlyph::Outline(glyph) => only(&readable(&string(glyph.as_unicode()?))?),
                FontGlyph::Type3(_) => None,
            },
            Symbols::Wingdings => unicode::wingdings(code),
            Symbols::Pictures => None,
        }
    }
}

/// Returns which font of symbols has this name, as that of a part of it may be: `ABCDEF+SymbolMT`.
fn symbols<'a>(
    base_font: &str,
    standard: impl Fn(StandardFont) -> Option<hayro_font::Font<'a>>,
) -> Option<Symbols<'a>> {
    let name = base_font.split_once('+').map_or(base_font, |(_, name)| name);
    if name.starts_with("Symbol") {
        return standard(StandardFont::Symbol).map(Symbols::Greek);
    }
    match name.strip_prefix("Wingdings") {
        // Wingdings 2 and 3 are others.
        Some(more) if !more.contains(['2', '3']) => Some(Symbols::Wingdings),
        Some(_) => Some(Symbols::Pictures),
        None => name.starts_with("Webdings").then_some(Symbols::Pictures),
    }
}

/// Returns what a name of a glyph stands for. The library tells it of fonts only.
fn named(name: &str) -> Option<String> {
    let escaped: String = name.bytes().map(|byte| format!("#{byte:02x}")).collect();
    let dict = format!(
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica \
         /Encoding << /Differences [1 /{escaped}] >> >>"
    );
    let programs: FontResolverFn = Arc::new(|_| Some((Arc::new(NO_PROGRAM), 0)));
    let cmaps: CMapResolverFn = Arc::new(|_| None);
    let font = FontCache::new().font(&Dict::from_bytes(dict.as_bytes())?, &programs, &cmaps)?;
    match font.glyph(GlyphId::NOTDEF, 1) {
        FontGlyph::Outline(glyph) => glyph.as_unicode().map(string),
        FontGlyph::Type3(_) => None,
    }
}

/// Returns the character of a text of one.
fn only(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

/// Returns the number that a CMap has for a code.
fn number(cmap: &CMap, code: u32) -> Option<u32> {
    (1..=4).find_map(|len| cmap.lookup_cid_code(code, len))
}

/// Returns what a CMap says.
fn string(found: BfString) -> String {
    match found {
        BfString::Char(c) => c.to_string(),
        BfString::String(text) => text,
    }
}

/// Returns the CMap of a dictionary: one that everybody has, by its name, or one in the file.
fn named_or_embedded(dict: &Dict, key: &[u8]) -> Option<CMap> {
    let parsed = |data: &[u8]| CMap::parse(data, load_embedded);
    match dict.get::<Name>(key) {
        Some(name) => parsed(load_embedded(CMapName::from_bytes(&name))?),
        None => parsed(&dict.get::<Stream>(key)?.decoded_data().ok()?),
    }
}

/// Returns the CMaps of a font with one of the collections of Adobe.
fn collection(dict: &Dict) -> Option<(CMap, CMap)> {
    let numbers = named_or_embedded(dict, keys::ENCODING)?;
    let of_encoding = numbers.metadata().character_collection.as_ref();
    let chars = match of_encoding.and_then(|collection| collection.family.ucs2_cmap()) {
        Some(chars) => chars,
        None => {
            let font = dict.get::<Array>(keys::DESCENDANT_FONTS)?.iter::<Dict>().next()?;
            let info = font.get::<Dict>(b"CIDSystemInfo")?;
            let name = |key: &[u8]| info.get::<Bytes>(key);
            let (registry, ordering) = (name(keys::REGISTRY)?, name(keys::ORDERING)?);
            CidFamily::from_registry_ordering(&registry, &ordering).ucs2_cmap()?
        }
    };
    Some((numbers, CMap::parse(load_embedded(chars)?, load_embedded)?))
}

/// Returns the names of the glyphs that a font gives to codes.
fn names(dict: &Dict) -> HashMap<u32, String> {
    let encoding = dict.get::<Dict>(keys::ENCODING);
    let differences = encoding.and_then(|encoding| encoding.get::<Array>(keys::DIFFERENCES));
    let (mut names, mut code) = (HashMap::new(), 0_u32);
    for item in differences.iter().flat_map(|all| all.iter::<Object>()) {
        match item {
            Object::Number(number) => code = u32::try_from(number.as_i64()).unwrap_or(0),
            Object::Name(name) => {
                if name.len() <= MAX_NAME_BYTES {
                    names.insert(code, name.as_str().to_string());
                }
                code = code.saturating_add(1);
            }
            _ => {}
        }
    }
    names
}

/// Returns the characters of a font program (TrueType, OpenType) by glyph; not those that everybody
/// uses as they like.
fn chars(program: &[u8]) -> HashMap<u32, char> {
    let mut chars = HashMap::new();
    let Ok(font) = FontRef::new(program) else { return chars };
    for (code, glyph) in font.charmap().mappings() {
        if let Some(c) = char::from_u32(code).filter(|c| !is_private(*c)) {
            chars.entry(glyph.to_u32()).or_insert(c);
        }
    }
    chars
}
