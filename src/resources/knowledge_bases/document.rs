//! The records of a document: itself, and the content that it has now or had before.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::Serialize;

use super::knowledge_base::{KnowledgeBase, Ordinal};
use crate::auth::User;
use crate::base::{Id, Name, Result, Time};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Record, Reference, upgrade_shorter,
};

crate::base::portable! {
/// A document of a knowledge base.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Document {
    pub id: Id<Document>,
    pub knowledge_base: Id<KnowledgeBase>,
    pub name: Name,
    pub media_type: MediaType,
    /// The bytes of what was sent: of the content, or of the file.
    pub size: u64,
    /// Its content.
    pub ordinal: Ordinal,
    pub created_at: Time,
    /// When it was last replaced.
    pub updated_at: Time,
    /// What of the file could not be read, in sentences.
    pub left_out: Vec<String>,
    /// The name of the character encoding of the file, if it was text in another one than UTF-8.
    pub charset: Option<String>,
    /// Who last replaced it; none if an earlier release or the server itself did.
    pub updated_by: Option<Id<User>>,
}
}

/// What a document was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum MediaType {
    #[serde(rename = "text/plain")]
    Text,
    #[serde(rename = "text/markdown")]
    Markdown,
    #[serde(rename = "text/csv")]
    Csv,
    #[serde(rename = "application/pdf")]
    Pdf,
    #[serde(rename = "application/vnd.openxmlformats-officedocument.wordprocessingml.document")]
    Docx,
    #[serde(rename = "text/html")]
    Html,
    #[serde(rename = "application/rtf")]
    Rtf,
    #[serde(rename = "application/epub+zip")]
    Epub,
    #[serde(rename = "application/vnd.openxmlformats-officedocument.presentationml.presentation")]
    Pptx,
    #[serde(rename = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet")]
    Xlsx,
    #[serde(rename = "application/vnd.oasis.opendocument.text")]
    Odt,
    #[serde(rename = "application/vnd.oasis.opendocument.spreadsheet")]
    Ods,
    #[serde(rename = "application/vnd.oasis.opendocument.presentation")]
    Odp,
}
crate::store::stored_enum!(MediaType {
    Text = 0,
    Markdown = 1,
    Csv = 2,
    Pdf = 3,
    Docx = 4,
    Html = 5,
    Rtf = 6,
    Epub = 7,
    Pptx = 8,
    Xlsx = 9,
    Odt = 10,
    Ods = 11,
    Odp = 12,
});

impl MediaType {
    /// The names under which a file may be uploaded: two have another one that is in use, too.
    pub const NAMED: [(&'static str, Self); 15] = [
        ("text/plain", MediaType::Text),
        ("text/markdown", MediaType::Markdown),
        ("text/csv", MediaType::Csv),
        ("text/html", MediaType::Html),
        ("application/xhtml+xml", MediaType::Html),
        ("application/pdf", MediaType::Pdf),
        ("application/rtf", MediaType::Rtf),
        ("text/rtf", MediaType::Rtf),
        ("application/epub+zip", MediaType::Epub),
        (
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            MediaType::Docx,
        ),
        (
            "application/vnd.openxmlformats-officedocument.presentationml.presentation",
            MediaType::Pptx,
        ),
        ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", MediaType::Xlsx),
        ("application/vnd.oasis.opendocument.text", MediaType::Odt),
        ("application/vnd.oasis.opendocument.spreadsheet", MediaType::Ods),
        ("application/vnd.oasis.opendocument.presentation", MediaType::Odp),
    ];

    /// Whether a file of it is text in some character encoding, which it may not say itself.
    pub fn is_decoded(self) -> bool {
        use MediaType::{Csv, Html, Markdown, Text};
        matches!(self, Text | Markdown | Csv | Html)
    }

    /// The names alone.
    pub const NAMES: &'static [&'static str] = &{
        let mut names = [""; Self::NAMED.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = Self::NAMED[at].0;
            at += 1;
        }
        names
    };

    /// Returns the type with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(own, _)| *own == name).map(|(_, media_type)| *media_type)
    }
}

static KNOWLEDGE_BASE: Reference<Document, KnowledgeBase> = Reference::cascade(
    &["knowledge_base"],
    |base: &KnowledgeBase| base.id.to_bytes(),
    |document: &Document, _| vec![document.knowledge_base.to_bytes()],
)
.deferred();

impl Record for Document {
    const TABLE: &'static str = "documents";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&KNOWLEDGE_BASE];
    const VERSION: u8 = 3;
    type Key = (Id<KnowledgeBase>, Id<Document>);
    fn key(&self) -> Self::Key {
        (self.knowledge_base, self.id)
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 2, body)
    }
}

crate::base::portable! {
/// A content: the head of its texts and its words. It stays after its document was replaced or
/// deleted, until its words are out of the index.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct DocumentContent {
    pub knowledge_base: Id<KnowledgeBase>,
    pub ordinal: Ordinal,
    pub document: Id<Document>,
    /// The number of words in its text.
    pub words: u32,
    pub created_at: Time,
    /// Whether all of its texts and words are stored; they are written in several transactions.
    pub is_complete: bool,
}
}

/// Contents that are not complete, by the time at which they began.
pub static INCOMPLETE: Index<DocumentContent, Time> =
    Index::non_unique("document_contents.incomplete", |content| {
        (!content.is_complete).then_some(content.created_at)
    });

static OF_BASE: Reference<DocumentContent, KnowledgeBase> = Reference::cascade(
    &["knowledge_base"],
    |base: &KnowledgeBase| base.id.to_bytes(),
    |content: &DocumentContent, _| vec![content.knowledge_base.to_bytes()],
)
.deferred();

impl Record for DocumentContent {
    const TABLE: &'static str = "document_contents";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&INCOMPLETE];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&OF_BASE];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("document", "begins before its document, and ends when its words left the index")];
    type Key = (Id<KnowledgeBase>, Ordinal);
    fn key(&self) -> Self::Key {
        (self.knowledge_base, self.ordinal)
    }
}
