//! The records of a document: itself, and the content that it has now or had before.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::Serialize;

use super::knowledge_base::{KnowledgeBase, Ordinal};
use crate::base::{Id, Name, Result, Time};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Record, Reference, codec, no_upgrade,
};

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
}
crate::base::portable!(Document {
    id,
    knowledge_base,
    name,
    media_type,
    size,
    ordinal,
    created_at,
    updated_at,
    left_out
});

/// Before it was told what is left out.
#[derive(Decode)]
struct DocumentV1 {
    id: Id<Document>,
    knowledge_base: Id<KnowledgeBase>,
    name: Name,
    media_type: MediaType,
    size: u64,
    ordinal: Ordinal,
    created_at: Time,
    updated_at: Time,
}

impl From<DocumentV1> for Document {
    fn from(old: DocumentV1) -> Self {
        let DocumentV1 { id, knowledge_base, name, media_type, size, ordinal, .. } = old;
        let DocumentV1 { created_at, updated_at, .. } = old;
        let left_out = Vec::new();
        Document {
            id,
            knowledge_base,
            name,
            media_type,
            size,
            ordinal,
            created_at,
            updated_at,
            left_out,
        }
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
}
crate::store::stored_enum!(MediaType { Text = 0, Markdown = 1, Csv = 2, Pdf = 3, Docx = 4 });

impl MediaType {
    /// The names under which a file may be uploaded.
    pub const NAMES: &'static [&'static str] = &[
        "text/plain",
        "text/markdown",
        "text/csv",
        "application/pdf",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ];

    /// Returns the type with this name.
    pub fn named(name: &str) -> Option<Self> {
        use MediaType::{Csv, Docx, Markdown, Pdf, Text};
        let at = Self::NAMES.iter().position(|own| *own == name)?;
        [Text, Markdown, Csv, Pdf, Docx].get(at).copied()
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
    const VERSION: u8 = 2;
    type Key = (Id<KnowledgeBase>, Id<Document>);
    fn key(&self) -> Self::Key {
        (self.knowledge_base, self.id)
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        match version {
            1 => Ok(codec::decode_body::<DocumentV1>(body)?.into()),
            _ => Err(no_upgrade::<Self>(version)),
        }
    }
}

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
crate::base::portable!(DocumentContent {
    knowledge_base,
    ordinal,
    document,
    words,
    created_at,
    is_complete
});

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
