//! Fonts: which characters the codes of a string stand for, and how wide they are.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use hayro_cmap::{BfString, CMap, CMapName, CidFamily, load_embedded};
use hayro_font::kurbo::Vec2;
use hayro_font::{CMapResolverFn, FontCache, FontGlyph, FontResolverFn, GlyphId, StandardFont};
use hayro_syntax::object::dict::keys;
use hayro_syntax::object::{Array, Dict, Name, Object, Stream, String as Bytes};
use skrifa::{FontRef, MetadataProvider as _};

/// A font program without glyphs: nothing is drawn here, and widths of the standard fonts are known
/// without their programs.
const NO_PROGRAM: &[u8] = b"\0\x01\0\0\0\0\0\0\0\0\0\0";

/// Widths are in thousandths of the font size.
const UNITS: f64 = 1000.0;

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
}

impl<'a> Fonts<'a> {
    /// Begins without any.
    pub fn new() -> Self {
        Fonts {
            cache: FontCache::new(),
            known: HashMap::new(),
            programs: Arc::new(|_| Some((Arc::new(NO_PROGRAM), 0))),
            cmaps: Arc::new(load_embedded),
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
        let standard = || self.cache.standard_font(StandardFont::Helvetica, &self.programs);
        Font {
            font: own.or_else(|| if is_type0 { None } else { standard() }),
            name: name(keys::BASE_FONT).unwrap_or_else(|| "without a name".into()),
            is_type3: kind == "Type3",
            more: Fallbacks {
                composite: is_type0.then(|| dict.clone()),
                collection: OnceCell::new(),
                to_unicode: named_or_embedded(dict, keys::TO_UNICODE),
                names: if is_type0 { HashMap::new() } else { names(dict) },
                program: OnceCell::new(),
            },
            texts: RefCell::default(),
            widest: Cell::default(),
        }
    }
}

impl Font<'_> {
    /// Returns the code at a position of a string, and of how many bytes it is.
    pub fn code(&self, bytes: &[u8], at: usize) -> (u32, usize) {
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
        let font = self.font.as_ref()?;
        let (text, glyph, program) = match font.glyph(font.map_code(code), code) {
            FontGlyph::Outline(glyph) => (glyph.as_unicode(), glyph.glyph_id(), glyph.font_data()),
            FontGlyph::Type3(glyph) => (glyph.as_unicode(), GlyphId::NOTDEF, None),
        };
        let of_program = || {
            let read =
                || program.map(|program| chars((*program.data).as_ref())).unwrap_or_default();
            self.more.program.get_or_init(read).get(&glyph.to_u32()).copied().map(String::from)
        };
        text.and_then(string).or_else(|| self.more.text(code)).or_else(of_program)
    }
}

impl Fallbacks<'_> {
    fn text(&self, code: u32) -> Option<String> {
        let of_collection = || {
            let read = || self.composite.as_ref().and_then(collection);
            let (numbers, chars) = self.collection.get_or_init(read).as_ref()?;
            string(chars.lookup_bf_string(number(numbers, code)?)?)
        };
        let of_map = || char::from_u32(number(self.to_unicode.as_ref()?, code)?);
        // `a65` or `C41` for 65: TeX and others name drawn glyphs by their codes in ASCII.
        let of_name = || {
            let digits =
                self.names.get(&code)?.trim_start_matches(|c: char| c.is_ascii_alphabetic());
            let is_code = digits.parse() == Ok(code) || u32::from_str_radix(digits, 16) == Ok(code);
            char::from_u32(code).filter(|c| is_code && c.is_ascii_graphic())
        };
        of_collection().or_else(|| of_map().or_else(of_name).map(String::from))
    }
}

/// Returns the number that a CMap has for a code.
fn number(cmap: &CMap, code: u32) -> Option<u32> {
    (1..=4).find_map(|len| cmap.lookup_cid_code(code, len))
}

/// Returns what a CMap says, unless that is no character.
fn string(found: BfString) -> Option<String> {
    let text = match found {
        BfString::Char(c) => c.to_string(),
        BfString::String(text) => text,
    };
    let is_none = |c| matches!(c, '\0' | char::REPLACEMENT_CHARACTER);
    (!text.chars().all(is_none)).then_some(text)
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
                names.insert(code, name.as_str().to_string());
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
        if let Some(c) = char::from_u32(code).filter(|c| !matches!(c, '\u{e000}'..='\u{f8ff}')) {
            chars.entry(glyph.to_u32()).or_insert(c);
        }
    }
    chars
}
